"""Turns sums that scatter over cells where windows overlap into sums that each cell gathers."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.index import Affine, Cond, Sym
from ocannl.ir.loops import IndexValue, Proc, Ref, Stmt, Update, loop
from ocannl.ir.names import Namer
from ocannl.ir.projections import is_injective
from ocannl.ir.walk import walk
from ocannl.opt.analysis.conditions import simplify_condition
from ocannl.opt.analysis.nests import Nest, wrap_in_loops, is_full, loads, bound_names, nest_of, same_objects
from ocannl.opt.analysis.representable import is_representable
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.schedule.plan.plain import REASSOCIABLE
from ocannl.opt.simplify.simplify import simplify_expr


def scatter_to_gather(proc: Proc) -> Proc:
    """Has a loop go over the cells, each of which gets what reaches it.

        proc step                                  proc step
          g : f32[5]   in                            g : f32[5]   in
          w : f32[3]   in                            w : f32[3]   in
          x : f32[11]  inout                         x : f32[11]  inout
          for o in 0..5:                  ==>        for x_2 in 0..11:
            for k in 0..3:                             for o in 0..5:
              x[k+2*o] += g[o] * w[k]                    if -2*o+x_2 >= 0 && 2*o-x_2+2 >= 0:
                                                           x[x_2] += g[o] * w[-2*o+x_2]

    The gradient of a convolution's input is such a sum, and that of pools whose windows overlap. The symbol that is
    left out is the one with most values among those that move the cell by one.
    """
    names = Namer(bound_names(proc))
    body = tuple([_inverted(stmt, names) for stmt in proc.body])
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def _inverted(stmt: Stmt, names: Namer) -> Stmt:
    nest = nest_of(stmt)
    if nest is None or not isinstance(nest.leaf, Update) or nest.leaf.op not in REASSOCIABLE:
        return stmt
    leaf = nest.leaf
    if not all(map(is_full, nest.loops)) or any(ref.buf is leaf.ref.buf for ref in loads(leaf.value)):
        return stmt
    syms = {loop.sym for loop in nest.loops}
    named = [s for place in leaf.ref.indices for s in place.syms if s in syms]
    if any(s.extent == 0 for s in syms) or is_injective(leaf.ref.indices, tuple(dict.fromkeys(named))):
        return stmt
    for axis, place in enumerate(leaf.ref.indices):
        if len(place.terms) > 1 and all(s in syms for s in place.syms):
            if any(named.count(s) > 1 for s in place.syms):
                return stmt
            turned = _turned(nest, axis, names)
            if turned is None:
                return stmt
            nest = turned
    (result,) = wrap_in_loops(nest.loops, nest.cond, (nest.leaf,))
    return result


def _turned(nest: Nest, axis: int, names: Namer) -> Nest | None:
    """The nest with a loop over the cells along one axis."""
    leaf = nest.leaf
    place = leaf.ref.indices[axis]
    single = [(s.extent, c, s) for c, s in place.terms if abs(c) == 1]
    if not single:
        return None
    _, sign, gone = max(single, key=lambda each: each[0])
    cell = Sym(names(leaf.ref.buf.name), 0, leaf.ref.buf.shape[axis] - 1)
    others = [(c, s) for c, s in place.terms if s is not gone]
    value = (Affine.of(cell) - Affine.sum(others, place.const)) * sign  # of the symbol that is left out
    values = {gone: value}
    cond = simplify_condition(Cond((value - gone.lo, Affine.of(gone.hi) - value)) & nest.cond.substitute(values))
    if cond is None:
        return None
    term = substitute(leaf.value, values)
    if not all(is_representable(e.index, e.precision) for e in walk(term) if isinstance(e, IndexValue)):
        return None  # outside of the guard, an index of a narrow type would overflow
    loops = (loop(cell, (), leaf.origin), *(each for each in nest.loops if each.sym is not gone))
    at = tuple([Affine.of(cell) if n == axis else index for n, index in enumerate(leaf.ref.indices)])
    return Nest(loops, cond, replace(leaf, ref=Ref(leaf.ref.buf, at), value=simplify_expr(term, cond)))
