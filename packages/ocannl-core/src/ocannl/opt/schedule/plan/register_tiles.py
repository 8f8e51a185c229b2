"""Register tiling: plans whose innermost loops are unrolled over rows and vectors, chosen by the cost model."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod

from ocannl.ir.accesses import always_in_bounds
from ocannl.ir.affine import Cond, Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Buf, Cast, Expr, IndexValue, Load, Ref, Var, When
from ocannl.ir.ops import MUL
from ocannl.ir.pair_dots import factors_of_dot
from ocannl.ir.projections import is_injective
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.expression_cost import shared_cost
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.nests import loads
from ocannl.opt.schedule.plan.cost_model import best_tile, tiles_of_same_class
from ocannl.opt.schedule.plan.nest_shape import NestShape, Strides, Tile
from ocannl.opt.schedule.plan.scalar_plans import REASSOCIABLE, unit_stride_innermost

_VECTORIZED = (*REASSOCIABLE, MUL)  # a product only over its results: its terms keep their order


@dataclass(frozen=True, slots=True)
class TilePlan:
    """The plan of a group in register tiles.

    Attributes:
        loops: Parallel loops, outermost first, with the number of iterations per tile; 0 for loops around tiles.
        reduction_syms: Reduction loops, outermost first, inside all parallel loops.
        vector: The vectorized loop: a tile loop, or the innermost reduction loop, whose lanes are then partial sums.
        lanes: Lanes per vector.
        vectors: Vectors per tile along `vector`.
        transposed_loop: A tile loop with unit stride where `vector` is strided: tiles are transposed in registers.
        packed_operands: Operands that are copied, as a whole, to buffers which tiles read contiguously.
        panels: Operands of which every cache block copies the part that it reads to local memory.
        k_block: Reduction iterations per cache block, along the outermost reduction loop; 0 disables blocking.
        blocked_loops: The number of innermost parallel loops that run inside a cache block.
        strip: A strip-mined loop of `loops`, and its trip count per strip; the strips are the outermost loop.
        prefetched: Operands of which each tile prefetches the part that a later one reads, with its distance in
            elements.
        prefetched_panels: Operands whose panels a tile prefetches a few terms ahead.
    """

    loops: tuple[tuple[Sym, int], ...]
    reduction_syms: tuple[Sym, ...]
    vector: Sym
    lanes: int
    vectors: int
    transposed_loop: Sym | None = None
    packed_operands: tuple[Ref, ...] = ()
    panels: tuple[Ref, ...] = ()
    k_block: int = 0
    blocked_loops: int = 1
    strip: tuple[Sym, int] | None = None
    prefetched: tuple[tuple[Ref, int], ...] = ()
    prefetched_panels: tuple[Ref, ...] = ()

    @property
    def outer_syms(self) -> tuple[Sym, ...]:
        return tuple([sym for sym, size in self.loops if not size])

    @property
    def tile_sizes(self) -> dict[Sym, int]:
        return {sym: size for sym, size in self.loops if size}

    @property
    def trip_counts(self) -> dict[Sym, int]:
        """The trip counts of the parallel loops, before strip-mining."""
        return {sym: -(-sym.extent // (size or 1)) for sym, size in self.loops}

    @property
    def needs_buffers(self) -> bool:
        """Whether the plan needs buffers for packed operands or partial sums."""
        return bool(self.packed_operands or self.k_block)


def best_tile_plan(group: FusionGroup, capabilities: Capabilities, is_parallel: bool = False) -> TilePlan | None:
    """Returns the plan with the cheapest tile; None if the group cannot be vectorized.

    With `is_parallel`, the outermost loop may run on several threads, and load imbalance counts as a cost.
    """
    problem = tiling_problem(group, capabilities)
    tile = best_tile(problem.nest_shape()) if problem is not None else None
    if problem is None or tile is None:
        return None
    best = _with_distant_rows(group, problem, plan_with_tile(group, problem, tile))
    if not (is_parallel and best.trip_counts) or tile.cycles < machine.MIN_PARALLEL_TILE_CYCLES:
        return best
    variants = tiles_of_same_class(problem.nest_shape(), tile)
    high_tiles = [variant for variant in variants if variant.sizes and variant.sizes[0][1] >= machine.MIN_L2_TILE_ROWS]
    costs = [(tile.cycles, best), *((high.cycles, plan_with_tile(group, problem, high)) for high in high_tiles)]
    return min(costs, key=lambda cost: cost[0] * (1 + machine.IMBALANCE_WEIGHT * _min_imbalance(group, cost[1])))[1]


def _min_imbalance(group: FusionGroup, plan: TilePlan) -> float:
    """Returns the load imbalance of the outermost loop, or of any other one if that is a short loop around tiles:
    `order_loops` may exchange them."""
    trip_counts, (outermost, tile_size) = plan.trip_counts, plan.loops[0]
    if not group.reductions or tile_size or trip_counts[outermost] >= machine.MIN_OUTER_TRIPS:
        return load_imbalance(plan)
    return min(imbalance_of_parts(sym.extent, plan.tile_sizes.get(sym, 1)) for sym in trip_counts)


def _with_distant_rows(group: FusionGroup, problem: TilingProblem, plan: TilePlan) -> TilePlan:
    """Returns the plan with tiles of two rows, one of each half of all operands (see `split_streams`), if tiles are
    single rows whose lanes are partial sums; rows of the halves alternate if the registers do not hold the sums of two.
    The order of summation is the same."""
    shape = problem.shape_without_strides
    if plan.vector in group.syms or plan.tile_sizes:
        return plan
    rows = 2 if 2 * plan.vectors < shape.registers else 0
    for sym, is_tileable in zip(group.syms, shape.tileable, strict=False):
        distances = [abs(ref.stride(sym)) for ref in problem.reduction_reads]
        if is_tileable and sym.extent == 2 and min(distances) >= machine.MIN_STREAMED_ELEMENTS // 2:
            return replace(plan, loops=(*(loop for loop in plan.loops if loop[0] is not sym), (sym, rows)))
    return plan


def reads_rows_once(ref: Ref, plan: TilePlan, k: Sym, syms: Sequence[Sym]) -> bool:
    """Whether loops over `syms` read each cell once, in rows along the plan's vectors; `k` steps over rows."""
    return all(map(ref.stride, syms)) and ref.stride(plan.vector) == 1 and abs(ref.stride(k)) >= plan.vector.extent


def load_imbalance(plan: TilePlan) -> float:
    """Returns the busiest thread's work relative to the mean, minus 1, averaged over `BALANCED_THREADS`, if threads
    take iterations of the outermost loop."""
    sym, size = plan.strip or (plan.loops[0][0], 1)
    return imbalance_of_parts(sym.extent, size * plan.tile_sizes.get(sym, 1))


def imbalance_of_parts(extent: int, size: int) -> float:
    """Returns the load imbalance of a loop over parts of this size."""
    trip_count, counts = -(-extent // size), machine.BALANCED_THREADS
    return sum(-(-trip_count // threads) * threads * size / extent - 1 for threads in counts) / len(counts)


def plan_with_tile(group: FusionGroup, problem: TilingProblem, tile: Tile) -> TilePlan:
    """Returns the plan of the group in tiles of this shape."""
    reduction_syms = group.reductions[0].syms if group.reductions else ()
    syms = group.syms + reduction_syms
    vector, lanes = syms[tile.vector], problem.shape_without_strides.lanes
    tiles = [(syms[n], size) for n, size in tile.sizes]
    if vector in reduction_syms:
        reduction_syms = (*(s for s in reduction_syms if s is not vector), vector)
    else:
        invariant = [ref for ref in problem.reduction_reads if not ref.stride(vector)]
        reduction_syms = unit_stride_innermost(reduction_syms, invariant)
        tiles = _order_tile_loops(problem, [*tiles, (vector, tile.vectors * lanes)], reduction_syms)
    outer = [(s, 0) for s in group.syms if all(s is not tiled for tiled, _ in tiles)]
    transposed_loop = None if tile.transposed_loop is None else syms[tile.transposed_loop]
    return TilePlan((*outer, *tiles), reduction_syms, vector, lanes, tile.vectors, transposed_loop)


def _order_tile_loops(
    problem: TilingProblem, tiles: list[tuple[Sym, int]], reduction_syms: tuple[Sym, ...]
) -> list[tuple[Sym, int]]:
    """Orders the two tile loops to minimize the bytes that the inner loop reloads for every tile of the outer loop."""

    def reloaded_bytes(outer: tuple[Sym, int], inner: tuple[Sym, int]) -> int:
        reused = [ref for ref in problem.reduction_reads if ref.stride(inner[0]) and not ref.stride(outer[0])]
        syms = (*reduction_syms, inner[0])
        size = sum(prod(s.extent for s in syms if ref.stride(s)) * ref.buf.precision.nbytes for ref in reused)
        return size * -(-outer[0].extent // outer[1]) if size > problem.operand_cache_bytes else 0

    if len(tiles) < 2:
        return tiles
    row, column = tiles
    return tiles if reloaded_bytes(row, column) <= reloaded_bytes(column, row) else [column, row]


@dataclass(frozen=True, slots=True)
class TilingProblem:
    """The input of the cost model for a group: its accesses, and its shape without their strides."""

    syms: tuple[Sym, ...]
    reduction_reads: tuple[Ref, ...]
    epilogue_reads: tuple[Ref, ...]
    writes: tuple[Ref, ...]
    shape_without_strides: NestShape
    operand_cache_bytes: int  # share of the private cache for operands that are reused
    strides_cache: dict[tuple[int, Strides], Strides] = field(default_factory=dict, compare=False)

    def nest_shape(self, layouts: Mapping[Buf, Strides] | None = None, without: Container[Buf] = ()) -> NestShape:
        """Returns the shape of the group if buffers had the strides in `layouts`, without accesses to some buffers."""
        reduction_reads, epilogue_reads, writes = (
            tuple([self.strides_along_loops(ref, layouts) for ref in refs if ref.buf not in without])
            for refs in (self.reduction_reads, self.epilogue_reads, self.writes)
        )
        shape = self.shape_without_strides
        return NestShape(
            shape.parallel_extents, shape.reduction_extents, shape.tileable, shape.vectorizable,
            reduction_reads, epilogue_reads, writes,
            shape.ops_per_term, shape.ops_per_cell, shape.lanes, shape.registers, shape.read_bytes,
        )  # fmt: skip

    def strides_along_loops(self, ref: Ref, layouts: Mapping[Buf, Strides] | None) -> Strides:
        strides = ref.buf.strides if layouts is None else layouts.get(ref.buf, ref.buf.strides)
        if (id(ref), strides) not in self.strides_cache:
            self.strides_cache[id(ref), strides] = _strides_along_loops(ref, self.syms, strides)
        return self.strides_cache[id(ref), strides]


def tiling_problem(group: FusionGroup, capabilities: Capabilities) -> TilingProblem | None:
    """Returns the input of the cost model; None if the group cannot be vectorized on this target."""
    if not capabilities.vector_bytes or len(group.reductions) > 1:
        return None
    if not all(is_injective(ref.indices, group.syms) for ref in group.writes):
        return None
    if any(reduction.update.op not in _VECTORIZED for reduction in group.reductions):
        return None
    syms = group.syms + tuple([sym for reduction in group.reductions for sym in reduction.syms])
    inner = [
        cond for reduction in group.reductions for cond in (reduction.cond, *bounds_guards(reduction.update.value))
    ]
    epilogue_values = [stmt.value for stmt in group.epilogue]
    outer_values = [*(reduction.init for reduction in group.reductions), *epilogue_values]
    outer = [group.cond, *(cond for value in outer_values for cond in bounds_guards(value) if cond not in inner)]
    fixed = {s for cond in outer for s in cond.syms} | {s for cond in inner for fact in cond.eq0 for s in fact.syms}
    guarded = {s for cond in inner for s in cond.syms}  # guards of terms may differ between rows, but not between lanes
    if any(reduction.update.op not in REASSOCIABLE for reduction in group.reductions):
        fixed |= set(syms[len(group.syms) :])  # lanes and partial results would reorder the terms
    width = max([4, *(ref.buf.precision.nbytes for ref in group.writes)])
    for ref in group.reads:
        if ref.buf.precision.nbytes > width and any(s in syms for s in ref.syms):
            width = ref.buf.precision.nbytes
    if group.reductions:  # in maps, a wide value may be in several registers, whose operations interleave
        for node in chain.from_iterable(map(walk, group.values)):
            if isinstance(node, Cast) and node.precision.nbytes > width and _varies_between_lanes(node, syms):
                width = node.precision.nbytes
    reduction_reads = _reduction_reads(group)
    in_terms = set(reduction_reads)
    epilogue_reads = [ref for ref in dict.fromkeys(group.reads) if ref not in in_terms] if group.reductions else []
    terms = [reduction.update.value for reduction in group.reductions] or epilogue_values
    final_values = epilogue_values if group.reductions else []
    shape = NestShape(
        parallel_extents=tuple([s.extent for s in group.syms]),
        reduction_extents=tuple([s.extent for s in syms[len(group.syms) :]]),
        tileable=tuple([s not in fixed for s in group.syms]),
        vectorizable=tuple([s not in fixed and s not in guarded for s in syms]),
        reduction_reads=(),
        epilogue_reads=(),
        writes=(),
        ops_per_term=max(1, sum(shared_cost(term).ops for term in terms)),
        ops_per_cell=sum(shared_cost(value).ops for value in final_values),
        lanes=capabilities.vector_bytes // width,
        registers=capabilities.vector_registers,
        read_bytes=min([ref.buf.precision.nbytes for ref in reduction_reads], default=4),
    )
    cache_bytes = capabilities.cpu.l2.size_bytes // machine.OPERAND_CACHE_DIVISOR
    return TilingProblem(
        syms, tuple(reduction_reads), tuple(epilogue_reads), tuple(group.writes), shape, cache_bytes
    )


def _varies_between_lanes(value: Expr, syms: tuple[Sym, ...]) -> bool:
    """Whether the value may depend on the loops `syms`."""
    return any(
        any(s in syms for s in node.ref.syms) if isinstance(node, Load)
        else isinstance(node, IndexValue | Var)
        for node in walk(value)
    )  # fmt: skip


def bounds_guards(value: Expr) -> list[Cond]:
    """Returns the conditions that guard loads which may be out of bounds."""
    whens = (node for node in walk(value) if isinstance(node, When))
    return [when.cond for when in whens if not all(map(always_in_bounds, loads(when)))]


def _reduction_reads(group: FusionGroup) -> list[Ref]:
    """Returns the distinct cells read by the terms of the reduction; by the whole group if there is none. The second
    product of a dot product of pairs, whose factors are in the same vectors of words, does not count."""
    values = [reduction.update.value for reduction in group.reductions]
    values = [part for value in values for part in (factors_of_dot(value) or (value,))[:2]]
    terms = [ref for value in values for ref in loads(value)]
    return list(dict.fromkeys(terms if group.reductions else group.reads))


def _strides_along_loops(ref: Ref, syms: tuple[Sym, ...], strides: Strides) -> Strides:
    along = dict.fromkeys(syms, 0)
    for index, stride in zip(ref.indices, strides, strict=True):
        for coef, sym in index.terms:
            if sym in along:
                along[sym] += coef * stride
    return tuple(along.values())
