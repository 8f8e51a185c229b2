"""What differs between the lanes of a vector."""

from __future__ import annotations

from collections.abc import Container

from ocannl.ir.index import Sym
from ocannl.ir.loops import Expr, Idx, Load, Var, When
from ocannl.ir.walk import children


class Varying:
    """Says of an expression whether lanes, the iterations of the loop over `sym`, may have different values of it.

    `names` are the variables that do; there may be more of them later.
    """

    __slots__ = ("_known", "names", "sym")

    def __init__(self, sym: Sym, names: Container[str]) -> None:
        self.sym, self.names = sym, names
        self._known: dict[int, tuple[Expr, bool]] = {}  # by identity, of what lives as long

    def __call__(self, expr: Expr) -> bool:
        if id(expr) not in self._known:
            self._known[id(expr)] = expr, self._compute(expr)
        return self._known[id(expr)][1]

    def _compute(self, expr: Expr) -> bool:
        match expr:
            case Load(ref):
                return ref.stride(self.sym) != 0
            case Idx(index, _):
                return self.sym in index.syms
            case Var(name, _):
                return name in self.names
            case When(cond) if self.sym in cond.syms:
                return True
            case _:
                return any(self(part) for part in children(expr))  # type: ignore[arg-type]
