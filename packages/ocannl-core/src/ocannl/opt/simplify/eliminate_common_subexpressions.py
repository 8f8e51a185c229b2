"""Local common-subexpression elimination within one statement, by value numbering (Cocke and Schwartz 1970)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

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
    Load,
    Proc,
    Stmt,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.name_mangling import Namer
from ocannl.opt.analysis.nests import as_statement, bound_names, same_objects


def eliminate_common_subexpressions(proc: Proc) -> Proc:
    """Binds subexpressions that a value evaluates more than once to variables.

        proc step                                      proc step
          x : f32[5]  in                                 x : f32[5]  in
          y : f32[5]  out                                y : f32[5]  out
          for i in 0..5:                         ==>     for i in 0..5:
            y[i] = exp(x[i]) / (1 + exp(x[i]))             let v = exp(x[i])
                                                           y[i] = v / (1 + v)

    A subexpression that occurs only under conditions is not hoisted: its loads may be out of bounds when they fail.
    """
    names = Namer(bound_names(proc))
    body = tuple([as_statement(_block((stmt,), names)) for stmt in proc.body])
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def _block(body: Body, names: Namer) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For(sym, lo, hi, inner, step, origin, chunk, mode):
                new = _block(inner, names)
                out.append(stmt if new is inner else For(sym, lo, hi, new, step, origin, chunk, mode))
            case If(cond, on_true, on_false):
                a, b = _block(on_true, names), _block(on_false, names)
                out.append(stmt if a is on_true and b is on_false else If(cond, a, b))
            case BindIndex(sym, value, inner):
                new = _block(inner, names)
                out.append(stmt if new is inner else BindIndex(sym, value, new))
            case Store(_, Apply() | Cast() | When()) | Update(_, _, Apply() | Cast() | When()):
                lets, value = _ValueNumbering().eliminate(stmt.value, names)
                out += (*lets, stmt if value is stmt.value else replace(stmt, value=value))
            case _:
                out.append(stmt)
    return body if same_objects(out, body) else tuple(out)


class _ValueNumbering:
    """Numbers the distinct subexpressions of one expression in postorder."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.exprs: list[Expr] = []
        self.operands: list[tuple[int, ...]] = []
        self.uses: list[int] = []  # number of distinct subexpressions that use it
        self.unconditional: set[int] = set()

    def eliminate(self, value: Expr, names: Namer) -> tuple[list[Let], Expr]:
        """Returns definitions of the repeated subexpressions, and the expression in terms of them."""
        root = self.visit(value, True)
        repeated = {
            n
            for n, expr in enumerate(self.exprs)
            if self.uses[n] > 1 and n in self.unconditional and isinstance(expr, Load | Apply | Cast | When)
        }
        if not repeated:
            return [], value
        lets: list[Let] = []
        rewritten: dict[int, Expr] = {}
        for n, expr in enumerate(self.exprs):  # operands precede their users
            rewritten[n] = _with_operands(expr, [rewritten[operand] for operand in self.operands[n]])
            if n in repeated:
                let = Let(names("v"), rewritten[n])
                lets.append(let)
                rewritten[n] = Var(let.name, expr.precision)
        return lets, rewritten[root]

    def visit(self, expr: Expr, is_unconditional: bool) -> int:
        """Returns the value number of the expression."""
        key: Hashable
        operands: tuple[int, ...] = ()
        match expr:
            case Load(ref):
                key = ref.buf, ref.indices
            case Apply(op, args):
                operands = tuple([self.visit(a, is_unconditional) for a in args])
                key = op.name, operands
            case Cast(value, precision):
                operands = (self.visit(value, is_unconditional),)
                key = precision.name, "cast", operands
            case When(cond, on_true, on_false):
                operands = (self.visit(on_true, False), self.visit(on_false, False))
                key = cond, operands
            case Const(value, precision):
                key = "num", repr(value), precision.name
            case IndexValue(index, precision):
                key = index, precision.name
            case Var(name, _):
                key = "var", name
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.exprs)
            self.exprs.append(expr)
            self.operands.append(operands)
            self.uses.append(0)
            for operand in operands:
                self.uses[operand] += 1
        if is_unconditional:
            self.unconditional.add(number)
        return number


def _with_operands(expr: Expr, operands: list[Expr]) -> Expr:
    match expr:
        case Apply(op, args):
            return expr if same_objects(operands, args) else Apply(op, tuple(operands))
        case Cast(value, precision):
            return expr if operands[0] is value else Cast(operands[0], precision)
        case When(cond, on_true, on_false):
            return expr if operands[0] is on_true and operands[1] is on_false else When(cond, operands[0], operands[1])
        case _:
            return expr
