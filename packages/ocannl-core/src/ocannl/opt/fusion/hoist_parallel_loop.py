"""Loop interchange: hoists a parallel loop that several nests share, such as a batch loop, outside of all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import prod
from typing import NamedTuple

from ocannl.ir.accesses import memory_accesses
from ocannl.ir.affine import Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Buf, For, MemorySpace, Mode, Proc, Stmt, is_full
from ocannl.ir.name_mangling import Namer
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import group_of
from ocannl.opt.analysis.loop_distribution import AccessSummary, partition_for_shared_loop, strides_without_axis
from ocannl.opt.analysis.nests import as_statement, bound_names, is_parallel_loop, same_objects
from ocannl.opt.analysis.substitution import with_buffers
from ocannl.opt.analysis.union_find import DisjointSets
from ocannl.opt.schedule.plan.cost_model import best_tile
from ocannl.opt.schedule.plan.nest_shape import Strides
from ocannl.opt.schedule.plan.register_tiles import tiling_problem
from ocannl.opt.schedule.plan.scalar_plans import scalar_cycles


def hoist_parallel_loop(
    proc: Proc,
    capabilities: Capabilities,
    min_trip_count: int | None = None,
    min_bytes: int | None = None,
    max_slowdown: float | None = None,
) -> Proc:
    """Hoists the parallel loop that most nests can share, then repeatedly that of the nests which are left. In this
    example `min_bytes` is 4096:

        proc step                                   proc step
          x : f32[16,64]  in                          x : f32[16,64]  in
          h : f32[16,64]  arena                       h : f32[16,64]  arena
          y : f32[16,64]  out                         y : f32[16,64]  out
          for b in 0..16:                             parallel(chunk=1) for b in 0..16:
            for i in 0..64:                             for i in 0..64:
              h[b, i] = exp(x[b, i])            ==>       h[b, i] = exp(x[b, i])
          for b_2 in 0..16:                           parallel(chunk=1) for b_2 in 0..16:
            for j in 0..64:                             for j in 0..64:
              y[b_2, j] = h[b_2, -j+63] * 2               y[b_2, j] = h[b_2, -j+63] * 2

    Interchange is profitable if the nests together access more than `min_bytes` bytes, one iteration of each fits in
    the cache, at least without its slices of arrays, and register tiles lose little without the loop: at most the
    factor `max_slowdown`. A nest that loses more is left out if it can execute before or after the loop. A loop is left
    to be vectorized if no nest contains another one. Later passes keep the loop outermost, and `fuse_parallel_loops`
    merges adjacent ones. Temporaries become contiguous per iteration of the loop, whose trip count is at least
    `min_trip_count`.
    """
    if not capabilities.vector_bytes:
        return proc
    min_trip_count = machine.MIN_HOISTED_TRIPS if min_trip_count is None else min_trip_count
    min_bytes = machine.MIN_HOISTED_BYTES if min_bytes is None else min_bytes
    max_slowdown = machine.MAX_HOISTING_SLOWDOWN if max_slowdown is None else max_slowdown
    analysis = _Analysis(proc, capabilities)
    candidates = _CandidateLoops(analysis, min_trip_count)
    body, relaid = list(proc.body), dict[Buf, Buf]()
    while (loop_symbols := candidates.pop()) is not None:
        hoisted = _profitable_nests(loop_symbols, analysis, min_bytes, max_slowdown)
        if hoisted is None:
            continue
        contracted = analysis.contracted_strides(hoisted)
        contiguous = {buf: _contiguous_per_iteration(buf, strides) for buf, strides in contracted.items()}
        for position, sym in hoisted.items():
            (body[position],) = with_buffers((_interchanged(body[position], sym),), contiguous)
        relaid |= contiguous  # only the hoisted nests access these arrays
        candidates.remove_nests(hoisted)
    if same_objects(body, proc.body):
        return proc
    return replace(proc, bufs=tuple([relaid.get(buf, buf) for buf in proc.bufs]), body=tuple(body))


LoopSymbols = dict[int, Sym]
"""The symbol of a loop in each nest that shares it, by the position of the nest, in ascending order."""


def _profitable_nests(
    loop_symbols: LoopSymbols, analysis: _Analysis, min_bytes: int, max_slowdown: float
) -> LoopSymbols | None:
    """The nests whose loop is hoisted, without those that are slowed down; None if the interchange is unprofitable."""
    if not _improves_locality(analysis, loop_symbols, min_bytes) or not _keeps_a_loop(analysis, loop_symbols):
        return None
    cycles = _nest_cycles(analysis, loop_symbols)
    while (remaining := _drop_slowed_nests(analysis, loop_symbols, cycles, max_slowdown)) != loop_symbols:
        loop_symbols = remaining  # nests that are left out read temporaries of the others in whole
        cycles = _nest_cycles(analysis, loop_symbols)
    return loop_symbols if _is_profitable(cycles.values(), max_slowdown) else None


@dataclass(frozen=True, slots=True, eq=False)
class _Nest:
    stmt: Stmt
    loops: tuple[For, ...]  # perfectly nested
    summary: AccessSummary
    indexing_symbols: tuple[tuple[tuple[Buf, int], Sym], ...]  # an array, its axis, and the loop symbol that indexes it
    is_nested: bool  # whether there is more than one loop


class _Analysis:
    """The nests before any interchange, and results about them. These remain valid for nests whose loop has not been
    hoisted: interchange changes neither the dependences of a nest nor the layout of arrays that other nests access."""

    def __init__(self, proc: Proc, capabilities: Capabilities) -> None:
        self._capabilities, self._names = capabilities, Namer(bound_names(proc))
        self.nests = [_nest(stmt) for stmt in proc.body]
        self._summaries = [nest.summary for nest in self.nests]
        self._accessors: dict[object, set[int]] = {}  # positions of the nests that access a storage
        for position, summary in enumerate(self._summaries):
            for key in summary.axes:
                self._accessors.setdefault(key, set()).add(position)
        self._estimates: dict[int, _Estimate | None] = {}  # by position
        self._iteration_estimates: dict[object, _Estimate | None] = {}  # by symbol and orders

    def sharing_nests(self, loop_symbols: LoopSymbols) -> LoopSymbols:
        """The nests that can share the loop. Nests before the first and after the last of them do not interfere."""
        span = range(min(loop_symbols), max(loop_symbols) + 1)
        summaries, syms = self._summaries[span.start : span.stop], [loop_symbols.get(position) for position in span]
        inside = partition_for_shared_loop(summaries, syms).inside
        return {span[n]: loop_symbols[span[n]] for n in inside}

    def shared_accesses(self, loop_symbols: LoopSymbols) -> AccessSummary:
        """Accesses of all nests that share the loop."""
        shared = AccessSummary()
        for position, sym in loop_symbols.items():
            shared.add(self._summaries[position].with_shared_symbol(sym))
        return shared

    def contracted_strides(self, loop_symbols: LoopSymbols) -> dict[Buf, Strides]:
        """Strides within one iteration of temporaries that only sharing nests access; the loop's axis has stride
        zero."""
        return {
            buf: strides_without_axis(buf, min(axes))
            for key, (buf, axes) in self.shared_accesses(loop_symbols).axes.items()
            if axes and buf.space is MemorySpace.ARENA and self._accessors[key] <= loop_symbols.keys()
        }

    def cycles(self, position: int) -> _Estimate | None:
        """The estimated cycles of a nest; None if it is not a fusion group."""
        if position not in self._estimates:
            self._estimates[position] = _cycles(self.nests[position].stmt, self._names, self._capabilities, {})
        return self._estimates[position]

    def iteration_cycles(self, position: int, sym: Sym, orders: Mapping[Buf, Strides]) -> _Estimate | None:
        """The estimated cycles of one iteration of a hoisted loop, with arrays in the given orders."""
        nest = self.nests[position]
        bufs = {access.ref.buf for access in nest.summary.accesses}
        key = sym, frozenset((buf, orders[buf]) for buf in bufs if buf in orders)
        if key not in self._iteration_estimates:
            body = as_statement(_interchanged(nest.stmt, sym).body)
            self._iteration_estimates[key] = _cycles(body, self._names, self._capabilities, orders)
        return self._iteration_estimates[key]


def _nest(stmt: Stmt) -> _Nest:
    loops, accesses = _perfect_loops(stmt), memory_accesses((stmt,))
    syms = {loop.sym for loop in loops}
    indexing_symbols = dict.fromkeys(
        ((access.ref.buf, axis), index.only_sym)
        for access in accesses for axis, index in enumerate(access.ref.indices) if index.only_sym in syms
    )  # fmt: skip
    is_nested = sum(isinstance(node, For) for node in walk(stmt)) > 1
    return _Nest(stmt, loops, AccessSummary(accesses), tuple(indexing_symbols), is_nested)


def _perfect_loops(stmt: Stmt) -> tuple[For, ...]:
    loops: list[For] = []
    while isinstance(stmt, For) and is_full(stmt) and stmt.mode is Mode.SERIAL and not is_parallel_loop(stmt):
        loops.append(stmt)
        if len(stmt.body) != 1:
            break
        (stmt,) = stmt.body
    return tuple(loops)


class _HeapEntry(NamedTuple):
    """A candidate: the negative number of its nests, the first of its symbols in the program, whether these nests are
    known to share the loop, and the number of its class."""

    negative_count: int
    order: int
    is_shared: bool
    number: int


class _CandidateLoops:
    """Loops that several nests can share, most nests first. Loops of different nests are candidates together if their
    symbols index the same array axes (union-find) and have equal ranges. Which nests can share a loop is found out when
    no other loop could be shared by more."""

    def __init__(self, analysis: _Analysis, min_trip_count: int) -> None:
        self._analysis, self._min_trip_count = analysis, min_trip_count
        loops = [(position, loop.sym) for position, nest in enumerate(analysis.nests) for loop in nest.loops]
        self._positions = {sym: position for position, sym in loops}  # of the nests
        self._order = {sym: number for number, (_, sym) in enumerate(loops)}
        self._classes: dict[int, list[tuple[object, Sym]]] = {}  # axes and symbols that index them, by number
        self._class_of: dict[Sym, int] = {}
        self._class_numbers = count()
        self._loop_symbols: dict[int, LoopSymbols] = {}  # of each class
        self._heap: list[_HeapEntry] = []
        self._add_classes([pair for nest in analysis.nests for pair in nest.indexing_symbols])

    def pop(self) -> LoopSymbols | None:
        """Removes and returns the loop that most nests can share; None if no loop can be shared."""
        while self._heap:
            entry = heappop(self._heap)
            number, loop_symbols = entry.number, self._loop_symbols[entry.number]
            if number not in self._classes or len(loop_symbols) < 2:
                continue
            if entry.is_shared:
                return loop_symbols
            self._loop_symbols[number] = sharing = self._analysis.sharing_nests(loop_symbols)
            heappush(self._heap, _HeapEntry(-len(sharing), entry.order, True, number))
        return None

    def remove_nests(self, positions: Collection[int]) -> None:
        """Removes the loops of these nests: symbols that only these nests connect are no longer equivalent."""
        syms = [loop.sym for position in positions for loop in self._analysis.nests[position].loops]
        numbers = dict.fromkeys(self._class_of[sym] for sym in syms if sym in self._class_of)
        pairs = [pair for number in numbers for pair in self._classes.pop(number)]
        self._add_classes([(axis, sym) for axis, sym in pairs if self._positions[sym] not in positions])

    def _add_classes(self, pairs: Sequence[tuple[object, Sym]]) -> None:
        """Adds the equivalence classes of symbols that index the same axes."""
        sets = DisjointSets()
        for axis, sym in pairs:
            sets.union(axis, sym)
        classes: dict[object, list[tuple[object, Sym]]] = {}
        for axis, sym in pairs:
            classes.setdefault(sets.find(sym), []).append((axis, sym))
        for members in classes.values():
            number = next(self._class_numbers)
            self._classes[number] = members
            self._class_of |= {sym: number for _, sym in members}
            self._add_candidate(number, {sym for _, sym in members if sym.extent >= self._min_trip_count})

    def _add_candidate(self, number: int, candidates: Collection[Sym]) -> None:
        if len({(sym.lo, sym.hi) for sym in candidates}) != 1:
            return
        syms = sorted(candidates, key=self._order.__getitem__)
        nests = Counter(self._positions[sym] for sym in syms)
        loop_symbols = {position: sym for sym in syms if nests[position := self._positions[sym]] == 1}
        self._loop_symbols[number] = loop_symbols
        heappush(self._heap, _HeapEntry(-len(loop_symbols), self._order[syms[0]], False, number))


def _improves_locality(analysis: _Analysis, loop_symbols: LoopSymbols, min_bytes: int) -> bool:
    """Whether the nests access more than the minimum in total, and an iteration of each suits the cache."""
    summaries = [analysis.nests[position].summary.with_shared_symbol(sym) for position, sym in loop_symbols.items()]
    if not all(map(_is_cached, summaries)):
        return False
    return sum(buf.nbytes for buf, _ in analysis.shared_accesses(loop_symbols).axes.values()) > min_bytes


def _is_cached(summary: AccessSummary) -> bool:
    """Whether an iteration of the loop fits in a private cache, or at least the arrays that all iterations access, such
    as weights, while slices of other arrays are streamed."""
    slice_bytes = sum(_bytes_per_iteration(buf, axes) for buf, axes in summary.axes.values() if axes)
    shared_bytes = sum(buf.nbytes for buf, axes in summary.axes.values() if not axes)
    if slice_bytes + shared_bytes <= machine.MAX_HOISTED_ITERATION_BYTES:
        return True
    return slice_bytes <= machine.MAX_HOISTED_SLICE_BYTES and shared_bytes <= machine.MAX_HOISTED_SHARED_BYTES


def _keeps_a_loop(analysis: _Analysis, loop_symbols: LoopSymbols) -> bool:
    """Whether an iteration of any nest contains a loop: without one, there would be nothing to vectorize."""
    return any(analysis.nests[position].is_nested for position in loop_symbols)


def _nest_cycles(analysis: _Analysis, loop_symbols: LoopSymbols) -> dict[int, tuple[float, float]]:
    """Estimated cycles of each nest before and after the interchange."""
    contracted = analysis.contracted_strides(loop_symbols)
    cycles: dict[int, tuple[float, float]] = {}
    for position, sym in loop_symbols.items():
        unhoisted, iteration = analysis.cycles(position), analysis.iteration_cycles(position, sym, contracted)
        if unhoisted is not None and iteration is not None and (unhoisted.in_vectors or iteration.in_vectors):
            cycles[position] = unhoisted.cycles, iteration.cycles * sym.extent
    return cycles


def _contiguous_per_iteration(buf: Buf, contracted: Strides) -> Buf:
    """The array with the cells of one iteration contiguous in memory."""
    iteration_size = prod(size for size, stride in zip(buf.shape, contracted, strict=True) if stride)
    return replace(buf, strides=tuple([stride or iteration_size for stride in contracted]))


def _drop_slowed_nests(
    analysis: _Analysis, loop_symbols: LoopSymbols, cycles: Mapping[int, tuple[float, float]], max_slowdown: float
) -> LoopSymbols:
    """Leaves out nests that the interchange slows down by more than `max_slowdown`, such as transposing copies, if
    they can execute before or after the loop."""
    for position, (unhoisted, hoisted) in cycles.items():
        if hoisted > max_slowdown * unhoisted:
            remaining = {candidate: sym for candidate, sym in loop_symbols.items() if candidate != position}
            if len(remaining) > 1 and len(analysis.sharing_nests(remaining)) == len(remaining):
                loop_symbols = remaining
    return loop_symbols


def _is_profitable(cycles: Collection[tuple[float, float]], max_slowdown: float) -> bool:
    """Whether the estimated slowdown of the sharing nests is at most `max_slowdown`."""
    return sum(hoisted for _, hoisted in cycles) <= max_slowdown * sum(unhoisted for unhoisted, _ in cycles)


def _bytes_per_iteration(buf: Buf, axes: Collection[int]) -> int:
    """Bytes of the array per iteration of the loop that indexes these axes."""
    return buf.nbytes // max(1, prod(buf.shape[axis] for axis in axes))


class _Estimate(NamedTuple):
    """Estimated cycles of a nest, in register tiles or in scalar loops."""

    cycles: float
    in_vectors: bool


def _cycles(stmt: Stmt, names: Namer, capabilities: Capabilities, orders: Mapping[Buf, Strides]) -> _Estimate | None:
    """Returns the estimated cycles of a nest; None if it is not a fusion group."""
    group = group_of(stmt, names)
    if group is None:
        return None
    problem = tiling_problem(group, capabilities)
    tile = best_tile(problem.nest_shape(orders)) if problem is not None else None
    return _Estimate(scalar_cycles(group), False) if tile is None else _Estimate(tile.cycles, True)


def _interchanged(stmt: Stmt, sym: Sym) -> For:
    """The nest with its loop over the symbol interchanged to the outermost position."""
    chain: list[For] = []
    assert isinstance(stmt, For)
    while stmt.sym is not sym:
        chain.append(stmt)
        (stmt,) = stmt.body
        assert isinstance(stmt, For)
    body = stmt.body
    for loop in reversed(chain):
        body = (replace(loop, body=body),)
    return replace(stmt, body=body, parallel_chunk=1)
