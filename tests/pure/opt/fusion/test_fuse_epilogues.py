"""Which groups become one, which do not and why; what is computed stays the same."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest

from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.assign import Assign, Call, Comp, Number, Piece, Read, Seq, Value
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import MemorySpace, Proc
from ocannl.ir.ops import ADD, BY_NAME, MAX, MUL, Op
from ocannl.ir.precision import float32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.fusion.fuse_epilogues import fuse_epilogues
from ocannl.opt.memory.decide_placement import decide_placement


def node(label: str, *dims: int, role: Role = Role.RESULT) -> TNode:
    return TNode(label, role, lambda: dims, lambda: float32)


def data(label: str, *dims: int) -> TNode:
    return node(label, *dims, role=Role.PLACEHOLDER)


def temp(label: str, *dims: int) -> TNode:
    built = node(label, *dims)
    built.requested.set(Placement.TEMPORARY, "oc.virtual")
    return built


def loops(*sizes: int) -> tuple[Sym, ...]:
    return tuple(Sym(name, 0, n - 1) for name, n in zip("ijkl", sizes, strict=False))


def at(*indices: Affine | Sym | int) -> tuple[Affine, ...]:
    return tuple(map(Affine.of, indices))


def apply(name: str, *args: Value) -> Value:
    return Call(BY_NAME[name], args)


def total(
    lhs: TNode, over: tuple[Sym, ...], value: Value, accum: Op | None = ADD, when: Cond = TRUE, clear: bool = True
) -> Assign:
    return Assign(lhs, accum, clear, (Piece(over, at(*over[: len(lhs.dims)]), value, when),))


def cellwise(lhs: TNode, name: str, *args: TNode | float) -> Assign:
    """An operation cell by cell."""
    over = loops(*lhs.dims)
    operands = (Read(arg, at(*over)) if isinstance(arg, TNode) else Number(arg) for arg in args)
    return total(lhs, over, apply(name, *operands), None)


def rows(lhs: TNode, x: TNode, accum: Op = ADD) -> Assign:
    """The total of each row."""
    over = loops(*x.dims)
    return total(lhs, over, Read(x, at(*over)), accum)


def judged(before: Proc) -> Proc:
    """The program fused: as good as it was. The cells are such that sums are exact, in whatever order."""
    after = fuse_epilogues(before)
    verify(after, "optimized")
    rng = np.random.default_rng(1)
    arrays = {b.node: (rng.integers(-16, 17, b.node.dims) / 8).astype("f4") for b in before.bufs if b.node is not None}
    wanted, got = interpret(before, arrays), interpret(after, arrays)
    for buf in before.bufs:
        if buf.space is MemorySpace.GLOBAL and buf.node is not None and buf.node in got:
            np.testing.assert_array_equal(got[buf.node], wanted[buf.node])
    assert {b for b in before.bufs if b.access.value in ("out", "inout")} <= set(after.bufs)
    return after


def fused(*code: Comp, kept_nodes: Iterable[TNode] = ()) -> str:
    """What becomes of the statements."""
    proc = judged(decide_placement(lower(Seq(code), "step"), dict.fromkeys(kept_nodes, "keep=")))
    return "\n".join(line for line in print_proc(proc).splitlines()[1:] if " : " not in line)


def nests(text: str) -> int:
    return sum(line.startswith(("  for", "  if", "  scope")) for line in text.splitlines())


# ------------------------------------------------------------------------------------------------------------- starts


def test_any_first_value_of_the_cells_is_added_to_the_sum() -> None:
    x, b, y = data("x", 2, 5), data("b", 2), node("y", 2)
    (k,), (i, j) = loops(2), loops(2, 5)
    code = (total(y, (k,), Read(b, at(k)), None), total(y, (i, j), Read(x, at(i, j)), clear=False))
    assert (
        fused(*code)
        == """\
  for i_2 in 0..2:
    local acc: f32
    acc = 0
    for j in 0..5:
      acc += x[i_2, j]
    y[i_2] = b[i_2] + acc"""
    )
    (m,) = loops(2)
    moved = total(b, (m,), Number(0), None)
    assert "acc = y[i_3]" in fused(code[0], moved, code[1])
    seen = total(node("z", 2), (m,), Read(y, at(m)), None)
    assert "acc = y[i_3]" in fused(code[0], seen, code[1])


def test_a_sum_that_reaches_only_some_cells_leaves_the_fill_alone() -> None:
    x, y = data("x", 5), node("y", 3, 5)
    i, j, k = loops(3, 5, 2)
    (d,), (e, f) = loops(3), loops(3, 5)
    fill = Assign(y, None, True, (Piece((e, f), at(e, f), Number(0)),))
    diagonal = Assign(y, ADD, False, (Piece((d, k), at(d, d), Read(x, at(d))),))
    assert fused(fill, diagonal).count("y[") == 3
    row = Assign(y, ADD, False, (Piece((j, k), at(1, j), Read(x, at(j))),))
    assert fused(fill, row).count("y[") == 3
    sums = Assign(y, ADD, False, (Piece((i, j, k), at(i, j), Read(x, at(j))),))
    assert fused(fill, sums).count("y[") == 1


def test_a_guarded_sum_writes_all_that_its_fill_wrote() -> None:
    x, y = data("x", 4, 5), node("y", 4)
    i, j = loops(4, 5)
    assert (
        fused(total(y, (i, j), Read(x, at(i, j)), when=Cond((Affine.of(i) - 1,))))
        == """\
  for i_2 in 0..4:
    local acc: f32
    acc = 0
    if i_2-1 >= 0:
      for j in 0..5:
        acc += x[i_2, j]
    y[i_2] = acc"""
    )


# ------------------------------------------------------------------------------------------------------- what is fused


def test_what_follows_on_a_sum() -> None:
    x, s, m, y = data("x", 3, 4), temp("s", 3), temp("m", 3), node("y", 3)
    assert (
        fused(rows(s, x), cellwise(m, "mul", s, 0.25), cellwise(y, "sub", m, 1))
        == """\
  for i_2 in 0..3:
    local acc: f32
    acc = 0
    for j in 0..4:
      acc += x[i_2, j]
    let m_2 = acc * 0.25
    y[i_2] = m_2 - 1"""
    )


def test_what_is_kept_is_stored() -> None:
    x, s, y = data("x", 3, 4), node("s", 3), node("y", 3)
    text = fused(rows(s, x), cellwise(y, "tanh", s), kept_nodes=[s])
    assert nests(text) == 1 and "s[i_2] = acc" in text and "y[i_2] = tanh(acc)" in text


def test_what_others_read_is_stored() -> None:
    x, s, y, z = data("x", 3, 4), temp("s", 3), node("y", 3), node("z")
    (i,) = loops(3)
    text = fused(rows(s, x), cellwise(y, "tanh", s), total(z, (i,), Read(s, at(i))))
    assert nests(text) == 2 and "s[i_2] = acc" in text and "tanh(acc)" in text and "+= s[" in text


def test_cells_may_be_those_of_another_order_of_loops() -> None:
    """A transposed reader meets the same cells, whatever its own place."""
    x, s, y = data("x", 2, 3, 4), temp("s", 2, 3), node("y", 3, 2)
    over = loops(2, 3)
    i, j = over
    transposed = Assign(y, None, True, (Piece((j, i), at(j, i), apply("tanh", Read(s, at(i, j)))),))
    text = fused(rows(s, x), transposed)
    assert nests(text) == 1 and "y[j_2, i_2] = tanh(acc)" in text


def test_an_axis_of_one_cell_is_at_zero() -> None:
    x, s, y = data("x", 3, 4), temp("s", 3, 1), node("y", 3)
    (i, k), (m,) = loops(3, 4), loops(3)
    first = Assign(s, ADD, True, (Piece((i, k), at(i, 0), Read(x, at(i, k))),))
    assert nests(fused(first, total(y, (m,), apply("tanh", Read(s, at(m, 0))), None))) == 1


def test_full_sums_have_a_group_of_one_cell() -> None:
    x, s, y = data("x", 5), temp("s"), node("y")
    (i,) = loops(5)
    assert (
        fused(total(s, (i,), Read(x, at(i))), cellwise(y, "tanh", s))
        == """\
  scope:
    local acc: f32
    acc = 0
    for i in 0..5:
      acc += x[i]
    y = tanh(acc)"""
    )


def test_descent_with_momentum_meets_each_weight_once() -> None:
    x, g, v, w = data("x", 4, 5), temp("g", 4), node("v", 4, role=Role.PARAMETER), node("w", 4, role=Role.PARAMETER)
    (i,), (j,) = loops(4), loops(4)
    moved = total(v, (i,), apply("add", apply("mul", Read(v, at(i)), Number(0.5)), Read(g, at(i))), None)
    stepped = total(w, (j,), apply("sub", Read(w, at(j)), Read(v, at(j))), None)
    assert (
        fused(rows(g, x), moved, stepped)
        == """\
  for i_2 in 0..4:
    local acc: f32
    acc = 0
    for j in 0..5:
      acc += x[i_2, j]
    let v_2 = v[i_2] * 0.5 + acc
    v[i_2] = v_2
    w[i_2] = w[i_2] - v_2"""
    )


def test_adam_meets_each_weight_once() -> None:
    g, (m, v, w) = data("g", 3), (node(label, 3, role=Role.PARAMETER) for label in "mvw")
    square, ratio, root = temp("square", 3), temp("ratio", 3), temp("root", 3)

    def decayed(lhs: TNode, by: TNode) -> Assign:
        (i,) = loops(3)
        old, new = (apply("mul", Read(x, at(i)), Number(c)) for x, c in ((lhs, 0.5), (by, 0.5)))
        return total(lhs, (i,), apply("add", old, new), None)

    means = (cellwise(square, "mul", g, g), decayed(m, g), decayed(v, square))
    text = fused(*means, cellwise(root, "sqrt", v), cellwise(ratio, "div", m, root), cellwise(w, "sub", w, ratio))
    assert nests(text) == 1
    assert re.findall(r"^ +(\w+)\[\w+\] =", text, re.MULTILINE) == ["m", "v", "w"]


def test_updates_that_follow() -> None:
    """Gradients are added to; the cell is as it is left."""
    x, s, g, y = data("x", 3, 4), temp("s", 3), node("g", 3, role=Role.GRADIENT), node("y", 3)
    (i,) = loops(3)
    added = total(g, (i,), Read(s, at(i)), clear=False)
    assert (
        fused(rows(s, x), added, cellwise(y, "tanh", g))
        == """\
  for i_2 in 0..3:
    local acc: f32
    acc = 0
    for j in 0..4:
      acc += x[i_2, j]
    g[i_2] += acc
    y[i_2] = tanh(g[i_2])"""
    )


def test_a_cell_is_what_was_stored_last() -> None:
    x, t, y, z = data("x", 3), node("t", 3), node("y", 3), node("z", 3)
    stores = cellwise(t, "neg", x), cellwise(y, "tanh", t), cellwise(t, "mul", t, 2), cellwise(z, "tanh", t)
    text = fused(*stores, kept_nodes=[t])
    assert nests(text) == 1 and text.count("t[i] =") == 2


# --------------------------------------------------------------------------------------------------- what stays apart


def test_other_cells_are_another_matter() -> None:
    x, s, y = data("x", 4, 5), temp("s", 4), node("y", 4)
    (i,) = loops(4)
    back = total(y, (i,), Read(s, at(-Affine.of(i) + 3)), None)
    assert nests(fused(rows(s, x), back)) == 2
    (few,) = loops(2)
    diagonal = Assign(y, None, False, (Piece((few,), at(few), Read(s, at(few))),))
    assert nests(fused(rows(s, x), diagonal)) == 2
    second_total = total(y, loops(4), Read(s, at(1)), None)
    assert nests(fused(rows(s, x), second_total)) == 2
    square, z = temp("square", 3, 3), node("z", 3, 3)
    (i, j), over = loops(3, 3), loops(3, 3)
    both = total(z, over, apply("add", Read(square, at(*over)), Read(square, at(*over[::-1]))), None)
    assert nests(fused(total(square, (i, j), Read(x, at(i, j)), None), both)) == 2


def test_more_loops_are_another_matter() -> None:
    x, s, y = data("x", 4, 5), temp("s", 4), node("y", 4, 5)
    i, j = loops(4, 5)
    assert nests(fused(rows(s, x), total(y, (i, j), Read(s, at(i)), None))) == 2


def test_what_is_in_place_and_seen_elsewhere() -> None:
    """The second nest writes cells that other iterations of the first one read."""
    x, y = node("x", 4, role=Role.PARAMETER), temp("y", 4)
    (i,) = loops(4)
    back = total(y, (i,), Read(x, at(-Affine.of(i) + 3)), None)
    assert nests(fused(back, cellwise(x, "neg", y))) == 2


def test_guards_stay_apart() -> None:
    x, s, y = data("x", 4, 5), temp("s", 4), node("y", 4)
    (i,) = loops(4)
    guarded = total(y, (i,), Read(s, at(i)), None, Cond((Affine.of(i) - 1,)), clear=False)
    assert nests(fused(rows(s, x), guarded)) == 2
    partial, z = node("some", 4, role=Role.PARAMETER), node("z", 4)
    assert nests(fused(total(partial, (i,), Number(1), None, Cond((Affine.of(i) - 1,)), clear=False),
                       cellwise(z, "neg", partial))) == 2  # fmt: skip


def test_a_sum_over_sums_stays_apart() -> None:
    x, s, y = data("x", 3, 4), temp("s", 3), node("y")
    (i,) = loops(3)
    assert nests(fused(rows(s, x), total(y, (i,), Read(s, at(i)), MAX))) == 2


def test_either_moves_past_what_does_not_mind() -> None:
    x, s, y = data("x", 3, 4), temp("s", 3), node("y", 3)
    a, b, c = data("a", 3), node("b", 3), node("c", 3)
    apart = cellwise(b, "exp", a)
    assert nests(fused(rows(s, x), apart, cellwise(y, "tanh", s))) == 2
    assert nests(fused(rows(s, x), apart, cellwise(y, "add", s, b))) == 1  # after both
    assert nests(fused(rows(s, x), cellwise(c, "neg", y), cellwise(y, "tanh", s))) == 2  # no write before the read


@pytest.mark.parametrize("losses_first", [True, False])
def test_no_reduction_waits_for_a_longer_chain_of_nests(losses_first: bool) -> None:
    """The quotient is computed where the losses are added up, since these depend on another nest; the count and its
    inverse depend on inputs only, and stay one group that needs no losses."""
    x, t = data("x", 4), data("t", 4)
    h, losses, count = temp("h", 4), temp("losses"), temp("count")
    mean, inverse = node("mean"), node("inverse")
    (i,), (j,) = loops(4), loops(4)
    reductions = [total(losses, (i,), Read(h, at(-Affine.of(i) + 3))), total(count, (j,), Read(t, at(j)))]
    code = (
        cellwise(h, "exp", x), *(reductions if losses_first else reductions[::-1]),
        cellwise(mean, "div", losses, count), cellwise(inverse, "recip", count),
    )  # fmt: skip
    text = print_proc(fuse_epilogues(decide_placement(lower(Seq(code), "step"), {})))
    groups = text.split("  scope:\n")[1:]
    written = [{line.split(" = ")[0].strip() for line in group.splitlines() if " = " in line} for group in groups]
    assert [names & {"losses", "count", "mean", "inverse"} for names in written] == [{"count", "inverse"}, {"mean"}]


def test_neither_moves_past_what_minds() -> None:
    x, s, y = node("x", 3, 4, role=Role.PARAMETER), temp("s", 3), node("y", 3)
    (i, j), a, c = loops(3, 4), data("a", 3), node("c", 3)
    after = total(x, (i, j), Number(0), None)  # the sum stays above it, the sine of `c` below
    text = fused(rows(s, x), after, cellwise(c, "exp", a), total(node("z", 3), (i,), Read(x, at(i, 0)), None),
                 cellwise(y, "add", s, c))  # fmt: skip
    assert nests(text) >= 3 and text.index("acc +=") < text.index("x[i_3, j_2] = 0")
    w = node("w", 3, role=Role.PARAMETER)
    swapped = fused(cellwise(s, "neg", w), total(node("q", 3), (i,), Read(w, at(-Affine.of(i) + 2)), None),
                    cellwise(w, "tanh", s))  # fmt: skip
    assert "w[-i_2+2]" in swapped


def test_writers_in_between_are_seen() -> None:
    """The newest of several values counts."""
    x, t, y = data("x", 3), node("t", 3), node("y", 3)
    (i,) = loops(2)
    part = total(t, (i,), Number(7), None, clear=False)
    text = fused(cellwise(t, "neg", x), part, cellwise(y, "tanh", t))
    assert "tanh(t[" in text


def test_a_group_has_no_more_arrays_than_memory_has_streams() -> None:
    xs = [data(f"x{n}", 3) for n in range(2 * machine.MAX_EPILOGUE_STREAMS)]
    sums = [xs[0], *(temp(f"t{n}", 3) for n in range(1, len(xs) - 1)), node("y", 3)]
    code = [cellwise(now, "add", before, x) for before, now, x in zip(sums, sums[1:], xs[1:], strict=False)]
    for group in re.split(r"^  for", fused(*code), flags=re.MULTILINE)[1:]:
        assert 1 < len(set(re.findall(r"(\w+)\[", group))) <= machine.MAX_EPILOGUE_STREAMS


def test_a_group_has_no_more_work_than_it_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    x = data("x", 3)
    nodes = [x, *(temp(f"t{n}", 3) for n in range(9)), node("y", 3)]
    code = [cellwise(now, "tanh", before) for before, now in pairwise(nodes)]
    assert nests(fused(*code)) == 1
    monkeypatch.setattr(machine, "MAX_EPILOGUE_NODES", 10)
    assert nests(fused(*code)) > 1


def test_nothing_to_fuse_is_left_as_it_is() -> None:
    x, y = data("x", 3), node("y", 3)
    proc = decide_placement(lower(cellwise(y, "neg", x), "step"), {})
    assert judged(proc).body == proc.body


def test_loops_that_never_turn() -> None:
    x, s, y = data("x", 0, 4), temp("s", 0), node("y", 0)
    judged(decide_placement(lower(Seq((rows(s, x), cellwise(y, "tanh", s))), "step"), {}))
    x, s, y = data("x", 4, 0), temp("s", 4), node("y", 4)
    fused(rows(s, x, MUL), cellwise(y, "tanh", s))


def test_a_cell_that_changes_has_its_old_value_elsewhere() -> None:
    """A scalar is in memory, too."""
    s, y, z = node("s", role=Role.PARAMETER), node("y"), node("z")
    fused(total(y, (), Read(s, ()), None), cellwise(s, "add", y, 1), total(z, (), Read(y, ()), None))


def test_what_nobody_reads_is_not_computed() -> None:
    x, s, y = data("x", 3, 4), temp("s", 3), node("y", 3, 4)
    assert "acc" not in fused(rows(s, x), cellwise(y, "neg", x))


def test_a_fill_goes_with_the_last_reader_of_what_it_filled() -> None:
    x, planes, y = data("x", 3, 4), node("planes", 3, 4, 3), node("y", 3, 4)
    (i, j), (k, m) = loops(3, 4), loops(3, 4)
    spread = Assign(planes, None, True, (Piece((i, j), at(i, j, i), Read(x, at(i, j))),))
    back = Assign(y, None, True, (Piece((k, m), at(k, m), Read(planes, at(k, m, k))),))
    assert nests(fused(spread, back)) == 1
    assert nests(fused(spread, back, kept_nodes=[planes])) == 2
