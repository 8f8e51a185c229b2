"""Puts a loop outside in which nests have nothing to do with each other, such as that over examples of a batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.index import Sym
from ocannl.ir.loops import Buf, For, MemorySpace, Mode, Proc, Stmt
from ocannl.ir.names import Namer
from ocannl.ir.accesses import Access, touches
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.disjoint_sets import DisjointSets
from ocannl.opt.analysis.fusion_group import group_of
from ocannl.opt.analysis.loop_distribution import AccessSummary, partition_for_shared_loop, strides_without_axis
from ocannl.opt.analysis.nests import is_full, bound_names
from ocannl.opt.analysis.substitution import replace_buffers
from ocannl.opt.schedule.plan.cost_model import Strides, best_tile
from ocannl.opt.schedule.plan.register_tiles import tiling_problem


def hoist_parallel_loop(
    proc: Proc,
    capabilities: Capabilities,
    turns: int | None = None,
    far_bytes: int | None = None,
    loss: float | None = None,
) -> Proc:
    """Puts that loop outside, claimed, which most nests can share. Here 4096 bytes are near already:

        proc step                                   proc step
          x : f32[16,64]  in                          x : f32[16,64]  in
          h : f32[16,64]  arena                       h : f32[16,64]  arena
          y : f32[16,64]  out                         y : f32[16,64]  out
          for b in 0..16:                             for b in 0..16 claimed by 1:
            for i in 0..64:                             for i in 0..64:
              h[b, i] = exp(x[b, i])            ==>       h[b, i] = exp(x[b, i])
          for b_2 in 0..16:                           for b_2 in 0..16 claimed by 1:
            for j in 0..64:                             for j in 0..64:
              y[b_2, j] = h[b_2, -j+63] * 2               y[b_2, j] = h[b_2, -j+63] * 2

    That pays where all of them go through more memory than is near, and one iteration of each through less, if tiles
    lose next to nothing without the loop; what loses more stays as it is where it may stand before the loop or after
    it. Passes that follow leave the loop outside; in the end `fuse_parallel_loops` merges what it can. What a turn hands on lies side
    by side, whatever the order of axes was.
    """
    if not capabilities.vector_bytes:
        return proc
    turns = machine.MIN_HOISTED_TRIPS if turns is None else turns
    far_bytes = machine.MIN_HOISTED_BYTES if far_bytes is None else far_bytes
    loss = machine.MAX_HOISTING_SLOWDOWN if loss is None else loss
    nests = [_Nest(stmt, _loops(stmt), touches((stmt,))) for stmt in proc.body]
    touched = [AccessSummary(nest.touched) for nest in nests]
    homes = {each.sym: at for at, nest in enumerate(nests) for each in nest.loops}
    found: list[list[Sym | None]] = []
    for syms in _classes(nests, turns):
        heads = _heads(syms, homes, len(nests))
        inside = _inside(touched, heads)
        if len(inside) > 1:
            found.append([sym if at in inside else None for at, sym in enumerate(heads)])
    names = Namer(bound_names(proc))
    for heads in sorted(found, key=lambda heads: heads.count(None)):
        if not _is_near(touched, heads, far_bytes):
            continue
        cycles = _cycles_of(nests, heads, _small(touched, heads), names, capabilities)
        heads = _without_losers(touched, heads, cycles, loss)
        if _pays(heads, cycles, loss):
            body = [_outside(nest.stmt, sym) if sym else nest.stmt for nest, sym in zip(nests, heads, strict=True)]
            new = {buf: _turn_by_turn(buf, steps) for buf, steps in _small(touched, heads).items()}
            return replace_buffers(replace(proc, body=tuple(body)), new)
    return proc


@dataclass(frozen=True, slots=True)
class _Nest:
    stmt: Stmt
    loops: tuple[For, ...]  # around all else in it
    touched: list[Access]


def _loops(stmt: Stmt) -> tuple[For, ...]:
    loops: list[For] = []
    while isinstance(stmt, For) and is_full(stmt) and stmt.mode is Mode.SERIAL:
        loops.append(stmt)
        if len(stmt.body) != 1:
            break
        (stmt,) = stmt.body
    return tuple(loops)


def _heads(syms: Iterable[Sym], homes: Mapping[Sym, int], nests: int) -> list[Sym | None]:
    """The symbol of each nest, if it has only one of these."""
    heads: list[Sym | None] = [None] * nests
    seen: set[int] = set()
    for sym in syms:
        at = homes[sym]
        heads[at] = None if at in seen else sym
        seen.add(at)
    return heads


def _classes(nests: Sequence[_Nest], turns: int) -> list[set[Sym]]:
    """Symbols of loops that axes of arrays tie together, if all of them have the same range."""
    ties = DisjointSets()
    for nest in nests:
        syms = {each.sym for each in nest.loops}
        for touch in nest.touched:
            for axis, place in enumerate(touch.ref.indices):
                if place.only_sym in syms:
                    ties.union((touch.ref.buf, axis), place.only_sym)
    classes: dict[object, set[Sym]] = {}
    for sym in (each.sym for nest in nests for each in nest.loops):
        if sym.extent >= turns and sym in ties:
            classes.setdefault(ties.find(sym), set()).add(sym)
    return [syms for syms in classes.values() if len({(sym.lo, sym.hi) for sym in syms}) == 1]


def _inside(touched: Sequence[AccessSummary], heads: Sequence[Sym | None]) -> set[int]:
    """Which nests can share the loop."""
    places = [at for at, sym in enumerate(heads) if sym is not None]
    if not places:
        return set()
    some = slice(places[0], places[-1] + 1)  # the others are in nobody's way
    return {places[0] + at for at in partition_for_shared_loop(touched[some], heads[some]).inside}


def _shared(touched: Sequence[AccessSummary], heads: Sequence[Sym | None]) -> AccessSummary:
    """What the nests inside touch."""
    shared = AccessSummary()
    for nest, sym in zip(touched, heads, strict=True):
        if sym:
            shared.add(nest.with_shared_symbol(sym))
    return shared


def _is_near(touched: Sequence[AccessSummary], heads: Sequence[Sym | None], far_bytes: int) -> bool:
    """Whether the nests inside go through more memory than that, and an iteration of each through less than is near."""
    for nest, sym in zip(touched, heads, strict=True):
        axes_of = nest.with_shared_symbol(sym).axes.values() if sym else ()
        if sum(_turn_bytes(buf, axes) for buf, axes in axes_of) > machine.MAX_HOISTED_ITERATION_BYTES:
            return False
    return sum(buf.nbytes for buf, _ in _shared(touched, heads).axes.values()) > far_bytes


def _cycles_of(
    nests: Sequence[_Nest],
    heads: Sequence[Sym | None],
    small: Mapping[Buf, Strides],
    names: Namer,
    capabilities: Capabilities,
) -> dict[int, tuple[float, float]]:
    """What nests take as they are, and with the loop outside."""
    found: dict[int, tuple[float, float]] = {}
    for at, (nest, sym) in enumerate(zip(nests, heads, strict=True)):
        if sym:
            whole = _cycles(nest.stmt, names, capabilities, {})
            turn = _cycles(_outside(nest.stmt, sym).body[0], names, capabilities, small)
            if whole is not None and turn is not None:
                found[at] = whole, turn * sym.extent
    return found


def _small(touched: Sequence[AccessSummary], heads: Sequence[Sym | None]) -> dict[Buf, Strides]:
    """Temporaries that no other nest touches, as they are in a turn: the axis of the loop has the stride zero."""
    others = {key for nest, sym in zip(touched, heads, strict=True) if sym is None for key in nest.axes}
    return {
        buf: strides_without_axis(buf, min(axes)) for key, (buf, axes) in _shared(touched, heads).axes.items()
        if axes and buf.space is MemorySpace.ARENA and key not in others
    }  # fmt: skip


def _turn_by_turn(buf: Buf, small: Strides) -> Buf:
    """The array with what a turn has of it side by side."""
    turn = prod(size for size, step in zip(buf.shape, small, strict=True) if step)
    return replace(buf, strides=tuple([step or turn for step in small]))


def _without_losers(
    touched: Sequence[AccessSummary], heads: list[Sym | None], cycles: Mapping[int, tuple[float, float]], loss: float
) -> list[Sym | None]:
    """Without nests that get slower in the loop than they may, where they can stand before it or after it: copies that
    go through memory in an order of their own, above all."""
    for at, (whole, turns) in cycles.items():
        if turns > loss * whole:
            fewer = [None if place == at else sym for place, sym in enumerate(heads)]
            if len(_inside(touched, fewer)) == sum(sym is not None for sym in fewer) > 1:
                heads = fewer
    return heads


def _pays(heads: Sequence[Sym | None], cycles: Mapping[int, tuple[float, float]], loss: float) -> bool:
    """Whether they lose next to nothing."""
    inside = [each for at, each in cycles.items() if heads[at]]
    return sum(turns for _, turns in inside) <= loss * sum(whole for whole, _ in inside)


def _turn_bytes(buf: Buf, axes: Collection[int]) -> int:
    """Of the array in one turn of the loop that counts along these axes."""
    return buf.nbytes // max(1, prod(buf.shape[axis] for axis in axes))


def _cycles(stmt: Stmt, names: Namer, capabilities: Capabilities, orders: Mapping[Buf, Strides]) -> float | None:
    group = group_of(stmt, names)
    subject = tiling_problem(group, capabilities) if group is not None else None
    tile = best_tile(subject.nest_shape(orders)) if subject is not None else None
    return tile.cycles if tile is not None else None


def _outside(stmt: Stmt, sym: Sym) -> For:
    """The nest with its loop over the symbol around the others."""
    chain: list[For] = []
    assert isinstance(stmt, For)
    while stmt.sym is not sym:
        chain.append(stmt)
        (stmt,) = stmt.body
        assert isinstance(stmt, For)
    body = stmt.body
    for each in reversed(chain):
        body = (replace(each, body=body),)
    return replace(stmt, body=body, parallel_chunk=1)
