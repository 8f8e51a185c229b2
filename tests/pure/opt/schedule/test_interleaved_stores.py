"""Short contiguous loops of maps that are unrolled: which ones, and their values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.assign import Assign, Call, Index, Number, Piece, Read
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Apply, Let, Load, Proc, Ref, Store, When
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import BY_NAME, MUL, WHERE
from ocannl.ir.precision import Precision, float32, float64
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt.analysis.nests import bound_names, nest_of, with_leaf
from ocannl.opt.schedule.schedule import schedulable_group, schedule
from ocannl.opt.simplify.simplify import simplify


def rotated(rows: int, size: int, factor: bool, kind: Precision = float32) -> Proc:
    """For each row, `y[j] = x[(j + 1) % size]`, times `x[j]` if there is a factor."""
    x, y = (TNode(label, Role.PLACEHOLDER, lambda: (rows, size), lambda: kind) for label in "xy")
    loops = Sym("i", 0, rows - 1), Sym("j", 0, size - 1)
    cell = tuple(map(Affine.of, loops))
    square = Call(MUL, (Read(x, cell), Read(x, cell)))
    proc = lower(Assign(y, None, False, (Piece(loops, cell, square),)), "step")
    (stmt,) = proc.body
    nest = nest_of(stmt)
    assert nest is not None and isinstance(nest.leaf, Store)
    i, j = nest.leaf.ref.indices
    source = next(buf for buf in proc.bufs if buf.node is x)
    next_cell = When(Cond((-j + (size - 2),)), Load(Ref(source, (i, j + 1))), Load(Ref(source, (i, Affine()))))
    value = Apply(MUL, (Load(Ref(source, (i, j))), next_cell)) if factor else next_cell
    return replace(proc, body=(with_leaf(stmt, replace(nest.leaf, value=value)),))


@pytest.mark.parametrize(
    ("rows", "size", "factor", "is_unrolled"),
    [(40, 2, True, True), (5, 3, True, True), (19, 4, True, True), (40, 5, True, False), (40, 3, False, False)],
)
@pytest.mark.parametrize("kind", [float32, float64], ids=str)
def test_loops_over_components(rows: int, size: int, factor: bool, is_unrolled: bool, kind: Precision) -> None:
    proc = rotated(rows, size, factor, kind)
    (stmt,) = proc.body
    group = schedulable_group(stmt, Namer(bound_names(proc)))
    assert group is not None
    assert len(group.writes) == (size if is_unrolled else 1)
    assert sum(isinstance(part, Let) for part in group.epilogue) == (size if is_unrolled else 0)
    x = np.random.default_rng(0).uniform(-1, 1, (rows, size)).astype(kind.name)
    wanted = np.roll(x, -1, 1) * x if factor else np.roll(x, -1, 1)
    node, result = ({buf.name: buf.node for buf in proc.bufs}[name] for name in "xy")
    for vector_bytes in (0, 16, 32, 64):
        scheduled = schedule(proc, Capabilities(vector_bytes=vector_bytes, vector_registers=16))
        verify(scheduled, "optimized")
        np.testing.assert_array_equal(interpret(scheduled, {node: x, result: np.zeros_like(x)})[result], wanted)


@pytest.mark.parametrize(
    ("count", "layout", "is_unrolled"),
    [(2, "rows", True), (3, "rows", True), (16, "rows", True), (17, "rows", False), (3, "adjacent", True),
     (3, "merged", False)],
)  # fmt: skip
def test_loops_over_cases(count: int, layout: str, is_unrolled: bool) -> None:
    """Each iteration of the outer loop stores a formula of its own: in a row, in adjacent cells, or in a part of a row,
    where the iterations of the other loop would not be known to be independent."""
    x = TNode("x", Role.PLACEHOLDER, lambda: (20,), lambda: float32)
    y = TNode("y", Role.PLACEHOLDER, lambda: (count, 20) if layout == "rows" else (20 * count,), lambda: float32)
    case, i = Sym("case", 0, count - 1), Sym("i", 0, 19)
    cell = {
        "rows": (Affine.of(case), Affine.of(i)), "adjacent": (Affine.of(i) * count + case,),
        "merged": (Affine.of(case) * 20 + i,),
    }[layout]  # fmt: skip
    value = Call(MUL, (Read(x, (Affine.of(i),)), Number(float(count))))
    for n in reversed(range(count - 1)):
        is_case = Call(BY_NAME["eq"], (Index(Affine.of(case)), Number(n)))
        value = Call(WHERE, (is_case, Call(MUL, (Read(x, (Affine.of(i),)), Number(n + 1.0))), value))
    proc = simplify(lower(Assign(y, None, False, (Piece((case, i), cell, value),)), "step"))
    group = schedulable_group(proc.body[0], Namer(bound_names(proc)))
    assert group is not None
    assert len(group.writes) == (count if is_unrolled else 1)
    array = np.random.default_rng(0).uniform(-1, 1, 20).astype("float32")
    scheduled = schedule(proc, Capabilities(vector_bytes=64, vector_registers=32))
    verify(scheduled, "optimized")
    result = interpret(scheduled, {x: array, y: np.zeros(y.dims, "float32")})[y]
    wanted = np.arange(1, count + 1, dtype="float32")[:, None] * array
    np.testing.assert_array_equal(result.ravel(), (wanted.T if layout == "adjacent" else wanted).ravel())
