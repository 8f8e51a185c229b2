"""Other symbols, other buffers: the two substitutions that passes make. What does not change stays the same object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import (
    Apply,
    Body,
    Buf,
    Cast,
    Expr,
    For,
    Idx,
    If,
    Let,
    Load,
    Num,
    Pick,
    Prefetch,
    Proc,
    Ref,
    Stamp,
    Stmt,
    Store,
    Update,
    When,
)
from ocannl.opt.nest import same


def map_expr(expr: Expr, leaf: Callable[[Expr], Expr], values: Mapping[Sym, Affine] | None = None) -> Expr:
    """`leaf` applied to every load, index and name; `values` go into the conditions."""
    match expr:
        case Apply(op, args):
            new = tuple([map_expr(a, leaf, values) for a in args])
            return expr if same(new, args) else Apply(op, new)
        case Cast(value, precision):
            inner = map_expr(value, leaf, values)
            return expr if inner is value else Cast(inner, precision)
        case When(cond, then, orelse):
            a, b = map_expr(then, leaf, values), map_expr(orelse, leaf, values)
            facts = cond.substitute(values) if values else cond
            return expr if a is then and b is orelse and facts == cond else When(facts, a, b)
        case Num():
            return expr
        case _:
            return leaf(expr)


def substitute(expr: Expr, values: Mapping[Sym, Affine]) -> Expr:
    """The expression with `values` for symbols."""

    def leaf(node: Expr) -> Expr:
        match node:
            case Load(ref):
                at = tuple([a.substitute(values) for a in ref.at])
                return node if same(at, ref.at) else Load(Ref(ref.buf, at))
            case Idx(index, precision):
                new = index.substitute(values)
                return node if new is index else Idx(new, precision)
            case _:
                return node

    return map_expr(expr, leaf, values) if values else expr


def replace_buffers(proc: Proc, new: Mapping[Buf, Buf]) -> Proc:
    """The program with other buffers in the places of old ones."""
    if not new:
        return proc
    bufs = tuple([new.get(b, b) for b in proc.bufs])
    return replace(proc, bufs=bufs, body=with_buffers(proc.body, new))


def with_buffers(body: Body, new: Mapping[Buf, Buf]) -> Body:
    """The same for statements."""

    def ref(old: Ref) -> Ref:
        return Ref(new[old.buf], old.at) if old.buf in new else old

    def leaf(node: Expr) -> Expr:
        return Load(Ref(new[node.ref.buf], node.ref.at)) if isinstance(node, Load) and node.ref.buf in new else node

    return map_statements(body, ref, leaf)


def substitute_statements(body: Body, values: Mapping[Sym, Affine]) -> Body:
    """The statements with `values` for symbols."""

    def ref(old: Ref) -> Ref:
        at = tuple([index.substitute(values) for index in old.at])
        return old if same(at, old.at) else Ref(old.buf, at)

    return map_statements(body, ref, lambda node: substitute(node, values), values)


def map_statements(
    body: Body, ref: Callable[[Ref], Ref], leaf: Callable[[Expr], Expr], values: Mapping[Sym, Affine] | None = None
) -> Body:
    """`ref` applied to every cell that is written, `leaf` to every load, index and name; `values` go into bounds and
    conditions."""
    values = values or {}

    def statement(stmt: Stmt) -> Stmt:
        match stmt:
            case For(sym, lo, hi, body, step, origin, claimed, mode):
                inner = statements(body)
                low, high = (lo.substitute(values), hi.substitute(values)) if values else (lo, hi)
                if inner is body and low is lo and high is hi:
                    return stmt
                return For(sym, low, high, inner, step, origin, claimed, mode)
            case If(cond, then, orelse):
                a, b = statements(then), statements(orelse)
                return stmt if a is then and b is orelse and not values else If(cond.substitute(values), a, b)
            case Pick(sym, value, body):
                result, inner = map_expr(value, leaf, values), statements(body)
                return stmt if result is value and inner is body else Pick(sym, result, inner)
            case Store(at, value, origin, streamed):
                place, result = ref(at), map_expr(value, leaf, values)
                return stmt if place is at and result is value else Store(place, result, origin, streamed)
            case Update(at, op, value, origin):
                place, result = ref(at), map_expr(value, leaf, values)
                return stmt if place is at and result is value else Update(place, op, result, origin)
            case Let(name, value):
                result = map_expr(value, leaf, values)
                return stmt if result is value else Let(name, result)
            case Prefetch(at, ahead):
                return Prefetch(ref(at), ahead)
            case Stamp(at):
                return Stamp(ref(at))
            case _:
                return stmt

    def statements(body: Body) -> Body:
        out = tuple([statement(s) for s in body])
        return body if same(out, body) else out

    return statements(body)
