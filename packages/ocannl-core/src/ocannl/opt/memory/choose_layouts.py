"""Chooses the memory layout of temporaries, and of transposed copies of other arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, prod

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.assign import NOWHERE, Origin
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import (
    AccessMode,
    BindIndex,
    Buf,
    Let,
    Load,
    MemorySpace,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    loop,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of
from ocannl.opt.analysis.nests import (
    AccessTable,
    accessed_buffers,
    bound_names,
    leaves,
    unit_covering_loops,
    wrap_in_loops,
)
from ocannl.opt.analysis.substitution import replace_buffers, with_buffers
from ocannl.opt.analysis.union_find import DisjointSets
from ocannl.opt.analysis.weights import weight_arrays
from ocannl.opt.idioms.form_pair_dots import group_of_pairs
from ocannl.opt.idioms.matrix_tiles.tileable_product import tileable_product
from ocannl.opt.schedule.plan.cost_model import min_cycles
from ocannl.opt.schedule.plan.nest_shape import NestShape, Strides
from ocannl.opt.schedule.plan.register_tiles import TilingProblem, tiling_problem

Layouts = dict[Buf, Strides]


def choose_layouts(proc: Proc, capabilities: Capabilities, precompute: bool = False) -> Proc:
    """Gives temporaries the layouts with which the fusion groups take the fewest cycles in the cost model.

        proc step                                proc step
          x : f32[16,32]  in                       x : f32[16,32]         in
          h : f32[32,16]  arena                    h : f32[32,16]@(1,32)  arena
          y : f32[16,32]  out                      y : f32[16,32]         out
          for i in 0..32:                          for i in 0..32:
            for j in 0..16:              ==>         for j in 0..16:
              h[i, j] = x[j, i] * 2                    h[i, j] = x[j, i] * 2
          for i_2 in 0..16:                        for i_2 in 0..16:
            for j_2 in 0..32:                        for j_2 in 0..32:
              y[i_2, j_2] = h[j_2, i_2] + 1            y[i_2, j_2] = h[j_2, i_2] + 1

    Candidate layouts differ in the innermost axis. First, all arrays that share a loop, such as that of the batch, get
    its axis innermost together; then arrays are tried one at a time. Arrays that are not temporaries keep their layout,
    but a reduction may read a transposed copy of its operands, or compute its result in a transposed buffer. Maps and
    copies that transpose large arrays cost more than the cost model of tiles says. With `precompute`, copies of weights
    cost nothing.
    """
    if not capabilities.vector_bytes:
        return proc
    search = _LayoutSearch(proc, capabilities, precompute)
    search.run()
    return search.result()


@dataclass(slots=True)
class _Item:
    """A fusion group, its position in the program, and the arrays whose layout may be chosen for it."""

    position: int
    group: FusionGroup
    problem: TilingProblem
    movable: tuple[Buf, ...]  # temporaries whose layout may change
    copied: tuple[Buf, ...]  # operands that may be read from a transposed copy
    filled: tuple[Buf, ...]  # results that may be computed in a transposed buffer and copied from it
    lower_bound: float  # on the cycles, for all layouts of these arrays


class _LayoutSearch:
    """Greedy search for the layouts with the lowest estimated cycles of all groups."""

    def __init__(self, proc: Proc, capabilities: Capabilities, precompute: bool) -> None:
        self.proc, self.names, table = proc, Namer(bound_names(proc)), AccessTable(proc.body)
        self.capabilities, self.writers = capabilities, table.writers
        views = Counter(alias_class(buf) for buf in proc.bufs)
        unaliased = {buf for buf in proc.bufs if views[alias_class(buf)] == 1 and sum(n > 1 for n in buf.shape) > 1}
        groups = [group_of(stmt, self.names) for stmt in proc.body]
        self._weights = weight_arrays(proc) if precompute else set()
        executed = groups
        if capabilities.bfloat16_dots or capabilities.int16_dots:
            executed = [group and (group_of_pairs(group, capabilities, self.names) or group) for group in groups]
        unit = capabilities.bfloat16_tiles
        if unit and unit.terms_per_cycle > 2 * machine.PAIR_TERMS_PER_CYCLE:  # the time of packing does not matter
            executed = [
                None if group is None or tileable_product(group, unit, self._weights) else scheduled
                for group, scheduled in zip(groups, executed, strict=True)
            ]
        problems = [None if group is None else tiling_problem(group, capabilities) for group in executed]
        fixed = _buffers_of_gathers(proc)
        self.layouts: Layouts = {
            buf: buf.strides
            for buf in proc.bufs
            if buf in unaliased and buf.access is AccessMode.TEMP and buf not in fixed
        }
        self.items: list[_Item] = []
        self.accessors: dict[Buf, list[_Item]] = {buf: [] for buf in self.layouts}
        for position, (group, problem) in enumerate(zip(groups, problems, strict=True)):
            if group is None or problem is None:
                continue
            bufs = dict.fromkeys(ref.buf for ref in (*group.reads, *group.writes))
            movable = tuple([buf for buf in bufs if buf in self.layouts])
            candidates = [buf for buf in bufs if group.reductions and buf in unaliased]
            written = {ref.buf for ref in group.writes}
            reused = [
                buf for buf in candidates
                if buf.space is MemorySpace.GLOBAL or _is_read_often(buf, group) or _is_gathered(buf, problem)
            ]  # fmt: skip
            copied = tuple([buf for buf in reused if buf not in written and _is_final(buf, position, table)])
            results = [buf for buf in candidates if buf.space is MemorySpace.GLOBAL and buf in written]
            filled = tuple([buf for buf in results if _overwrites(group, buf)])
            lower_bound = _lower_bound(problem, {*movable, *copied, *filled})
            item = _Item(position, group, problem, movable, copied, filled, lower_bound)
            self.items.append(item)
            for buf in movable:
                self.accessors[buf].append(item)
        self._copy_costs: dict[tuple[Buf, Strides, Strides], float] = {}
        self._costs: dict[tuple[int, tuple[Strides, ...]], tuple[float, Layouts]] = {}

    # --------------------------------------------------------------------------------------------------------- the cost

    def cost(self, item: _Item, layouts: Layouts) -> tuple[float, Layouts]:
        """Returns the estimated cycles of a group, and the layouts of its copies."""
        key = _key(item, layouts)
        if key not in self._costs:
            self._costs[key] = self._choose_copies(item, {buf: layouts[buf] for buf in item.movable})
        return self._costs[key]

    def _choose_copies(self, item: _Item, layouts: Layouts) -> tuple[float, Layouts]:
        """Adds the most profitable copy repeatedly, until no further copy is profitable."""
        copies: Layouts = {}
        cycles = _cycles(item.problem, layouts)
        while True:
            best_cycles, best_copies = machine.MAX_LAYOUT_COST_RATIO * cycles, copies
            for buf in (*item.copied, *item.filled):
                for strides in _alternative_layouts(buf, layouts) if buf not in copies else ():
                    candidate = {**copies, buf: strides}
                    candidate_cycles = self.cost_with_copies(item, layouts, candidate, best_cycles)
                    if candidate_cycles < best_cycles:
                        best_cycles, best_copies = candidate_cycles, candidate
            if best_copies is copies:
                return cycles, copies
            cycles, copies = best_cycles, best_copies

    def cost_with_copies(self, item: _Item, layouts: Layouts, copies: Layouts, limit: float) -> float:
        """Returns the cycles of a group and its copies; exact below `limit`, otherwise some lower bound."""
        sources = {buf: layouts.get(buf, buf.strides) for buf in copies}
        copy_cycles = sum([self.copy_cost(buf, sources[buf], target) for buf, target in copies.items()])
        if copy_cycles + item.lower_bound >= limit:
            return copy_cycles + item.lower_bound
        return copy_cycles + _cycles(item.problem, {**layouts, **copies}, limit - copy_cycles)

    def copy_cost(self, buf: Buf, source: Strides, target: Strides) -> float:
        key = buf, source, target
        if key not in self._copy_costs:
            is_free = buf in self._weights
            self._copy_costs[key] = 0 if is_free else _copy_cycles(buf, source, target, self.capabilities)
        return self._copy_costs[key]

    def lower_bound(self, item: _Item, layouts: Layouts, limit: float = 0) -> float:
        """Returns a lower bound on the cycles of a group; its term for no copies is exact below `limit`."""
        if _key(item, layouts) in self._costs:
            return self.cost(item, layouts)[0]
        bounds = [_cycles(item.problem, {buf: layouts[buf] for buf in item.movable}, limit)]
        for buf in (*item.copied, *item.filled):
            source = layouts.get(buf, buf.strides)
            bounds += [
                self.copy_cost(buf, source, target) + item.lower_bound for target in _alternative_layouts(buf, layouts)
            ]
        return min(bounds)

    def is_profitable(self, items: Sequence[_Item], layouts: Layouts, constant: float = 0) -> bool:
        """Whether the groups take fewer cycles with these layouts than with the current ones. Other groups take
        `constant` cycles with both."""
        current = [self.cost(item, self.layouts)[0] for item in items]
        bounds = [self.lower_bound(item, layouts) for item in items]
        limit, total = machine.MAX_LAYOUT_COST_RATIO * (sum(current) + constant), sum(bounds) + constant
        for n in sorted(range(len(items)), key=lambda n: bounds[n] - current[n]):  # the lowest bounds are the loosest
            item, bound = items[n], bounds[n]
            if total >= limit:
                return False
            remaining = total - bound
            bound = self.lower_bound(item, layouts, limit - remaining)
            total = remaining + (bound if remaining + bound >= limit else self.cost(item, layouts)[0])
        return total < limit

    # ------------------------------------------------------------------------------------------------------- the search

    def run(self) -> None:
        cycles = {item.position: self.cost(item, self.layouts)[0] for item in self.items}
        total = sum(cycles.values())
        for axes in self.axis_classes():
            new = {**self.layouts, **{buf: _innermost(buf.shape, axis) for buf, axis in axes.items()}}
            accessors = {item.position: item for buf in axes for item in self.accessors[buf]}
            constant = total - sum(cycles[position] for position in accessors)
            if self.is_profitable(tuple(accessors.values()), new, constant):
                self.layouts = new
                cycles |= {position: self.cost(item, new)[0] for position, item in accessors.items()}
                total = constant + sum(cycles[position] for position in accessors)
        for buf, items in self.accessors.items():
            for strides in _alternative_layouts(buf, {}):
                new = {**self.layouts, buf: strides}
                if self.is_profitable(items, new):
                    self.layouts = new

    def axis_classes(self) -> Iterator[dict[Buf, int]]:
        """Yields classes of axes of temporaries indexed by the same loops, largest number of elements first."""
        sets = DisjointSets()
        for item in self.items:
            for ref in (*item.group.reads, *item.group.writes):
                for axis, index in enumerate(ref.indices):
                    if index.only_sym is not None and ref.buf in self.layouts:
                        sets.union((ref.buf, axis), index.only_sym)
        classes: dict[object, dict[Buf, int]] = {}
        for buf in self.layouts:
            for axis, size in enumerate(buf.shape):
                if size > 1 and (buf, axis) in sets:
                    classes.setdefault(sets.find((buf, axis)), {})[buf] = axis
        yield from sorted(classes.values(), key=lambda axes: -sum(prod(buf.shape) for buf in axes))

    # ------------------------------------------------------------------------------------------------------- the result

    def result(self) -> Proc:
        proc = self.proc
        new = {
            buf: replace(buf, strides=strides) for buf, strides in self.layouts.items() if strides != buf.strides
        }
        copies: dict[tuple[Buf, Strides], Buf] = {}  # whose contents are equal to those of their originals
        body: list[Stmt] = []
        copies_of = {item.position: self.cost(item, self.layouts)[1] for item in self.items}
        filled = {item.position: item.filled for item in self.items}
        new_bufs: list[Buf] = []

        def add_copy(buf: Buf, strides: Strides) -> Buf:
            new_bufs.append(
                Buf(self.names(buf.name), buf.precision, buf.shape, strides, MemorySpace.ARENA, AccessMode.TEMP)
            )
            return new_bufs[-1]

        for position, stmt in enumerate(proc.body):
            replacements: dict[Buf, Buf] = {}
            after: list[Stmt] = []
            local_copies = copies_of.get(position, {}).items()
            for buf, strides in local_copies:
                if buf in filled[position]:
                    replacements[buf] = add_copy(buf, strides)
                    after.append(_copy(replacements[buf], buf, self.names, _origin_of_writes(stmt, buf)))
                    continue
                if (buf, strides) not in copies:
                    copies[buf, strides] = add_copy(buf, strides)
                    body.append(_copy(buf, copies[buf, strides], self.names))
                replacements[buf] = copies[buf, strides]
            copies = {key: copy for key, copy in copies.items() if position not in self.writers.get(key[0], ())}
            copies |= {(buf, strides): replacements[buf] for buf, strides in local_copies if buf in filled[position]}
            body += (*with_buffers((stmt,), replacements), *after)
        if not new and not new_bufs:
            return proc
        return replace_buffers(replace(proc, body=tuple(body), bufs=(*proc.bufs, *new_bufs)), new)


def _key(item: _Item, layouts: Layouts) -> tuple[int, tuple[Strides, ...]]:
    return item.position, tuple([layouts[buf] for buf in item.movable])


def _cycles(problem: TilingProblem, layouts: Layouts, limit: float = inf) -> float:
    transposition_cycles = _transposition_cycles(problem, layouts)
    return transposition_cycles + min_cycles(problem.nest_shape(layouts), limit - transposition_cycles)


def _transposition_cycles(problem: TilingProblem, layouts: Layouts) -> float:
    """Returns the cycles that a map waits for large operands whose innermost loop is not that of its result: tiles read
    them in short rows, which hardware prefetchers do not recognize. Operands that do not vary along the innermost loop
    of the result, such as a statistic of each row, are not transposed."""
    extents = problem.shape_without_strides.parallel_extents
    if problem.shape_without_strides.reduction_extents:
        return 0.0
    waits = {ref: _far_cycles(ref.buf, machine.TRANSPOSED_ELEMENT_CYCLES) for ref in problem.reduction_reads}
    if not any(waits.values()):
        return 0.0

    def innermost_loops(strides: Strides) -> set[int]:
        steps = {n: abs(strides[n]) for n, extent in enumerate(extents) if extent > 1 and strides[n]}
        return {n for n, step in steps.items() if step == min(steps.values())}

    written = {n for ref in problem.writes for n in innermost_loops(problem.strides_along_loops(ref, layouts))}

    def is_transposed(ref: Ref) -> bool:
        strides = problem.strides_along_loops(ref, layouts)
        return any(strides[n] for n in written) and written.isdisjoint(innermost_loops(strides))

    return prod(extents) * sum(cycles for ref, cycles in waits.items() if cycles and is_transposed(ref))


def _far_cycles(buf: Buf, shared_cache_cycles: float) -> float:
    """Returns the cycles that a transposing access waits for an element of the buffer: none if the private cache holds
    the buffer, and more than `shared_cache_cycles` if no cache does."""
    if buf.nbytes <= machine.MAX_CHEAP_COPY_BYTES:
        return 0.0
    return shared_cache_cycles + (machine.MEMORY_ELEMENT_CYCLES if buf.nbytes > machine.MAX_CACHED_COPY_BYTES else 0.0)


def _lower_bound(problem: TilingProblem, bufs: set[Buf]) -> float:
    """Returns a lower bound on the cycles of the group for all layouts of the buffers."""
    return machine.BOUND_SLACK * min_cycles(problem.nest_shape(without=bufs))


def _innermost(shape: tuple[int, ...], axis: int) -> Strides:
    """Returns the strides with `axis` innermost in memory, and the remaining axes in row-major order."""
    order = [n for n in range(len(shape)) if n != axis] + [axis]
    strides = dict(zip(order, row_major(tuple([shape[n] for n in order])), strict=True))
    return tuple([strides[n] for n in range(len(order))])


def _copy_cycles(buf: Buf, source: Strides, target: Strides, capabilities: Capabilities) -> float:
    """Returns the estimated cycles of a copy between two layouts of the buffer."""
    lanes = capabilities.vector_bytes // max(4, buf.precision.nbytes)
    tileable = (True,) * len(buf.shape)
    shape = NestShape(
        buf.shape, (), tileable, tileable, (source,), (), (target,), 1, 0, lanes, capabilities.vector_registers
    )
    return _far_cycles(buf, machine.FAR_ELEMENT_CYCLES) * prod(buf.shape) + min_cycles(shape)


def _reduction_terms(group: FusionGroup) -> int:
    """Returns the number of terms of all reductions of the group."""
    terms = [prod([sym.extent for sym in reduction.syms]) for reduction in group.reductions]
    return prod([sym.extent for sym in group.syms]) * sum(terms)


def _buffers_of_gathers(proc: Proc) -> set[Buf]:
    """The arrays of statements with indirect indices: the cost model does not see them, and they keep their layouts."""
    gathers = (stmt for stmt in proc.body if any(isinstance(leaf, BindIndex) for leaf in leaves((stmt,))))
    return {buf for stmt in gathers for bufs in accessed_buffers(stmt) for buf in bufs}


def _is_read_often(buf: Buf, group: FusionGroup) -> bool:
    return _reduction_terms(group) >= machine.MIN_TERMS_PER_COPIED_CELL * prod(buf.shape)


def _is_gathered(buf: Buf, problem: TilingProblem) -> bool:
    """Whether vectors along any loop would read the buffer in strides, as in a depthwise convolution whose padding
    leaves no loop to vectors but that over the channels, which are outermost in memory."""
    shape = problem.nest_shape()
    reads = [
        read for ref, read in zip(problem.reduction_reads, shape.reduction_reads, strict=True) if ref.buf is buf
    ]
    vectorizable = [n for n, is_vectorizable in enumerate(shape.vectorizable) if is_vectorizable]
    return bool(reads and vectorizable) and all(abs(read[n]) > 1 for read in reads for n in vectorizable)


def _is_final(buf: Buf, position: int, table: AccessTable) -> bool:
    """Whether no statement from the first read of the buffer to `position` writes the buffer."""
    first, *_ = table.readers[buf]
    return not any(first <= write < position for write in table.writers.get(buf, ()))


def _overwrites(group: FusionGroup, buf: Buf) -> bool:
    """Whether the group writes every cell of the buffer exactly once, and reads none."""
    writes = [stmt for stmt in group.epilogue if not isinstance(stmt, Let) and stmt.ref.buf is buf]
    if len(writes) > 1 or not group.cond.is_true or any(ref.buf is buf for ref in group.reads):
        return False
    return isinstance(writes[0], Store) and unit_covering_loops(writes[0].ref, group.loops) is not None


def _alternative_layouts(buf: Buf, layouts: Layouts) -> list[Strides]:
    """Returns the candidate layouts that differ from the current layout of the buffer."""
    current = layouts.get(buf, buf.strides)
    return [strides for strides in _candidate_layouts(buf.shape) if strides != current]


@lru_cache(maxsize=1 << 10)
def _candidate_layouts(shape: tuple[int, ...]) -> list[Strides]:
    """Returns a layout for each choice of the innermost axis, the last axes first: of layouts that are about equally
    fast, the search keeps the first, which leaves outer axes to the threads."""
    axes = [axis for axis in reversed(range(len(shape))) if shape[axis] > 1]
    return list(dict.fromkeys(_innermost(shape, axis) for axis in axes))


def _origin_of_writes(stmt: Stmt, buf: Buf) -> Origin:
    writes = [leaf.origin for leaf in leaves((stmt,)) if isinstance(leaf, Store | Update) and leaf.ref.buf is buf]
    return writes[0] if writes else NOWHERE


def _copy(source: Buf, target: Buf, names: Namer, origin: Origin = NOWHERE) -> Stmt:
    syms = [Sym(names("i"), 0, size - 1) for size in source.shape]
    indices = tuple(map(Affine.of, syms))
    store = Store(Ref(target, indices), Load(Ref(source, indices)), origin)
    (nest,) = wrap_in_loops([loop(sym, ()) for sym in syms], TRUE, (store,))
    return nest
