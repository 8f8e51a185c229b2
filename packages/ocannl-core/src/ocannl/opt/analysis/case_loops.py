"""Case loops: short loops of which each iteration stores a formula of its own, such as the outputs of a butterfly."""

from __future__ import annotations

from ocannl.ir.affine import Sym
from ocannl.ir.loops import Apply, Expr, Let, Ref, When
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup


def case_loop(group: FusionGroup) -> Sym | None:
    """Returns the loop of a map whose symbol is compared with each of its values but one, and with nothing else. Its
    iterations write an axis of their own, or adjacent cells, so that the iterations of other loops stay independent."""
    if group.reductions or not group.cond.is_true or len(group.syms) < 2:
        return None
    if any(isinstance(stmt, Let) for stmt in group.epilogue) or not all(map(_is_cheap, group.values)):
        return None
    conditions = {node.cond for value in group.values for node in walk(value) if isinstance(node, When)}
    syms = {sym for cond in conditions for sym in cond.syms}
    if len(syms) != 1 or any(cond.ge0 for cond in conditions):
        return None
    (sym,) = syms
    is_short = sym.extent <= machine.MAX_CASES and len(conditions) == sym.extent - 1
    is_loop = any(sym is loop for loop in group.syms)
    return sym if is_short and is_loop and all(_is_last_digit(sym, ref) for ref in group.writes) else None


def _is_cheap(value: Expr) -> bool:
    """Whether the formulas consist of additions and the like, of which one loop can contain many."""
    return all(machine.OP_COSTS.get(node.op.name, 1) <= 1 for node in walk(value) if isinstance(node, Apply))


def _is_last_digit(sym: Sym, ref: Ref) -> bool:
    """Whether other loops step over all cells that the loop writes along an axis."""
    return all(
        coef % (abs(index.coef(sym)) * sym.extent) == 0
        for index in ref.indices
        if index.coef(sym)
        for coef, loop in index.terms
        if loop is not sym
    )
