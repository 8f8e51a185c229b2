"""Computes equal parts of one value once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from ocannl.ir.loops import (
    Apply,
    Body,
    Cast,
    Expr,
    For,
    Idx,
    If,
    Let,
    Load,
    Num,
    Pick,
    Proc,
    Stmt,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.names import Namer
from ocannl.opt.nest import block, names_of, same


def number(proc: Proc) -> Proc:
    """Names the parts that a value mentions more than once, if it surely computes them.

        proc step                                      proc step
          x : f32[5]  in                                 x : f32[5]  in
          y : f32[5]  out                                y : f32[5]  out
          for i in 0..5:                         ==>     for i in 0..5:
            y[i] = exp(x[i]) / (1 + exp(x[i]))             let v = exp(x[i])
                                                           y[i] = v / (1 + v)

    A part that stands only behind a condition stays there: its cells may not exist when the condition fails.
    """
    names = Namer(names_of(proc))
    body = tuple([block(_block((stmt,), names)) for stmt in proc.body])
    return proc if same(body, proc.body) else replace(proc, body=body)


def _block(body: Body, names: Namer) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For(sym, lo, hi, inner, step, origin, claimed, mode):
                new = _block(inner, names)
                out.append(stmt if new is inner else For(sym, lo, hi, new, step, origin, claimed, mode))
            case If(cond, then, orelse):
                a, b = _block(then, names), _block(orelse, names)
                out.append(stmt if a is then and b is orelse else If(cond, a, b))
            case Pick(sym, value, inner):
                new = _block(inner, names)
                out.append(stmt if new is inner else Pick(sym, value, new))
            case Store(_, Apply() | Cast() | When()) | Update(_, _, Apply() | Cast() | When()):
                lets, value = _Values().share(stmt.value, names)
                out += (*lets, stmt if value is stmt.value else replace(stmt, value=value))
            case _:
                out.append(stmt)
    return body if same(out, body) else tuple(out)


class _Values:
    """The distinct values in one expression, numbered from the leaves up."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.exprs: list[Expr] = []
        self.parts: list[tuple[int, ...]] = []
        self.uses: list[int] = []  # by distinct values
        self.certain: set[int] = set()  # computed whatever the conditions say

    def share(self, value: Expr, names: Namer) -> tuple[list[Let], Expr]:
        root = self.visit(value, True)
        named = {
            n
            for n, expr in enumerate(self.exprs)
            if self.uses[n] > 1 and n in self.certain and isinstance(expr, Load | Apply | Cast | When)
        }
        if not named:
            return [], value
        lets: list[Let] = []
        done: dict[int, Expr] = {}
        for n, expr in enumerate(self.exprs):  # parts come before what they are parts of
            done[n] = _with_parts(expr, [done[p] for p in self.parts[n]])
            if n in named:
                let = Let(names("v"), done[n])
                lets.append(let)
                done[n] = Var(let.name, expr.precision)
        return lets, done[root]

    def visit(self, expr: Expr, certain: bool) -> int:
        key: Hashable
        parts: tuple[int, ...] = ()
        match expr:
            case Load(ref):
                key = ref.buf, ref.at
            case Apply(op, args):
                parts = tuple([self.visit(a, certain) for a in args])
                key = op.name, parts
            case Cast(value, precision):
                parts = (self.visit(value, certain),)
                key = precision.name, "cast", parts
            case When(cond, then, orelse):
                parts = (self.visit(then, False), self.visit(orelse, False))
                key = cond, parts
            case Num(value, precision):
                key = "num", repr(value), precision.name
            case Idx(index, precision):
                key = index, precision.name
            case Var(name, _):
                key = "var", name
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.exprs)
            self.exprs.append(expr)
            self.parts.append(parts)
            self.uses.append(0)
            for part in parts:
                self.uses[part] += 1
        if certain:
            self.certain.add(number)
        return number


def _with_parts(expr: Expr, parts: list[Expr]) -> Expr:
    match expr:
        case Apply(op, args):
            return expr if same(parts, args) else Apply(op, tuple(parts))
        case Cast(value, precision):
            return expr if parts[0] is value else Cast(parts[0], precision)
        case When(cond, then, orelse):
            return expr if parts[0] is then and parts[1] is orelse else When(cond, parts[0], parts[1])
        case _:
            return expr
