"""Loop distribution: moves nests that are not part of a recurrence out of sequential loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.assign import NOWHERE
from ocannl.ir.loops import (
    BindIndex,
    Body,
    Buf,
    For,
    Load,
    Mode,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    is_full,
    loop,
    region_body,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.loop_dependence_graph import LoopDependenceGraph, loop_dependence_graph, members
from ocannl.opt.analysis.nests import PerfectNest, accessed_buffers, bound_names, loads, nest_of
from ocannl.opt.analysis.substitution import map_statements, substitute_statements


def distribute_sequential_loops(proc: Proc) -> Proc:
    """Executes contractions that depend on no earlier iteration before or after the loop, for all iterations at once:

        proc step                          proc step
          p : f32       arena                p : f32[3]    arena
          w : f32[9]    in                   w : f32[9]    in
          x : f32[3,9]  in                   x : f32[3,9]  in
          h : f32       inout                h : f32       inout
          sequential for t in 0..3:          for t_2 in 0..3:
            p = 0                              p[t_2] = 0
            for i in 0..9:           ==>     for t_3 in 0..3:
              p += w[i] * x[t, i]              for i in 0..9:
            h = tanh(p + h)                      p[t_3] += w[i] * x[t_3, i]
                                             sequential for t in 0..3:
                                               h = tanh(p[t] + h)

    Temporaries that connect the parts get an axis of iterations (array expansion; Allen and Kennedy 1987; Padua and
    Wolfe 1986). A sum over all iterations, such as the gradient of a weight, becomes one contraction.
    """
    if all(region_body(stmt) is None for stmt in proc.body):
        return proc
    names = Namer(bound_names(proc))
    new: dict[Buf, Buf] = {}
    body = _distributed(proc.body, set(), names, new)
    if not new and body is proc.body:
        return proc
    return replace(proc, body=body, bufs=tuple([new.get(buf, buf) for buf in proc.bufs]))


def _distributed(body: Body, outside: set[Buf], names: Namer, new: dict[Buf, Buf]) -> Body:
    """Distributes the loops of a body; `outside` are the buffers accessed by code around it, `new` the expanded ones.
    """
    access = [{buf for bufs in accessed_buffers(stmt) for buf in bufs} for stmt in body]
    out: list[Stmt] = []
    for number, stmt in enumerate(body):
        if region_body(stmt) is None:
            out.append(stmt)
            continue
        elsewhere = outside.union(*(bufs for n, bufs in enumerate(access) if n != number))
        match stmt:
            case For(body=inner) if all(region_body(child) is None for child in inner) and is_full(stmt):
                out += _distribute(stmt, elsewhere, names, new)
            case For(body=inner) | BindIndex(body=inner):
                out.append(replace(stmt, body=_distributed(inner, elsewhere, names, new)))
            case _:
                out.append(stmt)
    return tuple(out)


def _distribute(step: For, elsewhere: set[Buf], names: Namer, new: dict[Buf, Buf]) -> Sequence[Stmt]:
    nests = [nest_of(stmt) for stmt in step.body]
    dependences = loop_dependence_graph(step, elsewhere)
    before, after = _choose(step, nests, dependences)
    if not before | after:
        return [step]
    moved = {buf for n in members(before | after) for bufs in accessed_buffers(step.body[n]) for buf in bufs}
    expanded = {buf: _expand(buf, step.sym) for buf in sorted(moved & dependences.private, key=lambda b: b.name)}
    new.update(expanded)
    is_descending = any(_is_descending(nest, step.sym) for nest in nests if nest is not None)
    number = Affine.of(step.sym.hi) - step.sym if is_descending else Affine.of(step.sym) - step.sym.lo
    stmts = _with_steps(step.body, expanded, number)
    core = tuple(stmt for n, stmt in enumerate(stmts) if not (before | after) >> n & 1)
    return [
        *(_all_steps(stmts[n], step.sym, names) for n in dependences.in_order(before)),
        *([replace(step, body=core)] if core else []),
        *(_all_steps(stmts[n], step.sym, names) for n in dependences.in_order(after)),
    ]


def _choose(
    step: For, nests: Sequence[PerfectNest | None], dependences: LoopDependenceGraph
) -> tuple[int, int]:
    """Chooses the statements to execute before and after the loop, as bit sets."""
    movable = sum(1 << n for n, nest in enumerate(nests) if nest is not None and _is_movable(nest, step.sym))
    pinned = dependences.cyclic | ((1 << len(nests)) - 1) & ~movable
    before_loop = movable & ~pinned & ~dependences.followers(pinned)
    after_loop = movable & ~pinned & ~dependences.predecessors(pinned) & ~before_loop
    profitable = sum(1 << n for n, nest in enumerate(nests) if nest is not None and _is_profitable(nest, dependences))
    before = before_loop & profitable
    before |= dependences.predecessors(before)
    after = after_loop & profitable
    after |= dependences.followers(after)
    moved = {buf for n in members(before | after) for bufs in accessed_buffers(step.body[n]) for buf in bufs}
    nbytes = step.sym.extent * sum(buf.nbytes for buf in moved & dependences.private)
    return (before, after) if nbytes <= machine.MAX_EXPANDED_BYTES else (0, 0)


def _is_movable(nest: PerfectNest, sym: Sym) -> bool:
    return all(is_full(outer) and outer.mode is Mode.SERIAL for outer in nest.loops) and not any(
        index_sym.kind is SymKind.INDIRECT for ref in (nest.leaf.ref, *loads(nest.leaf.value)) for index_sym in ref.syms
    )


def _is_profitable(nest: PerfectNest, dependences: LoopDependenceGraph) -> bool:
    """Whether the nest does much more work than the temporaries that it accesses have cells."""
    if not isinstance(nest.leaf, Update):
        return False
    bufs = {ref.buf for ref in (nest.leaf.ref, *loads(nest.leaf.value))}
    cells = sum(prod(buf.shape) for buf in bufs & dependences.private)
    return nest.iterations >= machine.MIN_WORK_PER_EXPANDED_CELL * max(1, cells)


def _expand(buf: Buf, sym: Sym) -> Buf:
    """Returns a buffer with an axis of iterations."""
    shape = (sym.extent, *buf.shape)
    return replace(buf, shape=shape, strides=row_major(shape), node=None)


def _with_steps(body: Body, expanded: dict[Buf, Buf], number: Affine) -> Body:
    def ref(old: Ref) -> Ref:
        return Ref(expanded[old.buf], (number, *old.indices)) if old.buf in expanded else old

    return map_statements(body, ref, lambda node: Load(ref(node.ref)) if isinstance(node, Load) else node)


def _all_steps(stmt: Stmt, sym: Sym, names: Namer) -> Stmt:
    """Executes a nest for all iterations: in the outermost loop, or, if they are summed, in the outermost reduction."""
    nest = nest_of(stmt)
    assert nest is not None
    step = Sym(names(sym.name), sym.lo, sym.hi)
    value = Affine.of(sym.lo + sym.hi) - step if _is_descending(nest, sym) else Affine.of(step)
    (renamed,) = substitute_statements((stmt,), {sym: value})
    return _with_loop(renamed, step, set() if sym in nest.leaf.ref.syms else set(nest.leaf.ref.syms))


def _is_descending(nest: PerfectNest, sym: Sym) -> bool:
    return any(index.coef(sym) < 0 for ref in (nest.leaf.ref, *loads(nest.leaf.value)) for index in ref.indices)


def _with_loop(stmt: Stmt, step: Sym, outer: set[Sym]) -> Stmt:
    """Adds a loop inside the loops over `outer`."""
    match stmt:
        case For(sym, body=(inner,)) if sym in outer:
            return replace(stmt, body=(_with_loop(inner, step, outer),))
        case _:
            return loop(step, (stmt,), stmt.origin if isinstance(stmt, For | Store | Update) else NOWHERE)
