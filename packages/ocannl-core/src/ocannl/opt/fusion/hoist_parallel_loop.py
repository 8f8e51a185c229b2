"""Loop interchange: hoists a parallel loop that several nests share, such as a batch loop, outside of all others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import chain
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
from ocannl.opt.analysis.nests import as_statement, bound_names, is_parallel_loop
from ocannl.opt.analysis.substitution import with_buffers
from ocannl.opt.analysis.union_find import DisjointSets
from ocannl.opt.schedule.plan.cost_model import Strides, best_tile
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
    the cache, and register tiles lose little without the loop: at most the factor `max_slowdown`. A nest that loses
    more is left out if it can execute before or after the loop. A loop is left to be
    vectorized if no nest contains another one. Later passes keep the loop outermost, and `fuse_parallel_loops` merges
    adjacent ones. Temporaries become contiguous per iteration of the loop, whose trip count is at least
    `min_trip_count`.
    """
    if not capabilities.vector_bytes:
        return proc
    min_trip_count = machine.MIN_HOISTED_TRIPS if min_trip_count is None else min_trip_count
    min_bytes = machine.MIN_HOISTED_BYTES if min_bytes is None else min_bytes
    max_slowdown = machine.MAX_HOISTING_SLOWDOWN if max_slowdown is None else max_slowdown
    analysis = _Analysis(capabilities, Namer(bound_names(proc)))
    hoisted: Proc | None = proc
    while hoisted is not None:
        proc, hoisted = hoisted, _hoist_shared_loop(hoisted, analysis, min_trip_count, min_bytes, max_slowdown)
    return proc


def _hoist_shared_loop(
    proc: Proc, analysis: _Analysis, min_trip_count: int, min_bytes: int, max_slowdown: float
) -> Proc | None:
    """Hoists the parallel loop that most of the other nests can share; None if there is no profitable one."""
    nests = [analysis.nest(stmt) for stmt in proc.body]
    summaries = [nest.summary for nest in nests]
    for loop_symbols in _candidates(nests, analysis, min_trip_count):
        if not _improves_locality(summaries, loop_symbols, min_bytes) or not _keeps_a_loop(nests, loop_symbols):
            continue
        contracted = _contracted_strides(summaries, loop_symbols)
        candidate = _loop_span(nests, loop_symbols), frozenset(contracted.items())
        if candidate in analysis.unprofitable:
            continue
        cycles = _nest_cycles(nests, loop_symbols, contracted, analysis)
        while (remaining := _drop_slowed_nests(analysis, nests, loop_symbols, cycles, max_slowdown)) != loop_symbols:
            loop_symbols = remaining  # nests that are left out read temporaries of the others in whole
            contracted = _contracted_strides(summaries, loop_symbols)
            cycles = _nest_cycles(nests, loop_symbols, contracted, analysis)
        if _is_profitable(loop_symbols, cycles, max_slowdown):
            relaid = {buf: _contiguous_per_iteration(buf, strides) for buf, strides in contracted.items()}
            body = [
                with_buffers((_interchanged(nest.stmt, sym),), relaid) if sym else (nest.stmt,)
                for nest, sym in zip(nests, loop_symbols, strict=True)
            ]  # only sharing nests access relaid arrays
            bufs = [relaid.get(buf, buf) for buf in proc.bufs]
            return replace(proc, bufs=tuple(bufs), body=tuple(chain.from_iterable(body)))
        analysis.unprofitable.add(candidate)
    return None


@dataclass(frozen=True, slots=True, eq=False)
class _Nest:
    stmt: Stmt
    loops: tuple[For, ...]  # perfectly nested; none in nests whose loop is hoisted
    summary: AccessSummary
    indexing_symbols: tuple[tuple[tuple[Buf, int], Sym], ...]  # an array, its axis, and the loop symbol that indexes it
    is_nested: bool  # whether there is more than one loop


class _LoopSpan(NamedTuple):
    """The nests from the first to the last one that contain a loop, with its symbol in each of them: other nests do not
    interfere."""

    start: int
    nests: tuple[_Nest, ...]
    symbols: tuple[Sym | None, ...]


def _loop_span(nests: Sequence[_Nest], loop_symbols: Sequence[Sym | None]) -> _LoopSpan:
    positions = [position for position, sym in enumerate(loop_symbols) if sym is not None]
    start, end = (positions[0], positions[-1] + 1) if positions else (0, 0)
    return _LoopSpan(start, tuple(nests[start:end]), tuple(loop_symbols[start:end]))


class _Analysis:
    """Results about nests, which remain valid until a nest is replaced: most nests outlast many interchanges."""

    def __init__(self, capabilities: Capabilities, names: Namer) -> None:
        self._capabilities, self._names = capabilities, names
        self.unprofitable: set[object] = set()  # loops and the arrays that they would contract
        self._nests: dict[int, _Nest] = {}  # by the identity of the statement, which the nest keeps alive
        self._sharing: dict[_LoopSpan, tuple[int, ...]] = {}
        self._estimates: dict[_Nest, _Estimate | None] = {}
        self._iteration_estimates: dict[object, _Estimate | None] = {}  # by nest, symbol and orders

    def nest(self, stmt: Stmt) -> _Nest:
        if id(stmt) not in self._nests:
            self._nests[id(stmt)] = _nest(stmt)
        return self._nests[id(stmt)]

    def sharing_nests(self, nests: Sequence[_Nest], loop_symbols: Sequence[Sym | None]) -> set[int]:
        """Positions of the nests that can share the loop."""
        span = _loop_span(nests, loop_symbols)
        if span not in self._sharing:
            summaries = [nest.summary for nest in span.nests]
            self._sharing[span] = partition_for_shared_loop(summaries, span.symbols).inside
        return {span.start + position for position in self._sharing[span]}

    def cycles(self, nest: _Nest) -> _Estimate | None:
        """The estimated cycles of a nest; None if it is not a fusion group."""
        if nest not in self._estimates:
            self._estimates[nest] = _cycles(nest.stmt, self._names, self._capabilities, {})
        return self._estimates[nest]

    def iteration_cycles(self, nest: _Nest, sym: Sym, orders: Mapping[Buf, Strides]) -> _Estimate | None:
        """The estimated cycles of one iteration of a hoisted loop, with arrays in the given orders."""
        bufs = {access.ref.buf for access in nest.summary.accesses}
        key = nest, sym, frozenset((buf, orders[buf]) for buf in bufs if buf in orders)
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


def _candidates(nests: Sequence[_Nest], analysis: _Analysis, min_trip_count: int) -> Iterator[list[Sym | None]]:
    """Yields the symbols of the nests that can share a loop, for each loop that several can, most nests first. Which
    nests can share a loop is found out when no other loop could be shared by more."""
    nest_of_symbol = {loop.sym: position for position, nest in enumerate(nests) for loop in nest.loops}
    classes = [_loop_symbols(syms, nest_of_symbol, len(nests)) for syms in _symbol_classes(nests, min_trip_count)]
    heap = [(loop_symbols.count(None), number, False) for number, loop_symbols in enumerate(classes)]
    heapify(heap)
    while heap and heap[0][0] < len(nests) - 1:
        _, number, is_shared = heappop(heap)
        if is_shared:
            yield classes[number]
            continue
        sharing = analysis.sharing_nests(nests, classes[number])
        classes[number] = [sym if position in sharing else None for position, sym in enumerate(classes[number])]
        heappush(heap, (len(nests) - len(sharing), number, True))


def _loop_symbols(syms: Iterable[Sym], nest_of_symbol: Mapping[Sym, int], nests: int) -> list[Sym | None]:
    """The symbol of each nest that is among the given ones, or None if there is not exactly one."""
    loop_symbols: list[Sym | None] = [None] * nests
    seen: set[int] = set()
    for sym in syms:
        position = nest_of_symbol[sym]
        loop_symbols[position] = None if position in seen else sym
        seen.add(position)
    return loop_symbols


def _symbol_classes(nests: Sequence[_Nest], min_trip_count: int) -> list[set[Sym]]:
    """Equivalence classes of loop symbols that index the same array axes (union-find), if their ranges are equal."""
    sets = DisjointSets()
    for nest in nests:
        for axis, sym in nest.indexing_symbols:
            sets.union(axis, sym)
    classes: dict[object, set[Sym]] = {}
    for sym in (loop.sym for nest in nests for loop in nest.loops):
        if sym.extent >= min_trip_count and sym in sets:
            classes.setdefault(sets.find(sym), set()).add(sym)
    return [syms for syms in classes.values() if len({(sym.lo, sym.hi) for sym in syms}) == 1]


def _shared_accesses(summaries: Sequence[AccessSummary], loop_symbols: Sequence[Sym | None]) -> AccessSummary:
    """Accesses of all nests that share the loop."""
    shared = AccessSummary()
    for nest, sym in zip(summaries, loop_symbols, strict=True):
        if sym:
            shared.add(nest.with_shared_symbol(sym))
    return shared


def _improves_locality(summaries: Sequence[AccessSummary], loop_symbols: Sequence[Sym | None], min_bytes: int) -> bool:
    """Whether the nests access more than the minimum in total, and an iteration of each fits in the cache."""
    for nest, sym in zip(summaries, loop_symbols, strict=True):
        axes_of = nest.with_shared_symbol(sym).axes.values() if sym else ()
        if sum(_bytes_per_iteration(buf, axes) for buf, axes in axes_of) > machine.MAX_HOISTED_ITERATION_BYTES:
            return False
    return sum(buf.nbytes for buf, _ in _shared_accesses(summaries, loop_symbols).axes.values()) > min_bytes


def _keeps_a_loop(nests: Sequence[_Nest], loop_symbols: Sequence[Sym | None]) -> bool:
    """Whether an iteration of any nest contains a loop: without one, there would be nothing to vectorize."""
    return any(nest.is_nested for nest, sym in zip(nests, loop_symbols, strict=True) if sym)


def _nest_cycles(
    nests: Sequence[_Nest],
    loop_symbols: Sequence[Sym | None],
    contracted: Mapping[Buf, Strides],
    analysis: _Analysis,
) -> dict[int, tuple[float, float]]:
    """Estimated cycles of each nest before and after the interchange."""
    cycles: dict[int, tuple[float, float]] = {}
    for position, (nest, sym) in enumerate(zip(nests, loop_symbols, strict=True)):
        if sym:
            unhoisted, iteration = analysis.cycles(nest), analysis.iteration_cycles(nest, sym, contracted)
            if unhoisted is not None and iteration is not None and (unhoisted.in_vectors or iteration.in_vectors):
                cycles[position] = unhoisted.cycles, iteration.cycles * sym.extent
    return cycles


def _contracted_strides(summaries: Sequence[AccessSummary], loop_symbols: Sequence[Sym | None]) -> dict[Buf, Strides]:
    """Strides within one iteration of temporaries that only sharing nests access; the loop's axis has stride zero."""
    used_elsewhere = {
        key for nest, sym in zip(summaries, loop_symbols, strict=True) if sym is None for key in nest.axes
    }
    shared = _shared_accesses(summaries, loop_symbols)
    return {
        buf: strides_without_axis(buf, min(axes)) for key, (buf, axes) in shared.axes.items()
        if axes and buf.space is MemorySpace.ARENA and key not in used_elsewhere
    }  # fmt: skip


def _contiguous_per_iteration(buf: Buf, contracted: Strides) -> Buf:
    """The array with the cells of one iteration contiguous in memory."""
    iteration_size = prod(size for size, stride in zip(buf.shape, contracted, strict=True) if stride)
    return replace(buf, strides=tuple([stride or iteration_size for stride in contracted]))


def _drop_slowed_nests(
    analysis: _Analysis,
    nests: Sequence[_Nest],
    loop_symbols: list[Sym | None],
    cycles: Mapping[int, tuple[float, float]],
    max_slowdown: float,
) -> list[Sym | None]:
    """Leaves out nests that the interchange slows down by more than `max_slowdown`, such as transposing copies, if
    they can execute before or after the loop."""
    for position, (unhoisted, hoisted) in cycles.items():
        if hoisted > max_slowdown * unhoisted:
            remaining = [None if candidate == position else sym for candidate, sym in enumerate(loop_symbols)]
            if len(analysis.sharing_nests(nests, remaining)) == sum(sym is not None for sym in remaining) > 1:
                loop_symbols = remaining
    return loop_symbols


def _is_profitable(
    loop_symbols: Sequence[Sym | None], cycles: Mapping[int, tuple[float, float]], max_slowdown: float
) -> bool:
    """Whether the estimated slowdown of the sharing nests is at most `max_slowdown`."""
    hoisted_cycles = [nest_cycles for position, nest_cycles in cycles.items() if loop_symbols[position]]
    return sum(hoisted for _, hoisted in hoisted_cycles) <= max_slowdown * sum(
        unhoisted for unhoisted, _ in hoisted_cycles
    )


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
