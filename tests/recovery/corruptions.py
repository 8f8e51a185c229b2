"""Corruptions of loop programs, each of which breaks a rule of the verifier, and exceptions that passes may raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ocannl.ir.accesses import has_no_loop_carried_dependence, memory_accesses
from ocannl.ir.affine import Affine, Bound, Sym
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Body,
    Buf,
    Cast,
    Const,
    Expr,
    For,
    If,
    Let,
    Load,
    Local,
    MemorySpace,
    Mode,
    Poll,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
)
from ocannl.ir.ops import BY_NAME, SUB
from ocannl.ir.precision import float32, float64
from ocannl.ir.tnode import Placement
from ocannl.opt.analysis.substitution import replace_buffers

Rule = Callable[[Stmt], Stmt | Body | None]
"""Returns the replacement of a statement; None if the rule does not apply."""


class NotApplicable(BaseException):
    """A program holds nothing that could be corrupted in this way."""


def change_first(proc: Proc, rule: Rule) -> Proc:
    """Replaces the first statement that the rule applies to, outermost first."""
    done = False

    def body(stmts: Body) -> Body:
        result: list[Stmt] = []
        for stmt in stmts:
            new = None if done else visit(stmt)
            result += (stmt,) if new is None else new if isinstance(new, tuple) else (new,)
        return tuple(result)

    def visit(stmt: Stmt) -> Stmt | Body:
        nonlocal done
        new = rule(stmt)
        if new is not None:
            done = True
            return new
        match stmt:
            case For(body=inner) | BindIndex(body=inner):
                return replace(stmt, body=body(inner))
            case If(cond, then, orelse):
                return If(cond, body(then), body(orelse))
            case _:
                return stmt

    result = replace(proc, body=body(proc.body))
    if not done:
        raise NotApplicable
    return result


def on_store(change: Callable[[Store], Stmt | Body | None]) -> Callable[[Proc], Proc]:
    return lambda proc: change_first(proc, lambda stmt: change(stmt) if isinstance(stmt, Store) else None)


def on_update(change: Callable[[Update], Stmt | Body | None]) -> Callable[[Proc], Proc]:
    return lambda proc: change_first(proc, lambda stmt: change(stmt) if isinstance(stmt, Update) else None)


def on_loop(change: Callable[[For], Stmt | Body | None]) -> Callable[[Proc], Proc]:
    return lambda proc: change_first(proc, lambda stmt: change(stmt) if isinstance(stmt, For) else None)


def with_indices(stmt: Store, indices: tuple[Affine, ...]) -> Store:
    return replace(stmt, ref=Ref(stmt.ref.buf, indices))


def shifted(by: int) -> Callable[[Store], Store | None]:
    def change(stmt: Store) -> Store | None:
        at = stmt.ref.indices
        return with_indices(stmt, (at[0] + by, *at[1:])) if at else None

    return change


def swapped(stmt: Store) -> Store | None:
    at, shape = stmt.ref.indices, stmt.ref.buf.shape
    if len(at) != 2 or shape[0] == shape[1] or at[0].is_const or at[1].is_const:
        return None
    return with_indices(stmt, (at[1], at[0]))


def unbound(stmt: Store) -> Store | None:
    at = stmt.ref.indices
    return with_indices(stmt, (Affine.of(Sym("stranger", 0, 0)), *at[1:])) if at else None


def with_first_load(expr: Expr, change: Callable[[Ref], Ref]) -> Expr | None:
    match expr:
        case Load(ref):
            return Load(change(ref))
        case Apply(op, args):
            for position, arg in enumerate(args):
                new = with_first_load(arg, change)
                if new is not None:
                    return Apply(op, (*args[:position], new, *args[position + 1 :]))
            return None
        case _:
            return None


def read_beyond(stmt: Store) -> Store | None:
    value = with_first_load(stmt.value, lambda ref: Ref(ref.buf, tuple(a + 1000 for a in ref.indices)))
    return None if value is None or value == stmt.value else replace(stmt, value=value)


def read_undeclared(stmt: Store) -> Store | None:
    value = with_first_load(stmt.value, lambda ref: Ref(replace(ref.buf, name="undeclared"), ref.indices))
    return None if value is None else replace(stmt, value=value)


def without_operand(stmt: Store) -> Store | None:
    match stmt.value:
        case Apply(op, args) if len(args) > 1:
            return replace(stmt, value=Apply(op, args[:-1]))
        case _:
            return None


def mixed_types(stmt: Store) -> Store | None:
    return replace(stmt, value=Apply(BY_NAME["add"], (stmt.value, Const(1.0, float64))))


def drop_stores(proc: Proc) -> Proc:
    """Loses every statement that mentions an output."""
    out = next((buf for buf in proc.bufs if buf.access in (AccessMode.OUT, AccessMode.INOUT)), None)
    if out is None:
        raise NotApplicable
    written = [any(a.writes and a.ref.buf is out for a in memory_accesses((stmt,))) for stmt in proc.body]
    return replace(proc, body=tuple(stmt for stmt, writes in zip(proc.body, written, strict=True) if not writes))


def drop_producer(proc: Proc) -> Proc:
    """Loses the statements that write a temporary."""
    for buf in proc.bufs:
        if buf.access is AccessMode.TEMP:
            writes = [any(a.writes and a.ref.buf is buf for a in memory_accesses((stmt,))) for stmt in proc.body]
            reads = [any(not a.writes and a.ref.buf is buf for a in memory_accesses((stmt,))) for stmt in proc.body]
            if any(read and not write for read, write in zip(reads, writes, strict=True)):
                kept = tuple(stmt for stmt, write in zip(proc.body, writes, strict=True) if not write)
                return replace(proc, body=kept)
    raise NotApplicable


def read_first(proc: Proc) -> Proc:
    """Reads an array before anything has written it."""
    buf = Buf("early", float32, (1,), (1,), MemorySpace.ARENA, AccessMode.TEMP, None, 0 if proc.arena else None)
    cell = Ref(buf, (Affine(),))
    doubled = Store(cell, Apply(BY_NAME["add"], (Load(cell), Load(cell))))
    return replace(proc, bufs=(*proc.bufs, buf), body=(doubled, *proc.body))


def write_input(proc: Proc) -> Proc:
    for buf in proc.bufs:
        if buf.access in (AccessMode.IN, AccessMode.CONST) and all(buf.shape):
            store = Store(Ref(buf, tuple(Affine() for _ in buf.shape)), Const(1.0, buf.precision))
            return replace(proc, body=(*proc.body, store))
    raise NotApplicable


def bind_twice(proc: Proc) -> Proc:
    return change_first(proc, lambda stmt: (stmt, stmt) if isinstance(stmt, For) else None)


def drop_buffer(proc: Proc) -> Proc:
    return replace(proc, bufs=proc.bufs[1:])


def longer_loop(loop: For) -> For | None:
    return replace(loop, hi=Bound.upper(loop.sym.hi + 4)) if loop.hi.constant == loop.sym.hi else None


def negative_step(loop: For) -> For:
    return replace(loop, step=0)


def claimed_reduction(loop: For) -> For | None:
    """Shares a loop among threads although its iterations depend on each other."""
    accesses = memory_accesses(loop.body)
    if loop.mode is not Mode.SERIAL or has_no_loop_carried_dependence(accesses, loop.sym, (), sums=False):
        return None
    return replace(loop, parallel_chunk=1)


def nested_claim(loop: For) -> For | None:
    inner = next((stmt for stmt in loop.body if isinstance(stmt, For)), None)
    if inner is None:
        return None
    return replace(loop, body=tuple(replace(s, parallel_chunk=1) if s is inner else s for s in loop.body))


def vectorized_statement(loop: For) -> For | None:
    if loop.mode is Mode.VECTORIZED:
        return None
    return replace(loop, mode=Mode.VECTORIZED, body=(Poll(), *loop.body))


def streamed(stmt: Store) -> Store | None:
    return None if stmt.nontemporal else replace(stmt, nontemporal=True)


def flip_placement(proc: Proc) -> Proc:
    nodes = {buf.node for buf in proc.bufs}
    facts = [fact for fact in proc.facts if fact.node in nodes]
    if not facts:
        raise NotApplicable
    opposite = {Placement.TEMPORARY: Placement.KEPT, Placement.KEPT: Placement.TEMPORARY}
    return replace(proc, facts=tuple(replace(fact, placement=opposite[fact.placement]) for fact in facts))


def on_arena(change: Callable[[Buf, Proc], Buf]) -> Callable[[Proc], Proc]:
    """Changes the last temporary, everywhere."""

    def corrupt(proc: Proc) -> Proc:
        buf = next((buf for buf in reversed(proc.bufs) if buf.space is MemorySpace.ARENA), None)
        if buf is None:
            raise NotApplicable
        return replace_buffers(proc, {buf: change(buf, proc)})

    return corrupt


def fewer_strides(proc: Proc) -> Proc:
    buf = next((buf for buf in proc.bufs if buf.shape), None)
    if buf is None:
        raise NotApplicable
    return replace_buffers(proc, {buf: replace(buf, strides=buf.strides[1:])})


def raising(error: type[Exception]) -> Callable[[Proc], Proc]:
    def fail(proc: Proc) -> Proc:
        raise error("seeded")

    return fail


def no_program(proc: Proc) -> Any:
    return None


def lost_attribute(proc: Proc) -> Any:
    return proc.body[0].nothing  # type: ignore[union-attr]


IN_ARENA = Buf("local", float32, (2,), (1,), MemorySpace.ARENA, AccessMode.TEMP)
CORRUPTIONS: dict[str, Callable[[Proc], Proc]] = {
    "stores of an output are lost": drop_stores,
    "the producer of a temporary is lost": drop_producer,
    "a temporary is read first": read_first,
    "an index is too large": on_store(shifted(1000)),
    "an index is negative": on_store(shifted(-1000)),
    "indices are swapped": on_store(swapped),
    "an index is unbound": on_store(unbound),
    "a read is out of bounds": on_store(read_beyond),
    "an undeclared array is read": on_store(read_undeclared),
    "an array is not declared": drop_buffer,
    "an input is written": write_input,
    "a loop is bound twice": bind_twice,
    "a loop is too long": on_loop(longer_loop),
    "a loop has no step": on_loop(negative_step),
    "a value has a wrong type": on_store(lambda stmt: replace(stmt, value=Cast(stmt.value, float64))),
    "operands have mixed types": on_store(mixed_types),
    "an operand is lost": on_store(without_operand),
    "a name is not defined": on_store(lambda stmt: replace(stmt, value=Var("nothing", stmt.ref.buf.precision))),
    "a name is defined twice": on_store(lambda s: (Let("twice", s.value), Let("twice", s.value), s)),
    "a name is no identifier": on_store(lambda s: (Let("a b", s.value), s)),
    "an update is no reduction": on_update(lambda stmt: replace(stmt, op=SUB)),
    "a local array is in the arena": on_store(lambda stmt: (Local(IN_ARENA), stmt)),
    "dependent iterations are parallel": on_loop(claimed_reduction),
    "an inner loop is parallel": on_loop(nested_claim),
    "a vectorized loop holds a poll": on_loop(vectorized_statement),
    "a scalar store bypasses the caches": on_store(streamed),
    "a placement is wrong": flip_placement,
    "strides are lost": fewer_strides,
    "an array leaves the arena": on_arena(lambda buf, proc: replace(buf, offset=proc.arena)),
    "an array is misaligned": on_arena(lambda buf, proc: replace(buf, offset=(buf.offset or 0) + 4)),
    "arrays overlap": on_arena(lambda buf, proc: replace(buf, offset=0)),
    "an array has no offset": on_arena(lambda buf, proc: replace(buf, offset=None)),
    "it raises KeyError": raising(KeyError),
    "it raises IndexError": raising(IndexError),
    "it raises AssertionError": raising(AssertionError),
    "it raises RecursionError": raising(RecursionError),
    "it raises TypeError": raising(TypeError),
    "it raises ZeroDivisionError": raising(ZeroDivisionError),
    "it returns nothing": no_program,
    "it reads a missing attribute": lost_attribute,
}
