"""Copies of statements in which symbols, arrays, values and origins are replaced by others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ocannl.ir.affine import Affine, Bound, Cond, Sym
from ocannl.ir.assign import Origin
from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Body,
    Buf,
    Cast,
    Comment,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    Poll,
    Prefetch,
    ReadClock,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
)


class Renaming:
    """Renames one statement. Symbols and local arrays that are not among `syms` and `bufs` are bound in it: they, and
    the values of `let`, are named by `new_name`."""

    def __init__(
        self,
        syms: Mapping[Sym, Sym],
        bufs: Mapping[Buf, Buf],
        origins: Mapping[Origin, Origin],
        new_name: Callable[[str], str],
    ) -> None:
        self._syms, self._bufs, self._origins, self._new_name = dict(syms), dict(bufs), origins, new_name

    def body(self, body: Body) -> Body:
        return tuple([self.stmt(stmt) for stmt in body])

    def stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For(sym, lo, hi, body, step, origin, chunk, mode):
                new = self._bound_sym(sym)
                low, high, source = self._bound(lo), self._bound(hi), self._origin(origin)
                return For(new, low, high, self.body(body), step, source, chunk, mode)
            case Store(ref, value, origin, nontemporal):
                return Store(self._ref(ref), self._expr(value), self._origin(origin), nontemporal)
            case Update(ref, op, value, origin):
                return Update(self._ref(ref), op, self._expr(value), self._origin(origin))
            case If(cond, on_true, on_false):
                return If(self._cond(cond), self.body(on_true), self.body(on_false))
            case BindIndex(sym, value, body):
                return BindIndex(self._bound_sym(sym), self._expr(value), self.body(body))
            case Let(name, value):
                return Let(self._new_name(name), self._expr(value))
            case Local(buf, fill):
                self._bufs[buf] = replace(buf, name=self._new_name(buf.name))
                return Local(self._bufs[buf], fill)
            case Prefetch(ref, distance, level):
                return Prefetch(self._ref(ref), distance, level)
            case ReadClock(ref):
                return ReadClock(self._ref(ref))
            case Comment() | Poll():
                return stmt

    def _expr(self, expr: Expr) -> Expr:
        match expr:
            case Load(ref):
                return Load(self._ref(ref))
            case Apply(op, args):
                return Apply(op, tuple([self._expr(arg) for arg in args]))
            case Const():
                return expr
            case Var(name, precision):
                return Var(self._new_name(name), precision)
            case Cast(value, precision):
                return Cast(self._expr(value), precision)
            case IndexValue(index, precision):
                return IndexValue(self._index(index), precision)
            case When(cond, on_true, on_false):
                return When(self._cond(cond), self._expr(on_true), self._expr(on_false))

    def _ref(self, ref: Ref) -> Ref:
        return Ref(self._bufs[ref.buf], tuple([self._index(index) for index in ref.indices]))

    def _index(self, index: Affine) -> Affine:
        match index.terms:
            case ():
                return index
            case ((coef, sym),):
                return Affine(((coef, self._syms[sym]),), index.const)
            case terms:
                return Affine.sum([(coef, self._syms[sym]) for coef, sym in terms], index.const)

    def _cond(self, cond: Cond) -> Cond:
        ge0, eq0 = (tuple([self._index(index) for index in facts]) for facts in (cond.ge0, cond.eq0))
        return Cond(ge0, eq0)

    def _bound(self, bound: Bound) -> Bound:
        return bound if bound.constant is not None else Bound(
            tuple([(self._index(index), divisor) for index, divisor in bound.quotients])
        )  # fmt: skip

    def _bound_sym(self, sym: Sym) -> Sym:
        if sym not in self._syms:
            self._syms[sym] = Sym(self._new_name(sym.name), sym.lo, sym.hi, sym.kind)
        return self._syms[sym]

    def _origin(self, origin: Origin) -> Origin:
        return self._origins.get(origin, origin)
