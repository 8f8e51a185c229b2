"""Machine model: all sizes, cycle counts and thresholds of the heuristics, to be tuned for a new processor.

Passes read these constants when they run (`machine.MIN_BYTES_SAVED`), so that a test can exercise a pass on a small
program with `mock.patch.object(machine_model, "MIN_BYTES_SAVED", 0)`. No constant decides whether a transformation is
legal: for all values, results are equal up to rounding. Properties of the target (sizes of caches, vectors, registers)
are in `ir.capabilities` and `ir.cpu`; the factors that passes apply to them are here. Constants that determine the
order of summation do not depend on the caches, so that it is equal on all machines with the same vectors.

The cost model of tiles caches its results (`schedule.plan.cost_model`): its constants must not change within a process.
"""

from __future__ import annotations

from math import prod

from ocannl.ir import work
from ocannl.ir.stack_size import MAX_LOCAL_BYTES

# --- scalar operations -----------------------------------------------------------------------------------------------

OP_COSTS = {
    "id": 0, "fst": 0, "snd": 0,
    "div": 3, "recip": 3, "sqrt": 3, "recip_sqrt": 5, "mod": 8,
    "exp": 18, "exp2": 16, "log": 28, "log2": 27, "sin": 26, "cos": 28, "tanh": 34, "pow": 80,
    "atan": 24, "atan2": 32, "erf": 40, "erfc": 52, "lgamma": 110,
    "threefry4x32_20": 170, "threefry4x32_12": 110,
}  # fmt: skip
"""Costs of primitive operations in additions; an operation that is not listed costs as much as one."""

# --- caches and memory -----------------------------------------------------------------------------------------------

LINE_BYTES = 64  # size of a cache line
ELEMENTS_PER_LINE = 16  # float32 elements per cache line
L1_ELEMENTS = 1 << 13  # float32 elements in an L1 cache of 32 KiB
L1_MIN_ASSOCIATIVITY = 4  # lower bound on the associativity of L1 caches
L1_ASSOCIATIVITY = 8  # of common processors
CONFLICT_STRIDE_BYTES = 1 << 12  # addresses at this distance map to the same set of the L1 cache
LINE_FILL_LOADS = 2  # loads that could execute while a line is filled from L2
LLC_LINE_CYCLES = 3.0  # per line from the shared cache, in estimates of loop orders
DRAM_LINE_CYCLES = 8.0  # per line from memory, in estimates of loop orders
SHORT_RUN_CYCLES = 16.0  # additional cycles per line from memory if the next tile does not continue the run
STREAMED_ROWS = 8  # that are read at a time; hardware prefetchers follow about twice as many streams
MAX_SHORT_RUN_LINES = 4  # lines of a run that hardware prefetchers do not recognize as a stream
MAX_STREAMED_WORK = 24  # operations per cell of a loop whose stores bypass the caches
MIN_PRECOMPUTED_WORK = 8  # operations of an index that is worth a loop of its own
MIN_INDICES_PER_BLOCK, MAX_INDICES_PER_BLOCK = 64, 2048  # that are computed before their uses
MAX_HIDDEN_SCALAR_OPS = 40  # scalar operations of a row, about one function, that take no time beside its vectors
MEMORY_BYTES_PER_CYCLE = 32  # bandwidth beyond the L1 cache
FAR_ELEMENT_CYCLES = 0.5  # to read and write an element of an array larger than the private cache
TRANSPOSED_ELEMENT_CYCLES = 0.25  # to read an element of such an array in short rows
MEMORY_ELEMENT_CYCLES = 1.0  # more, with either, for an element that leaves the caches before it is read
COPY_ELEMENT_CYCLES = 0.25  # to copy an element into a panel
OVERLAPPED_MISSES = 4  # misses of caches and TLBs that a tile waits for at the same time
PANEL_PREFETCH_ITERATIONS = 16  # of the reduction, ahead of which vectors of a panel are fetched to L1
MAX_PANEL_BYTES = MAX_LOCAL_BYTES // 2  # of all panels of a cache block
MAX_LOCAL_SUMS_BYTES = MAX_LOCAL_BYTES // 8  # of partial sums of a group inside of loops that threads share
OPERAND_CACHE_DIVISOR = 2  # reused operands may occupy half of the private cache; streaming data needs the other half
BLOCK_CACHE_DIVISOR = 4  # a k-block may occupy a quarter of the private cache; other operands pass through it, too

MAX_CACHED_COPY_BYTES = 1 << 24  # size of a copy that caches hold until it is read; orders of sums depend on it
MAX_CHEAP_COPY_BYTES = 1 << 18  # size of an array that is copied at cache speed; the order of summation depends on it
MIN_NONTEMPORAL_BYTES = 1 << 20  # size of a result for non-temporal stores; smaller ones are still cached when read
MAX_INCOMPLETE_LINES = 8  # lines of non-temporal stores that are written alternately
PREFETCHED_L2_RATIO = 1.0  # size of an array to prefetch, in L2 caches; smaller arrays stay there
MAX_PREFETCHED_TILE_L2_RATIO = 4.0  # size of a tile to prefetch, in L2 caches, with the sets that its rows leave unused
MAX_PREFETCHED_ROW_BYTES = 1 << 16  # size of a row to prefetch; it must stay cached while the previous row is processed
MAX_SCALAR_REPLACED_BYTES = 1 << 14  # total size of local arrays; register allocation is slow for more

# --- register tiles (`plan.cost_model`): a core starts two vector operations and two loads per cycle -----------------

TILE_SHAPES = (
    (1, 8), (1, 4), (1, 2), (1, 1), (4, 4), (6, 4), (4, 2), (6, 2), (2, 4), (8, 3), (12, 2), (4, 1), (8, 1), (14, 1)
)  # fmt: skip
"""Tiles whose lanes are output cells, as rows and vectors per row, for 16 or 32 vector registers. The first of equally
fast ones is used: more rows before more vectors, since elements of rows take less of the bandwidth of the cache."""
MAX_TILE_ROWS = max(rows for rows, _ in TILE_SHAPES)
MAX_TILE_AREA = max(rows * vectors for rows, vectors in TILE_SHAPES)
MAX_VECTORS_SINGLE_ROW = max(vectors for rows, vectors in TILE_SHAPES if rows == 1)
REDUCTION_TILE_SHAPES = (
    (1, 1, 8), (1, 1, 4), (1, 1, 2), (1, 1, 1), (6, 1, 4), (8, 1, 3), (4, 1, 4), (4, 1, 2), (2, 2, 2), (4, 2, 1),
    (4, 4, 1), (5, 4, 1),
)  # fmt: skip
"""Tiles whose lanes are partial sums, as rows, columns and vectors."""
MAX_PARTIAL_SUMS = max(map(prod, REDUCTION_TILE_SHAPES))
ADD_LATENCY_CYCLES = 4  # between dependent additions to an accumulator
LOOP_OVERHEAD_CYCLES = 0.2  # per iteration; out-of-order execution hides most of it
TILE_STARTUP_CYCLES = 12  # before a tile runs at full throughput
HORIZONTAL_SUM_CYCLES = 5  # to reduce a vector to a scalar
ROW_SWITCH_CYCLES = 3.5  # to continue with the next row in memory, per stream
MIN_STREAMED_ELEMENTS = 1 << 18  # of an operand that is read once, and not from a cache
MIN_STREAMED_ROWS = 256  # of an operand whose halves are read at once; threads share the rows of a half
STREAM_ROW_ELEMENTS = 128  # distance of rows that processors prefetch as streams of their own
PAGE_ELEMENTS = 1 << 10  # prefetchers follow one stream in each page of 4 KiB; those of other pages do not compete
INTERLEAVED_VECTOR_CYCLES = 10.0  # to read a vector of several streams of a page, more than of a single one
MAX_UNROLLED_OPS = 6  # additions per element up to which several vectors of a map are interleaved
BOUND_SLACK = 0.999  # factor on lower bounds that compensates for rounding differences to the estimates
SIMPLE_TILE_ROWS, SIMPLE_TILE_VECTORS = 4, 2  # tiles that are used after a defect; any target has 8 registers
SCALAR_PARTIAL_SUMS = 4  # interleaved scalar accumulators; covers the latency of an addition
MAX_LATENCY_BOUND_LOADS = 4  # loads per term; with more loads the latency of the addition is hidden
MAX_INTERLEAVED_STORES = 4  # iterations of a map's contiguous loop that is unrolled
MAX_CASES = 16  # iterations of a loop that is unrolled since each stores a formula of its own
MAX_UNFUSED_CELLS = 1 << 15  # of a nest with such a loop, whose arrays stay in the caches if it is not fused
MAX_GUARDED_REGIONS = 16  # ranges of rows in which a guard may hold that have code of their own
MAX_GUARD_VALUES = 1 << 16  # of the symbols in a guard, for each of which the rows are computed where it holds
MAX_UNROLLED_EPILOGUE_OPS = 200  # additions up to which the epilogue of a tile is fully unrolled

# --- packing, blocking, loop order (`schedule.plan`) -----------------------------------------------------------------

MIN_PARALLEL_TILE_CYCLES = 8_000  # of a group whose tiles are chosen for load balance; shorter groups run on one thread
BALANCED_THREADS = (2, 4)  # load imbalance is averaged over these; plans do not depend on the actual count
IMBALANCE_WEIGHT = 0.15  # weight of load imbalance in the cost of a tile
SHARED_ORDER_WEIGHT = 2 / 3  # the same in the cost of a loop order: the mean over one, two and four threads
MIN_L2_TILE_ROWS = 6  # rows from which on a tile reuses operands enough to read them from L2
MIN_REDUCTION_PER_BLOCK = 256  # terms of a k-block, which amortize storing and reloading the partial sums
MIN_OPERAND_REUSE = 8  # tiles that read a k-block, which amortize storing the partial sums
MIN_OUTER_TRIPS = 8  # trip count of the outermost loop after reordering, so that threads can share it
MAX_PERMUTED_LOOPS = 4  # loops of which all permutations are evaluated (24)
STRIP_SIZES = (2, 4, 8, 16, 32, 64)  # candidate numbers of tiles per strip
MIN_LOOP_ORDER_SAVING = 0.05  # savings of a loop order, relative to the arithmetic cycles
MAX_LOOP_ORDER_COST_RATIO = 0.9  # memory traffic of a loop order, relative to the default order
MAX_LAYOUT_COST_RATIO = 0.97  # cycles with a new layout, relative to the cycles before
MIN_TERMS_PER_PADDED_CELL = 32  # reads per cell of an operand with a border that is copied, so that no read is guarded
MIN_GUARDS_PER_PADDED_CELL = 0.5  # guards per cell of the copy; if tiles would evaluate more, the copy is cheaper
MIN_TERMS_PER_COPIED_CELL = 4  # reads per cell of a temporary for which a copy in another layout is considered

# --- autotuning ------------------------------------------------------------------------------------------------------

MAX_CANDIDATES = 24  # plans measured per group, including the model's plan
MAX_CANDIDATE_COST_RATIO = 2.0  # estimated cost of a measured tile, relative to the best tile
MIN_AUTOTUNED_OPS = 10_000  # of a nest; shorter nests cannot be measured reliably
MAX_AUTOTUNED_TIME_RATIO = 0.97  # measured time relative to the model's plan; smaller differences may be noise

# --- inlining and fusion ---------------------------------------------------------------------------------------------

MAX_RECOMPUTED_OPS = 4  # additions that cost no more than storing and reloading a cell
MAX_STRIDED_OPS = 2 * MAX_RECOMPUTED_OPS  # the same in strided vectors, where the array would be written and read so
GATHERED_VALUE_CYCLES = 16  # of a value that a gather computes, in those of one that vectors compute
MAX_EXPR_NODES = 64  # size of an expression after inlining
MAX_EPILOGUE_STREAMS = 12  # arrays accessed by a group with its epilogue; the limit of the hardware prefetcher
MAX_EPILOGUE_NODES = 1000  # size of the expressions of a group with its epilogue
MAX_FUSED_GROUPS = 24  # groups that share outer loops
MAX_FUSED_STREAMS = 16  # arrays accessed by groups that share outer loops; the limit of the hardware prefetcher
MAX_FUSION_SLOWDOWN = 1.3  # cycles of fused groups, relative to separate ones, whose overheads are not modeled
MAX_REREAD_BYTES_PER_ROW = 1 << 15  # size of an array that every fused row reads again; larger arrays cost bandwidth
MIN_SHARING_NESTS = 3  # nests under a hoisted loop after fusion; fewer do not need it
MIN_HOISTED_TRIPS = 8  # trip count of a hoisted parallel loop
MAX_HOISTED_ITERATION_BYTES = 1 << 20  # accessed by a nest in one iteration of a hoisted loop; about a private cache
MAX_HOISTED_SLICE_BYTES = 1 << 22  # the same for slices of an iteration, if all iterations share little else
MAX_HOISTED_SHARED_BYTES = 3 << 17  # arrays that all iterations read; they stay cached while slices are streamed
MIN_HOISTED_BYTES = 1 << 20  # accessed by the nests of a hoisted loop; less is cached anyway
MAX_HOISTING_SLOWDOWN = 1.1  # estimated cycles of nests under a hoisted loop; their intermediates stay cached

# --- additions that a term of a sum takes part in; an error of 64 eps allows 128 of them (docs/numbers.md) ------------

MAX_ADDITIONS_PER_TERM = 94  # within a reduction whose results may be parts of another sum
MAX_ADDITIONS_PER_RESULT_TERM = 124  # within a reduction whose results are arrays of the caller
MAX_UNROLLED_BLOCKS = 4  # of a sum; the code of each is separate
MAX_ADDITIONS_PER_PART = 30  # within a short sum of cells of a temporary, which may be the parts of a split reduction
MAX_ADDITIONS_PER_STEP = 40  # within a reduction that continues a sum, such as each row of a fused reduction
MAX_ROW_ADDITIONS = 54  # of the steps of a fused reduction
MIN_COUNTED_ROW = 16  # cells of a row whose terms are counted: only frequent rows are accumulated in a wider type
MIN_TERMS_PER_WIDENED_CELL = 4  # of a table of such rows that is copied to a wider type all the same
MIN_BLOCKED_ROW = 256  # cells of a row, beside which counting its terms takes no time
MAX_SCATTER_PARTS = 8  # of a scatter, each with a table of its own
MIN_BYTES_PER_SCATTERED_SUM = 8  # bytes of terms per byte of sums in the parts of a scatter, which are filled and read
MIN_BYTES_PER_HALVED_SUM = 4  # of a scatter that is halved: without parts it would run on one thread
MIN_SKETCHED_ROWS = 1 << 16  # of a table, whose counts are beyond the second cache: first counted in fewer buckets
TERMS_PER_BUCKET = 8  # on average; with more, a bucket of rare rows may seem to be a frequent row

# --- products of tiles of matrices -----------------------------------------------------------------------------------

MAX_TILE_TERMS = 1 << 10  # of a sum before it is stored, see `TileUnit.additions`
MIN_TILE_TERMS = 16  # of a reduction, which is padded to 32
MIN_TILE_ROWS = 8  # of a product, in tiles of 16
MAX_TILE_PADDING = 2.0  # padded terms and columns per term and column
MAX_TILE_OPERAND_GROWTH = 2.0  # cells of a packed operand per cell of its array, as for the patches of a convolution
MAX_LOCAL_OPERAND_BYTES = MAX_LOCAL_BYTES // 8  # of operands that are packed inside of loops
MAX_GROUPED_BLOCKS = 4  # of an axis that read a strip of the other axis before the next strip
MAX_GROUP_IMBALANCE = 0.05  # of the loop over such groups
NARROW_PANEL_FACTOR = 1.5  # time of a term in panels of one tile: elements of rows are loaded for one product only
TILE_COPY_CYCLES = 0.3  # to copy a cell of an operand, or to store one of the results
TILE_TRANSPOSE_CYCLES = 0.6  # the same, if rows become columns
TILE_GATHER_CYCLES = 2.0  # the same, if neither rows nor columns are contiguous
TILE_BLOCK_CYCLES = 150  # to start a block and store its sums
PAIR_TERMS_PER_CYCLE = 27  # of dot products of pairs in register tiles, whose operands are not packed in pairs

# --- split and fused reductions --------------------------------------------------------------------------------------

MAX_EXPANDED_BYTES = 1 << 28  # of temporaries that hold all iterations of a sequential loop
MIN_WORK_PER_EXPANDED_CELL = 8  # operations of a distributed nest per cell of its temporaries, which are stored anyway
MAX_REDUCTION_PARTS = 64  # parts of a split reduction; independent of the number of threads
MIN_REDUCTION_PARTS = 8  # parts of a split reduction; fewer do not occupy the threads
MIN_ROWS_PER_PART = 32  # of a reduction across long rows, so that storing partial results takes little of the time
MIN_SPLIT_ROWS = MIN_REDUCTION_PARTS * MIN_ROWS_PER_PART  # of such a reduction, of which threads may share the results
MIN_SPLIT_ITERATIONS = 1 << 20  # trip count of a reduction to split; shorter ones finish before threads have started
MIN_BYTES_PER_PARTIAL_SUM = 2  # bytes of operands per byte of partial sums, which are written and read again
MIN_SPLIT_OPERAND_BYTES = 1 << 18  # of a split product; what other threads have written travels between their caches
MIN_BYTES_SAVED = 1 << 19  # bytes that a fused row reduction avoids to read a second time
MAX_PARTIAL_SUMS_BYTES = 1 << 14  # partial sums of a fused row reduction; updated by every row, they stay in L1

# --- softmax and attention -------------------------------------------------------------------------------------------

KEY_BLOCK = 64  # keys per block of a matrix product
SOFTMAX_BLOCK = 4096  # elements per block of a row in memory; 16 KiB stay in L1
MIN_KEYS = 16  # row length for online softmax and for recomputation
SKIPPED_KEY_BLOCK = 64  # keys per block that a mask leaves or skips as a whole
MIN_SKIPPED_KEY_BLOCK = 16  # a vector
MAX_DEFINITION_DEPTH = 3  # of a mask: scores, their mask, and a part of the mask
MAX_VALUE_WIDTH = 256  # elements of a value vector; a block of values stays in the private cache
MAX_RECOMPUTED_TERMS = 256  # terms of a recomputed reduction
MAX_NODES_PER_KEY = 400  # size of the expressions recomputed per key
MIN_SIZE_RATIO = 4  # size of a recomputed array relative to the largest operand of its reductions; less saves no memory

# --- threads ---------------------------------------------------------------------------------------------------------

MIN_PARALLEL_OPS = 200_000  # of a parallelized nest; waking the threads takes about 1 % of its time
MIN_CHUNK_OPS = 50_000  # of the iterations that a thread takes at a time
STORE_OPS = 8  # additions that take as long as storing a cell, since vectors do many in parallel
MAX_CHUNKS = 128  # chunks of a loop; more chunks would be short strips of memory
POLL_INTERVAL_OPS = work.POLL_INTERVAL_OPS  # between polls; backends count chunks between polls with the same constant

# --- grids of programs (GPUs) ----------------------------------------------------------------------------------------

MAX_REGISTER_ROW = 1 << 13  # elements of a row that a program holds in registers
MIN_BUSY_ROWS = 64  # rows of a softmax that occupy the grid with one program each
MAX_PROGRAM_PARTS = 256  # parts of a reduction that is split over programs
PRODUCT_TERMS = 32  # terms per step of a matrix product in one program
COLUMN_TERMS = 64  # terms per step of a reduction across rows in one program
ROW_TERMS = 2048  # terms per step of a reduction along rows in one program
RESULTS_PER_LANE = 2  # outputs of a matrix product per lane that keep the lanes busy
MIN_PROGRAM_TRIPS = 16  # steps of a program's reduction loop; fewer do not amortize the second stage
