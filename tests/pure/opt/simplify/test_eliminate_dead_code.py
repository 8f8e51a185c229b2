"""Dead-code elimination: statements that are removed, and similar ones that are not."""

from __future__ import annotations

from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.assign import Assign, Comp, LabeledBlock, Number, Piece, Read, Seq
from ocannl.ir.ops import ADD
from ocannl.ir.precision import float32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt.memory.decide_placement import decide_placement
from ocannl.opt.simplify.eliminate_dead_code import eliminate_dead_code


def node(label: str, *dims: int, role: Role = Role.RESULT) -> TNode:
    return TNode(label, role, lambda: dims, lambda: float32)


def virtual(label: str, *dims: int) -> TNode:
    result = node(label, *dims)
    result.requested.set(Placement.TEMPORARY, "oc.virtual")
    return result


def fill(lhs: TNode, value: float, low: int = 0, accumulate: bool = False) -> Assign:
    i = Sym("i", low, lhs.dims[0] - 1)
    return Assign(lhs, ADD if accumulate else None, False, (Piece((i,), (Affine.of(i),), Number(value)),))


def copy(lhs: TNode, source: TNode) -> Assign:
    i = Sym("i", 0, lhs.dims[0] - 1)
    return Assign(lhs, None, True, (Piece((i,), (Affine.of(i),), Read(source, (Affine.of(i),))),))


def left(*code: Comp) -> list[str]:
    proc = eliminate_dead_code(decide_placement(lower(Seq(code), "step"), {}))
    verify(proc, "optimized")
    lines = [line.strip() for line in print_proc(proc).splitlines()[1:] if " : " not in line]
    return [line for line in lines if not line.startswith("for ")]


def test_unread_values_are_removed_with_their_operands() -> None:
    x, s, t, y = node("x", 5), virtual("s", 5), virtual("t", 5), node("y", 5)
    assert left(copy(s, x), copy(t, s), copy(y, x)) == ["y[i_3] = x[i_3]"]


def test_overwritten_values_are_removed() -> None:
    y, z = node("y", 5), node("z", 5)
    assert left(fill(y, 1), fill(y, 2)) == ["y[i_2] = 2"]
    assert left(fill(y, 1), copy(z, y), fill(y, 2)) == ["y[i] = 1", "z[i_2] = y[i_2]", "y[i_3] = 2"]
    assert left(fill(y, 1), fill(y, 2, accumulate=True)) == ["y[i] = 1", "y[i_2] += 2"]
    assert left(fill(y, 1), fill(y, 2, low=1)) == ["y[i] = 1", "y[i_2] = 2"]


def test_guarded_writes_do_not_overwrite() -> None:
    y, i = node("y", 5), Sym("i", 0, 4)
    guarded = Assign(y, None, False, (Piece((i,), (Affine.of(i),), Number(2), Cond((Affine.of(i) - 1,))),))
    assert left(fill(y, 1), guarded) == ["y[i] = 1", "if i_2-1 >= 0:", "y[i_2] = 2"]


def test_flattened_writes_overwrite() -> None:
    y, i, j = node("y", 6), Sym("i", 0, 1), Sym("j", 0, 2)
    for coef, expected in ((3, 1), (2, 2)):
        index = Affine.of(i) * coef + j
        flat = Assign(y, None, False, (Piece((i, j), (index,), Number(2)),))
        assert len(left(fill(y, 1), flat)) == expected


def test_comments_are_removed_with_their_code() -> None:
    x, t, y = node("x", 5), virtual("t", 5), node("y", 5)
    inner = (LabeledBlock("dead", copy(t, x)), LabeledBlock("alive", copy(y, x)))
    code = (LabeledBlock("outer", Seq(inner)), LabeledBlock("empty", Seq()))
    assert left(*code) == ["# outer", "# alive", "y[i_2] = x[i_2]", "# empty"]


def test_self_assignments_are_removed_except_the_first_write() -> None:
    y = node("y", 5)
    assert left(fill(y, 1), copy(y, y)) == ["y[i] = 1"]
    assert left(copy(y, y)) == ["y[i] = y[i]"]  # the routine is to write it


def test_empty_loops() -> None:
    x, y, z = node("x", 0), node("y", 0), node("z", 0)
    assert left(copy(y, x), copy(z, y)) == ["z[i_2] = 0"]  # a mark that it is written
    t, i, j = node("t", 5), Sym("i", 0, 4), Sym("j", 0, -1)
    wide = node("wide", 5, 0)
    total = Assign(t, ADD, True, (Piece((i, j), (Affine.of(i),), Read(wide, (Affine.of(i), Affine.of(j)))),))
    assert left(total) == ["t[i] = 0"]


def test_unused_buffers_are_removed() -> None:
    x, t, y = node("x", 5), virtual("t", 5), node("y", 5)
    proc = eliminate_dead_code(decide_placement(lower(Seq((copy(t, x), fill(y, 1))), "step"), {}))
    assert [b.name for b in proc.bufs] == ["y"]
    assert {fact.node for fact in proc.facts} == {t, x, y}  # which are still decided
