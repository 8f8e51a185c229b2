"""Interleaved stores: a short loop of a map, such as that over the components of vectors, is unrolled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.loops import Expr, Let, Load, Ref, Var, When
from ocannl.ir.name_mangling import Namer
from ocannl.ir.walk import Node, children, walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.case_loops import case_loop
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.substitution import map_expr
from ocannl.opt.simplify.simplify import simplify_expr


def unroll_interleaved_stores(group: FusionGroup, names: Namer) -> FusionGroup:
    """Unrolls the short loop along which the cells that a map writes are contiguous, if its values are conditional and
    several iterations read the same cells:

        for i in 0..5:                                                for i in 0..5:
          for j in 0..2:                                                let x_2 = x[i, 1]
            y[i, j] = where(j = 0, x[i, 1], x[i, 0] * x[i, 1])  ==>     y[i, 0] = x_2
                                                                        y[i, 1] = x[i, 0] * x_2

    Lanes are then cells of the next loop, every condition is decided, and a strided vector is loaded once. A case loop,
    see `case_loops`, is unrolled wherever its cells are.
    """
    case = case_loop(group)
    sym = _interleaved_loop(group) if case is None else case
    if sym is None:
        return group
    inner = replace(group, loops=tuple([loop for loop in group.loops if loop.sym is not sym]))
    stmts = [
        replace(stmt, value=simplify_expr(stmt.value, TRUE))
        for n in range(sym.lo, sym.hi + 1)
        for stmt in inner.substituted({sym: Affine((), n)}).epilogue
    ]
    written = {alias_class(ref.buf) for ref in group.writes}  # updates of the group precede loads of these arrays
    counts = Counter(ref for stmt in stmts for ref in dict.fromkeys(_unconditional_loads(stmt.value)))
    refs = [ref for ref, count in counts.items() if count > 1 and alias_class(ref.buf) not in written]
    shared = {ref: Var(names(ref.buf.name), ref.buf.precision) for ref in refs}
    lets = [Let(variable.name, Load(ref)) for ref, variable in shared.items()]

    def leaf(node: Expr) -> Expr:
        return shared.get(node.ref, node) if isinstance(node, Load) else node

    unrolled = [replace(stmt, value=map_expr(stmt.value, leaf)) for stmt in stmts]
    return replace(inner, epilogue=(*lets, *unrolled)) if shared or case is not None else group


def _unconditional_loads(value: Node) -> Iterator[Ref]:
    if isinstance(value, Load):
        yield value.ref
    elif not isinstance(value, When):
        for child in children(value):
            yield from _unconditional_loads(child)


def _interleaved_loop(group: FusionGroup) -> Sym | None:
    """Returns the short loop along which all written cells are adjacent; None if there is none."""
    if group.reductions or not group.cond.is_true or any(isinstance(stmt, Let) for stmt in group.epilogue):
        return None
    sym = next((s for s in group.syms if s.extent > 1 and all(ref.stride(s) == 1 for ref in group.writes)), None)
    if sym is None or sym.extent > machine.MAX_INTERLEAVED_STORES or len(group.syms) < 2:
        return None
    conditions = [node.cond for value in group.values for node in walk(value) if isinstance(node, When)]
    return sym if any(sym in cond.syms for cond in conditions) else None
