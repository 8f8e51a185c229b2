"""Every byte, cycle and count that a heuristic of a pass compares with: what one tunes for a new processor.

Passes read these numbers when they run (`machine.MIN_BYTES_SAVED`), so a test replaces one with
`mock.patch.object(machine_model, "MIN_BYTES_SAVED", 0)` and sees a pass at work on a small program. No number here
decides whether a transformation is legal: whatever the values, results are the same up to the order of summation. What
a backend knows of its target (sizes of caches, vectors, registers) is in `ir.capabilities`; the factors that passes
apply to it are here. The order of summation follows from some of these numbers, and must be the same on all machines
with equal vectors: so they are constants, and do not depend on the caches at hand.

The cost model of tiles remembers what it has computed (`plan.model`): its numbers stay as they are in a process.
"""

from __future__ import annotations

from math import prod

from ocannl.ir.work import STRETCH

# --- caches and memory -----------------------------------------------------------------------------------------------

LINE_BYTES = 64  # of a cache line
ELEMENTS_PER_LINE = 16  # float32
L1_ELEMENTS = 1 << 13  # float32 in a first-level cache of 32 KiB
L1_MIN_WAYS = 4  # associativity of a first-level cache, at least
CONFLICT_STRIDE_BYTES = 1 << 12  # addresses so far apart compete for one set of the first-level cache
LINE_FILL_LOADS = 2  # loads that could execute while a line comes from the second-level cache
PRIVATE_MISS_LINE_CYCLES = 1.0  # for a line from beyond the private cache of a core, with hardware prefetching
LLC_LINE_CYCLES = 3.0  # for a line from the cache that cores share, in estimates of loop orders
DRAM_LINE_CYCLES = 8.0  # for a line from memory, in estimates of loop orders
SHORT_RUN_CYCLES = 16.0  # added for a line from memory if the next tile does not continue where it lies
MEMORY_BYTES_PER_CYCLE = 32  # that come from or go to beyond the first-level cache
FAR_ELEMENT_CYCLES = 0.5  # to read and write an element of an array larger than the private cache
COPY_ELEMENT_CYCLES = 1.0  # to copy an element into a packed operand
OPERAND_CACHE_DIVISOR = 2  # 1 / share of the private cache for operands read again: the other half is passing traffic
BLOCK_CACHE_DIVISOR = 4  # 1 / share of the private cache for a k-block: other operands pass through it, too

MAX_CHEAP_COPY_BYTES = 1 << 18  # of an array copied at cache speed, on any machine: the order of summation follows
MIN_NONTEMPORAL_BYTES = 1 << 20  # of a result stored past the caches: smaller ones are still cached when they are read
MIN_PREFETCHED_BYTES = 1 << 20  # of an array to prefetch: smaller ones stay in the private cache
MAX_PREFETCHED_ROW_BYTES = 1 << 16  # of a row to prefetch: it must stay cached while the row before is worked on
MAX_SCALAR_REPLACED_BYTES = 1 << 14  # of local arrays: compilers take long to find registers or stack slots for more

# --- register tiles (`plan.model`): a core begins two vector operations and two loads in each cycle ------------------

TILE_SHAPES = (
    (1, 8), (1, 4), (1, 2), (1, 1), (2, 4), (4, 4), (6, 4), (4, 2), (6, 2), (8, 3), (12, 2), (4, 1), (8, 1), (14, 1)
)  # fmt: skip
"""Candidates where lanes are output cells: rows, and vectors in a row. They fit into 16 or 32 vector registers."""
MAX_TILE_ROWS = max(rows for rows, _ in TILE_SHAPES)
MAX_TILE_AREA = max(rows * vectors for rows, vectors in TILE_SHAPES)
MAX_VECTORS_ONE_ROW = max(vectors for rows, vectors in TILE_SHAPES if rows == 1)
REDUCTION_TILE_SHAPES = (
    (1, 1, 8), (1, 1, 4), (1, 1, 2), (1, 1, 1), (6, 1, 4), (8, 1, 3), (4, 1, 4), (4, 1, 2), (2, 2, 2), (4, 2, 1),
    (4, 4, 1), (5, 4, 1),
)  # fmt: skip
"""Candidates where lanes are partial sums: rows, columns, and vectors."""
MAX_PARTIAL_SUMS = max(map(prod, REDUCTION_TILE_SHAPES))
ADD_LATENCY_CYCLES = 4  # until an accumulator can be added to again
LOOP_OVERHEAD_CYCLES = 0.2  # of an iteration; out-of-order execution hides most of it
TILE_STARTUP_CYCLES = 12  # until a tile runs at full speed
HORIZONTAL_SUM_CYCLES = 5  # to reduce a vector to one number
ROW_SWITCH_CYCLES = 3.5  # to continue with another row of memory, for each row that is read at a time
MAX_UNROLLED_OPS = 6  # additions per element up to which several vectors of a map are interleaved
BOUND_SLACK = 0.999  # of a lower bound, since it is rounded otherwise than the estimate that it bounds
SCALAR_PARTIAL_SUMS = 4  # interleaved without vectors: an addition takes about four cycles, and one begins in each
MAX_LATENCY_BOUND_LOADS = 4  # in a term of a sum: with more of them the latency of the addition is hidden
MAX_UNROLLED_EPILOGUE_OPS = 200  # additions up to which the epilogue of a tile is written out without loops

# --- packing, blocking, loop order (`plan`) --------------------------------------------------------------------------

MIN_PARALLEL_TILE_CYCLES = 8_000  # of a group whose tiles are chosen for several threads: less runs on one
BALANCED_THREADS = (2, 4)  # for which load imbalance is averaged: plans are the same for any number of threads
IMBALANCE_WEIGHT = 0.15  # of load imbalance in the cost of a tile
MIN_L2_TILE_ROWS = 6  # from which on operands come fast enough even from the second-level cache
MIN_REDUCTION_PER_BLOCK = 256  # terms of a k-block, between two times that the sums go through memory
MIN_OPERAND_REUSE = 8  # tiles that read a k-block: fewer do not repay storing the sums between blocks
MIN_OUTER_TRIPS = 16  # of the outermost loop in other orders, so that threads can share it
MAX_PERMUTED_LOOPS = 4  # of a group whose orders are all tried: 24 permutations
STRIP_SIZES = (2, 4, 8, 16, 32, 64)  # tiles per strip that are tried in strip-mined loops
MIN_LOOP_ORDER_SAVING = 0.05  # of the arithmetic's cycles that another order must save
MAX_LOOP_ORDER_COST_RATIO = 0.9  # of the memory traffic of the usual order, at most, for another order
MAX_LAYOUT_COST_RATIO = 0.97  # of the cycles before, at most, for another order of axes
MIN_TERMS_PER_COPIED_CELL = 512  # that read a cell of a temporary, for a copy in another order to be considered

# --- autotuning ------------------------------------------------------------------------------------------------------

MAX_CANDIDATES = 24  # plans of a group that are timed, that of the model among them
MAX_CANDIDATE_COST_RATIO = 2.0  # of the model's best tile, for a tile that is timed: the model is not wrong by more
MIN_AUTOTUNED_OPS = 10_000  # of a nest: less is over before it can be timed
MAX_AUTOTUNED_TIME_RATIO = 0.97  # of the time of the model's plan, at most, for another one: less may be noise

# --- inlining and fusion ---------------------------------------------------------------------------------------------

MAX_RECOMPUTED_OPS = 4  # additions that cost no more than storing a cell and loading it again
MAX_EXPR_NODES = 64  # of an expression that inlining makes
MAX_EPILOGUE_STREAMS = 12  # arrays of a group with its epilogue: hardware prefetches so many streams at a time
MAX_EPILOGUE_NODES = 200  # of the expressions of a group with its epilogue
MAX_FUSED_GROUPS = 24  # that share outer loops
MAX_FUSED_STREAMS = 16  # arrays of groups that share outer loops: hardware prefetches so many streams at a time
MAX_FUSION_SLOWDOWN = 1.3  # of fused groups against separate ones, whose nests cost more than their cycles
MAX_REREAD_BYTES_PER_ROW = 1 << 15  # of an array that every fused row reads again: larger ones cost bandwidth
MIN_SHARING_NESTS = 3  # of a hoisted loop, after fusion: fewer do not need it
MIN_HOISTED_TRIPS = 8  # of a hoisted parallel loop, for threads to share
MAX_HOISTED_ITERATION_BYTES = 1 << 20  # that a nest touches in an iteration of a hoisted loop: a private cache
MIN_HOISTED_BYTES = 1 << 20  # that the nests of a hoisted loop touch: less is in a private cache anyway
MAX_HOISTING_SLOWDOWN = 1.1  # of nests under a hoisted loop, whose intermediate results stay cached

# --- split and fused reductions --------------------------------------------------------------------------------------

MAX_REDUCTION_PARTS = 64  # of a sum that threads share; the same for any number of threads
MIN_REDUCTION_PARTS = 8  # of a sum: fewer do not occupy the threads
MIN_SPLIT_ITERATIONS = 1 << 20  # of a sum: shorter ones are over before threads have begun
MIN_BYTES_SAVED = 1 << 19  # that a fused row reduction does not read a second time
MAX_PARTIAL_SUMS_BYTES = 1 << 14  # of one part of a fused row reduction: every row adds to it, in the first-level cache

# --- softmax and attention -------------------------------------------------------------------------------------------

KEY_BLOCK = 64  # keys at a time where blocks are matrix products
SOFTMAX_BLOCK = 4096  # elements at a time where rows are in memory: blocks of 16 KiB stay in the first-level cache
MIN_KEYS = 16  # of a row for online softmax or recomputation
MAX_VALUE_WIDTH = 256  # elements of a value that weights mix: a block of values stays in the private cache
MAX_RECOMPUTED_TERMS = 256  # of a sum that is recomputed instead of stored
MAX_NODES_PER_KEY = 400  # of the expressions that are recomputed for a key
MIN_SIZE_RATIO = 4  # of a recomputed array against the largest operand of its sums: less saves no memory

# --- threads ---------------------------------------------------------------------------------------------------------

MIN_PARALLEL_OPS = 200_000  # of a nest that threads share: waking them takes a hundredth of that time
MIN_CHUNK_OPS = 50_000  # of the iterations that a thread takes at a time
STORE_OPS = 8  # additions that take as long as storing a cell: vectors do many in that time
MAX_CHUNKS = 128  # of a loop: long ones go through memory in long strips
POLL_INTERVAL_OPS = STRETCH  # between two polls; backends count chunks between polls by the same number

# --- grids of programs (GPUs) ----------------------------------------------------------------------------------------

MAX_REGISTER_ROW = 1 << 13  # elements of a row that a program holds in registers
MIN_BUSY_ROWS = 64  # rows of a softmax that keep the grid occupied, one program each
MAX_PROGRAM_PARTS = 256  # of a sum that programs share
PRODUCT_TERMS = 32  # of a matrix product that a program adds at a time
COLUMN_TERMS = 64  # of a sum across rows that a program adds at a time
ROW_TERMS = 2048  # of a sum along rows that a program adds at a time
RESULTS_PER_LANE = 2  # of a matrix product, for the lanes of a program to be busy
MIN_PROGRAM_TRIPS = 16  # of a program's loop over terms: fewer do not repay the second stage
