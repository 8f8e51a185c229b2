"""Chooses a plan for every nest and builds the nest that it describes."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Proc, Stmt
from ocannl.ir.names import Namer
from ocannl.opt.nest import Table, names_of, nest_of
from ocannl.opt.plan import plan
from ocannl.opt.realize import realize
from ocannl.opt.start import Starts


def schedule(proc: Proc, capabilities: Capabilities) -> Proc:
    """Replaces each nest by the one that `realize` makes of its plan; a fill becomes the start of its sum.

        proc step                         proc step
          y : f32[5]    out                 y : f32[5]    out
          w : f32[5,7]  in                  w : f32[5,7]  in
          for i in 0..5:                    for i_2 in 0..5:
            y[i] = 0                ==>       local acc: f32 reg = 0
          for i_2 in 0..5:                    for j in 0..7:
            for j in 0..7:                      acc += w[i_2, j]
              y[i_2] += w[i_2, j]             y[i_2] = acc

    The order of summation depends on the shapes alone.
    """
    starts = Starts(Table(proc.body))
    names = Namer(names_of(proc))
    body: list[Stmt | None] = list(proc.body)
    for at, stmt in enumerate(proc.body):
        nest = nest_of(stmt)
        if nest is None:
            continue
        start = starts.of(at, nest)
        starts.note(at, nest)
        if start is not None:
            begun = replace(nest, start=start.value)
            chosen = plan(begun, capabilities)
            if chosen.takes_start:
                body[start.fill] = None
                body[at] = realize(begun, chosen, names)
                continue
        body[at] = realize(nest, plan(nest, capabilities), names)
    return replace(proc, body=tuple([stmt for stmt in body if stmt is not None]))
