"""Distinguishes varying from uniform expressions in vectorized loops."""

from __future__ import annotations

from collections.abc import Container

from ocannl.ir.affine import Sym
from ocannl.ir.loops import Expr, IndexValue, Load, Var, When
from ocannl.ir.walk import children


class Varying:
    """Predicate: whether the value of an expression may differ between lanes, the iterations of the loop over `sym`.

    `names` holds the varying variables; it may grow while the predicate is in use.
    """

    __slots__ = ("_results", "names", "sym")

    def __init__(self, sym: Sym, names: Container[str]) -> None:
        self.sym, self.names = sym, names
        self._results: dict[int, tuple[Expr, bool]] = {}  # by identity; keeps the expressions alive

    def __call__(self, expr: Expr) -> bool:
        if id(expr) not in self._results:
            self._results[id(expr)] = expr, self._compute(expr)
        return self._results[id(expr)][1]

    def _compute(self, expr: Expr) -> bool:
        match expr:
            case Load(ref):
                return ref.stride(self.sym) != 0
            case IndexValue(index, _):
                return self.sym in index.syms
            case Var(name, _):
                return name in self.names
            case When(cond) if self.sym in cond.syms:
                return True
            case _:
                return any(self(operand) for operand in children(expr))  # type: ignore[arg-type]
