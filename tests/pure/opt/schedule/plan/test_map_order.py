"""The loop order of maps whose vectors are strided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Call, Piece, Read
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import MUL
from ocannl.ir.precision import float32
from ocannl.ir.tnode import Role, TNode
from ocannl.lower.lower import lower
from ocannl.opt.analysis.nests import bound_names
from ocannl.opt.schedule.plan.loop_order import order_loops
from ocannl.opt.schedule.plan.register_tiles import best_tile_plan
from ocannl.opt.schedule.schedule import schedulable_group


@pytest.mark.parametrize(
    ("rows", "columns", "order"), [(400, 16, "ij"), (400, 2, "ij"), (32, 16, "ji"), (8, 2, "ji"), (16, 2, "ij")]
)
def test_outermost_loop_remains_long_enough_for_threads(rows: int, columns: int, order: str) -> None:
    x, y = (TNode(label, Role.PLACEHOLDER, lambda: (rows, columns), lambda: float32) for label in "xy")
    i, j = Sym("i", 0, rows - 1), Sym("j", 0, columns - 1)
    cell = Affine.of(i), Affine.of(j)
    proc = lower(Assign(y, None, False, (Piece((j, i), cell, Call(MUL, (Read(x, cell),) * 2)),)), "step")
    group = schedulable_group(proc.body[0], Namer(bound_names(proc)))
    capabilities = Capabilities(vector_bytes=32, vector_registers=16)
    assert group is not None
    plan = best_tile_plan(group, capabilities)
    assert plan is not None
    i, j = group.syms
    strided = replace(plan, vector=i, loops=((j, 0), (i, 8)))
    ordered = order_loops(group, strided, capabilities.cpu)
    assert "".join("ij"[sym is j] for sym, _ in ordered.loops) == order
