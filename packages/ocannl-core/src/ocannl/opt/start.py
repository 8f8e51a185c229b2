"""Finds the fills with which sums begin."""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import Body, Buf, Expr, Store
from ocannl.opt.nest import Nest, Table, grid, loads, nest_of
from ocannl.opt.substitute import substitute


@dataclass(frozen=True, slots=True)
class Start:
    """The nest at position `fill` does no more than give the cells of a later update their first value."""

    fill: int
    value: Expr


def find_starts(body: Body) -> dict[int, Start]:
    """For positions of updates: the fill whose place the start of the accumulator may take.

        for i in 0..5:                                for i in 0..5:
          y[i] = 0                                      local acc: f32 reg = 0
        for i_2 in 0..5: for k in 0..7:        ==>      for k in 0..7: acc += w[i, k]
          y[i_2] += w[i_2, k]                           y[i] = acc

    The fill must write each cell once, the update reach each cell at a fixed point of its own loops, and nothing
    between the two may read the cells or change what the fill reads.
    """
    table = Table(body)
    newest: dict[Buf, tuple[int, Nest]] = {}  # last writer so far, where it is a plain fill
    starts: dict[int, Start] = {}
    for at, stmt in enumerate(body):
        nest = nest_of(stmt)
        if nest is None:
            continue
        buf = nest.leaf.ref.buf
        fill_at, fill = newest.pop(buf, (-1, None))
        if isinstance(nest.leaf, Store):
            if nest.cond.is_true and grid(nest.leaf.ref, nest) == {loop.sym for loop in nest.loops}:
                newest[buf] = (at, nest)
        elif fill is not None and not table.written_between(buf, fill_at, at):
            value = _start(fill, nest)
            read = [] if value is None else [ref.buf for ref in loads(value)]
            if (
                value is not None
                and buf not in read
                and not table.read_between(buf, fill_at, at + 1)
                and not any(table.written_between(b, fill_at, at) for b in read)
            ):
                starts[at] = Start(fill_at, value)
    return starts


def _start(fill: Nest, update: Nest) -> Expr | None:
    if grid(update.leaf.ref, update) is None:
        return None
    values: dict[Sym, Affine] = {}
    for mine, its in zip(fill.leaf.ref.at, update.leaf.ref.at, strict=True):
        if mine.only_sym is not None:
            values[mine.only_sym] = its
    return substitute(fill.leaf.value, values)
