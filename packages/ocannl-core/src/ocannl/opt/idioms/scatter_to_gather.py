"""Rewrites an overlapping scatter as a gather over output cells."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.loops import IndexValue, Proc, Ref, Stmt, Update, is_full, loop
from ocannl.ir.name_mangling import Namer
from ocannl.ir.projections import is_injective, is_surjective
from ocannl.ir.walk import walk
from ocannl.opt.analysis.conditions import simplify_condition
from ocannl.opt.analysis.constant_folding import is_representable
from ocannl.opt.analysis.nests import PerfectNest, bound_names, loads, nest_of, same_objects, wrap_in_loops
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.schedule.plan.scalar_plans import REASSOCIABLE
from ocannl.opt.simplify.simplify import simplify_expr


def scatter_to_gather(proc: Proc) -> Proc:
    """Replaces a loop of a scattering reduction by a loop over the cells, each of which gathers its terms.

        proc step                                  proc step
          g : f32[5]   in                            g : f32[5]   in
          w : f32[3]   in                            w : f32[3]   in
          x : f32[11]  inout                         x : f32[11]  inout
          for o in 0..5:                  ==>        for x_2 in 0..11:
            for k in 0..3:                             for o in 0..5:
              x[k+2*o] += g[o] * w[k]                    if -2*o+x_2 >= 0 && 2*o-x_2+2 >= 0:
                                                           x[x_2] += g[o] * w[-2*o+x_2]

    Gradients of convolution inputs and of pooling with overlapping windows are scatters. The eliminated symbol is that
    with the largest extent among those with coefficient 1 or -1. An axis whose cells have a single value of the symbols
    each, such as that of the channels in groups, keeps their loops: the terms of a cell need no guard then.
    """
    names = Namer(bound_names(proc))
    body = tuple([_invert_scatter(stmt, names) for stmt in proc.body])
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def _invert_scatter(stmt: Stmt, names: Namer) -> Stmt:
    nest = nest_of(stmt)
    if nest is None or not isinstance(nest.leaf, Update) or nest.leaf.op not in REASSOCIABLE:
        return stmt
    leaf = nest.leaf
    if not all(map(is_full, nest.loops)) or any(ref.buf is leaf.ref.buf for ref in loads(leaf.value)):
        return stmt
    syms = {loop.sym for loop in nest.loops}
    named = [sym for index in leaf.ref.indices for sym in index.syms if sym in syms]
    if any(sym.extent == 0 for sym in syms) or is_injective(leaf.ref.indices, tuple(dict.fromkeys(named))):
        return stmt
    for axis, index in enumerate(leaf.ref.indices):
        if len(index.terms) > 1 and all(sym in syms for sym in index.syms) and not _is_bijective(nest, axis):
            if any(named.count(sym) > 1 for sym in index.syms):
                return stmt
            inverted = _invert_axis(nest, axis, names)
            if inverted is None:
                return stmt
            nest = inverted
    (result,) = wrap_in_loops(nest.loops, nest.cond, (nest.leaf,))
    return result


def _is_bijective(nest: PerfectNest, axis: int) -> bool:
    """Whether the loops of an index visit each place along the axis once."""
    ref = nest.leaf.ref
    index, size = ref.indices[axis], ref.buf.shape[axis]
    return is_injective([index], index.syms) and is_surjective([index], index.syms, [size])


def _invert_axis(nest: PerfectNest, axis: int, names: Namer) -> PerfectNest | None:
    """The nest with a loop over the cells along one axis, or None if no symbol can be eliminated."""
    leaf = nest.leaf
    index_expr = leaf.ref.indices[axis]
    single = [(sym.extent, coef, sym) for coef, sym in index_expr.terms if abs(coef) == 1]
    if not single:
        return None
    _, sign, eliminated = max(single, key=lambda candidate: candidate[0])
    cell = Sym(names(leaf.ref.buf.name), 0, leaf.ref.buf.shape[axis] - 1)
    remaining_terms = [(coef, sym) for coef, sym in index_expr.terms if sym is not eliminated]
    value = (Affine.of(cell) - Affine.sum(remaining_terms, index_expr.const)) * sign  # of the eliminated symbol
    values = {eliminated: value}
    cond = simplify_condition(
        Cond((value - eliminated.lo, Affine.of(eliminated.hi) - value)) & nest.cond.substitute(values)
    )
    if cond is None:
        return None
    term = substitute(leaf.value, values)
    if not all(is_representable(e.index, e.precision) for e in walk(term) if isinstance(e, IndexValue)):
        return None  # outside of the guard, an index of a narrow type would overflow
    loops = (loop(cell, (), leaf.origin), *(nest_loop for nest_loop in nest.loops if nest_loop.sym is not eliminated))
    at = tuple([Affine.of(cell) if n == axis else index for n, index in enumerate(leaf.ref.indices)])
    return PerfectNest(loops, cond, replace(leaf, ref=Ref(leaf.ref.buf, at), value=simplify_expr(term, cond)))
