"""Substitution of symbols and buffers in expressions and statements. Unchanged subtrees are returned as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Body,
    Buf,
    Cast,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Prefetch,
    Proc,
    ReadClock,
    Ref,
    Stmt,
    Store,
    Update,
    When,
)
from ocannl.opt.analysis.nests import same_objects


def map_expr(expr: Expr, leaf: Callable[[Expr], Expr], values: Mapping[Sym, Affine] | None = None) -> Expr:
    """Applies `leaf` to every load, index and variable; substitutes `values` in conditions."""
    match expr:
        case Apply(op, args):
            new = tuple([map_expr(a, leaf, values) for a in args])
            return expr if same_objects(new, args) else Apply(op, new)
        case Cast(value, precision):
            inner = map_expr(value, leaf, values)
            return expr if inner is value else Cast(inner, precision)
        case When(cond, on_true, on_false):
            a, b = map_expr(on_true, leaf, values), map_expr(on_false, leaf, values)
            facts = cond.substitute(values) if values else cond
            return expr if a is on_true and b is on_false and facts == cond else When(facts, a, b)
        case Const():
            return expr
        case _:
            return leaf(expr)


def substitute(expr: Expr, values: Mapping[Sym, Affine]) -> Expr:
    """Substitutes `values` for symbols in the expression."""

    def leaf(node: Expr) -> Expr:
        match node:
            case Load(ref):
                cell = ref.substitute(values)
                return node if cell is ref else Load(cell)
            case IndexValue(index, precision):
                new = index.substitute(values)
                return node if new is index else IndexValue(new, precision)
            case _:
                return node

    return map_expr(expr, leaf, values) if values else expr


def replace_buffers(proc: Proc, new: Mapping[Buf, Buf]) -> Proc:
    """Replaces buffers throughout the program, including its list of buffers."""
    if not new:
        return proc
    bufs = tuple([new.get(b, b) for b in proc.bufs])
    return replace(proc, bufs=bufs, body=with_buffers(proc.body, new))


def with_buffers(body: Body, new: Mapping[Buf, Buf]) -> Body:
    """Replaces buffers throughout the statements."""
    if not new:
        return body

    def ref(old: Ref) -> Ref:
        return Ref(new[old.buf], old.indices) if old.buf in new else old

    def leaf(node: Expr) -> Expr:
        return Load(ref(node.ref)) if isinstance(node, Load) and node.ref.buf in new else node

    return map_statements(body, ref, leaf)


def substitute_statements(body: Body, values: Mapping[Sym, Affine]) -> Body:
    """Substitutes `values` for symbols in the statements."""
    return map_statements(body, lambda ref: ref.substitute(values), lambda node: substitute(node, values), values)


def map_statements(
    body: Body, ref: Callable[[Ref], Ref], leaf: Callable[[Expr], Expr], values: Mapping[Sym, Affine] | None = None
) -> Body:
    """Applies `ref` to every written cell and `leaf` to every load, index and variable; substitutes `values` in bounds
    and conditions."""
    return _StatementMap(ref, leaf, values or {}).body(body)


@dataclass(frozen=True, slots=True)
class _StatementMap:
    """The arguments of `map_statements`. A class: nested functions that call each other would be a reference cycle."""

    ref: Callable[[Ref], Ref]
    leaf: Callable[[Expr], Expr]
    values: Mapping[Sym, Affine]

    def body(self, body: Body) -> Body:
        out = tuple([self.stmt(stmt) for stmt in body])
        return body if same_objects(out, body) else out

    def stmt(self, stmt: Stmt) -> Stmt:
        values = self.values
        match stmt:
            case For(sym, lo, hi, body, step, origin, chunk, mode):
                inner = self.body(body)
                low, high = (lo.substitute(values), hi.substitute(values)) if values else (lo, hi)
                if inner is body and low is lo and high is hi:
                    return stmt
                return For(sym, low, high, inner, step, origin, chunk, mode)
            case If(cond, on_true, on_false):
                a, b = self.body(on_true), self.body(on_false)
                return stmt if a is on_true and b is on_false and not values else If(cond.substitute(values), a, b)
            case BindIndex(sym, value, body):
                result, inner = self.value(value), self.body(body)
                return stmt if result is value and inner is body else BindIndex(sym, result, inner)
            case Store(at, value, origin, nontemporal):
                target, result = self.ref(at), self.value(value)
                return stmt if target is at and result is value else Store(target, result, origin, nontemporal)
            case Update(at, op, value, origin):
                target, result = self.ref(at), self.value(value)
                return stmt if target is at and result is value else Update(target, op, result, origin)
            case Let(name, value):
                result = self.value(value)
                return stmt if result is value else Let(name, result)
            case Prefetch(at, distance, level):
                return Prefetch(self.ref(at), distance, level)
            case ReadClock(at):
                return ReadClock(self.ref(at))
            case _:
                return stmt

    def value(self, value: Expr) -> Expr:
        return map_expr(value, self.leaf, self.values)
