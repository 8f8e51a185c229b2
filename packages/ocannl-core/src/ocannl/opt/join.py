"""Makes one store of a store and the update that meets it."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.index import TRUE
from ocannl.ir.loops import Apply, Expr, Num, Proc, Stmt, Store, Update, When
from ocannl.opt.cost import LARGE, cost
from ocannl.opt.fold import fold_expr
from ocannl.opt.nest import Nest, Table, around, nest_of, same, walked
from ocannl.opt.start import Start, Starts


def join(proc: Proc) -> Proc:
    """Puts the first value of cells into the pointwise update that meets them.

        proc step                        proc step
          g : f32[5]  out                  g : f32[5]  out
          x : f32[5]  in                   x : f32[5]  in
          y : f32[5]  in                   y : f32[5]  in
          for i in 0..5:                   for i_3 in 0..5:
            g[i] = 0               ==>       g[i_3] = x[i_3] + y[i_3]
          for i_2 in 0..5:
            g[i_2] += x[i_2]
          for i_3 in 0..5:
            g[i_3] += y[i_3]

    Gradients, which begin at zero and gather from every use, become values that can be inlined.
    """
    starts = Starts(Table(proc.body))
    body: list[Stmt | None] = list(proc.body)
    for at, stmt in enumerate(proc.body):
        nest = nest_of(stmt)
        if nest is None:
            continue
        start = starts.of(at, nest)
        if start is not None and walked(nest.leaf.ref, nest.loops) == {loop.sym for loop in nest.loops}:
            store = _joined(start, nest)
            if store is not None:
                nest = Nest(nest.loops, TRUE, store)
                (body[at],) = around(nest.loops, TRUE, (store,))
                body[start.fill] = None
        starts.note(at, nest)
    left = tuple([stmt for stmt in body if stmt is not None])
    return proc if same(left, proc.body) else replace(proc, body=left)


def _joined(start: Start, nest: Nest) -> Store | None:
    """The store that does what the fill and the update do, unless it would be too much at once."""
    update = nest.leaf
    assert isinstance(update, Update)
    if cost(start.value).nodes + cost(update.value).nodes > LARGE:
        return None
    met: Expr = Apply(update.op, (start.value, update.value))
    if not nest.cond.is_true:
        if not isinstance(start.value, Num):
            return None  # it would stand there twice
        met = When(nest.cond, met, start.value)
    return Store(update.ref, fold_expr(met), update.origin)
