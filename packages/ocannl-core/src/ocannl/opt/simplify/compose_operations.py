"""Composition of operations that a backend lacks from those that it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import log

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Body,
    Cast,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Let,
    Proc,
    Stmt,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import uint32
from ocannl.ir.threefry import PARITY, ROUNDS, Inject, steps
from ocannl.opt.analysis.nests import as_statement, bound_names, same_objects


def compose_operations(proc: Proc, capabilities: Capabilities) -> Proc:
    """Replaces operations that the backend lacks. Values that a composition uses repeatedly are bound to variables.

        proc step                                      proc step
          x : f32[5]  in                                 x : f32[5]  in
          y : f32[5]  out                                y : f32[5]  out
          for i in 0..5:                         ==>     for i in 0..5:
            y[i] = abs(x[i])                               let v = x[i]
                                                           y[i] = where(v < 0, -v, v) + 0

    Operations without a composition are left to the backend, which refuses them.
    """
    lacking = COMPOSITIONS.keys() - capabilities.operations
    if not lacking:
        return proc
    names = Namer(bound_names(proc))
    body = tuple([as_statement(_block((stmt,), lacking, names)) for stmt in proc.body])
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def _block(body: Body, lacking: frozenset[str] | set[str], names: Namer) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        scope = _Composer(lacking, names)
        match stmt:
            case For(body=inner):
                new = _block(inner, lacking, names)
                stmt = stmt if new is inner else replace(stmt, body=new)
            case If(cond, on_true, on_false):
                a, b = _block(on_true, lacking, names), _block(on_false, lacking, names)
                stmt = stmt if a is on_true and b is on_false else If(cond, a, b)
            case BindIndex(sym, value, inner):
                composed, new = scope.rewrite(value), _block(inner, lacking, names)
                stmt = stmt if new is inner and composed is value else BindIndex(sym, composed, new)
            case Store(value=value) | Update(value=value) | Let(value=value):
                composed = scope.rewrite(value)
                stmt = stmt if composed is value else replace(stmt, value=composed)
        out += (*scope.lets, stmt)
    return body if same_objects(out, body) else tuple(out)


@dataclass(slots=True)
class _Composer:
    """The values of one statement. `guard` makes a value conditional, since loads may be out of bounds where the
    conditions around them fail."""

    lacking: frozenset[str] | set[str]
    names: Namer
    lets: list[Let] = field(default_factory=list)
    guard: Callable[[Expr], Expr] = lambda value: value

    def rewrite(self, expr: Expr) -> Expr:
        match expr:
            case Apply(op, args):
                new = tuple([self.rewrite(arg) for arg in args])
                if op.name in self.lacking:
                    return self.compose(op.name, new)
                return expr if same_objects(new, args) else Apply(op, new)
            case Cast(value, precision):
                inner = self.rewrite(value)
                return expr if inner is value else Cast(inner, precision)
            case When(cond, on_true, on_false):
                a = self.under(lambda value: When(cond, value, Const(0, value.precision))).rewrite(on_true)
                b = self.under(lambda value: When(cond, Const(0, value.precision), value)).rewrite(on_false)
                return expr if a is on_true and b is on_false else When(cond, a, b)
            case _:
                return expr

    def under(self, condition: Callable[[Expr], Expr]) -> _Composer:
        return replace(self, guard=lambda value: self.guard(condition(value)))

    def compose(self, name: str, operands: tuple[Expr, ...]) -> Expr:
        """The composition, computed in the arithmetic type of the operands and rounded once."""
        precision = operands[-1].precision
        arithmetic = precision.arithmetic
        wide = operands if arithmetic is precision else tuple([Cast(operand, arithmetic) for operand in operands])
        value = COMPOSITIONS[name](self, *wide)
        return value if arithmetic is precision else Cast(value, precision)

    def apply(self, name: str, *operands: Expr | int | float) -> Expr:
        """An operation; numbers have the type of the other operands."""
        precision = next(operand.precision for operand in operands if not isinstance(operand, int | float))
        args = tuple([Const(arg, precision) if isinstance(arg, int | float) else arg for arg in operands])
        return self.compose(name, args) if name in self.lacking else Apply(BY_NAME[name], args)

    def bind(self, value: Expr) -> Expr:
        """Names a value, so that it can be used repeatedly."""
        if isinstance(value, Var | Const | IndexValue):
            return value
        variable = Var(self.names("v"), value.precision)
        self.lets.append(Let(variable.name, self.guard(value)))
        return variable


def _neg(s: _Composer, x: Expr) -> Expr:
    return s.apply("mul", x, -1) if x.precision.is_float else s.apply("sub", 0, x)  # 0 - 0 has no sign


def _abs(s: _Composer, x: Expr) -> Expr:
    x = s.bind(x)
    magnitude = s.apply("where", s.apply("lt", x, 0), s.apply("neg", x), x)
    return s.apply("add", magnitude, 0) if x.precision.is_float else magnitude  # 0 for -0


def _sat01_gate(s: _Composer, x: Expr, y: Expr) -> Expr:
    x = s.bind(x)
    return s.apply("where", s.apply("gt", x, 0), s.apply("where", s.apply("lt", x, 1), y, 0), 0)


def _threefry(rounds: int, s: _Composer, *operands: Expr) -> Expr:
    """One word of the result, see `ocannl.ir.threefry`."""
    key, x = [s.bind(word) for word in operands[:4]], [s.bind(word) for word in operands[4:8]]
    parity: Expr = Const(PARITY, uint32)
    for word in key:
        parity = s.apply("bitwise_xor", parity, word)
    key.append(s.bind(parity))
    for step in steps(rounds):
        if isinstance(step, Inject):
            added = s.apply("add", x[step.lane], key[step.word])
            x[step.lane] = s.bind(s.apply("add", added, step.number) if step.number else added)
            continue
        x[step.left] = s.bind(s.apply("add", x[step.left], x[step.right]))
        high = s.apply("left_shift", x[step.right], step.rotation)
        low = s.apply("right_shift", x[step.right], 32 - step.rotation)
        x[step.right] = s.bind(s.apply("bitwise_xor", s.apply("bitwise_or", high, low), x[step.left]))
    lane = s.bind(s.apply("bitwise_and", operands[8], 3))
    value = x[3]
    for n in (2, 1, 0):
        value = s.apply("where", s.apply("eq", lane, n), x[n], value)
    return value


COMPOSITIONS: Mapping[str, Callable[..., Expr]] = {
    "id": lambda s, x: x,
    "neg": _neg,
    "abs": _abs,
    "relu": lambda s, x: s.apply("max", x, 0),
    "sat01": lambda s, x: s.apply("min", s.apply("max", x, 0), 1),
    "not": lambda s, x: s.apply("eq", x, 0),
    "exp2": lambda s, x: s.apply("pow", 2, x),
    "log2": lambda s, x: s.apply("mul", s.apply("log", x), 1 / log(2)),
    "recip": lambda s, x: s.apply("div", 1, x),
    "recip_sqrt": lambda s, x: s.apply("div", 1, s.apply("sqrt", x)),
    "gt": lambda s, x, y: s.apply("lt", y, x),
    "ge": lambda s, x, y: s.apply("le", y, x),
    "ne": lambda s, x, y: s.apply("not", s.apply("eq", x, y)),
    "relu_gate": lambda s, x, y: s.apply("where", s.apply("gt", x, 0), y, 0),
    "sat01_gate": _sat01_gate,
    "fst": lambda s, x, y: x,
    "snd": lambda s, x, y: y,
    "fma": lambda s, x, y, z: s.apply("add", s.apply("mul", x, y), z),
    **{f"threefry4x32_{rounds}": partial(_threefry, rounds) for rounds in ROUNDS},
}
"""The operations that a backend may lack. All others are required of every backend."""
