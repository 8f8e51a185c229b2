"""Plans of groups for targets without vectors, and the loops that are built from them."""

from __future__ import annotations

import pytest

from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.assign import Assign, Call, Comp, Piece, Read, Value
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import AccessMode, Buf, Load, MemorySpace, Proc, Ref, Store, Update, loop
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, AND, MAX, MUL, Op
from ocannl.ir.precision import Precision, float32, int32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.lower.lower import lower
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of
from ocannl.opt.analysis.nests import bound_names
from ocannl.opt.fusion.fuse_epilogues import fuse_epilogues
from ocannl.opt.pipeline import optimize
from ocannl.opt.schedule.loop_generation import build_loops
from ocannl.opt.schedule.plan import Plan, ScalarPlan, model_plan
from ocannl.opt.schedule.plan.scalar_plans import ReductionPlan
from ocannl.opt.schedule.schedule import schedule

TARGET = Capabilities()


def node(label: str, *dims: int, role: Role = Role.PLACEHOLDER, kind: Precision = float32) -> TNode:
    return TNode(label, role, lambda: dims, lambda: kind)


def loops(*sizes: int) -> tuple[Sym, ...]:
    return tuple(Sym(name, 0, n - 1) for name, n in zip("ijkl", sizes, strict=False))


def at(*indices: Affine | Sym | int) -> tuple[Affine, ...]:
    return tuple(map(Affine.of, indices))


def total(
    lhs: TNode, over: tuple[Sym, ...], value: Value, accum: Op | None = ADD, when: Cond = TRUE, clear: bool = True
) -> Assign:
    return Assign(lhs, accum, clear, (Piece(over, at(*over[: len(lhs.dims)]), value, when),))


def groups(code: Comp) -> list[FusionGroup]:
    proc = lower(code, "step")
    names = Namer(bound_names(proc))
    return [group for group in (group_of(stmt, names) for stmt in proc.body) if group is not None]


def body(code: Comp) -> str:
    proc = schedule(fuse_epilogues(lower(code, "step")), TARGET)
    return "\n".join(line for line in print_proc(proc).splitlines()[1:] if " : " not in line)


def product(m: int, n: int, k: int) -> Assign:
    a, b, c = node("a", m, k), node("b", n, k), node("c", m, n)
    i, j, l = loops(m, n, k)
    return total(c, (i, j, l), Call(MUL, (Read(a, at(i, l)), Read(b, at(j, l)))))


def names(plan: Plan) -> tuple[list[str], list[str], int]:
    """Returns the order of the parallel loops, the order of the reduction loops, and the number of accumulators."""
    assert isinstance(plan, ScalarPlan)
    (reduction,) = plan.reductions or (ReductionPlan(()),)
    return [s.name for s in plan.order], [s.name for s in reduction.order], reduction.accumulators


def test_long_reductions_have_several_accumulators() -> None:
    assert names(model_plan(groups(product(2, 3, 7))[-1], TARGET)) == (["i_2", "j_2"], ["k"], 1)
    assert names(model_plan(groups(product(2, 3, 8))[-1], TARGET)) == (["i_2", "j_2"], ["k"], 4)


def test_partial_sums_with_a_remainder() -> None:
    x, y = node("x", 2, 10), node("y", 2)
    i, j = loops(2, 10)
    assert (
        body(total(y, (i, j), Read(x, at(i, j))))
        == """\
  for i_2 in 0..2:
    local acc_2: f32[4] = 0
    for j_2 in 0..2:
      acc_2[0] += x[i_2, 4*j_2]
      acc_2[1] += x[i_2, 4*j_2+1]
      acc_2[2] += x[i_2, 4*j_2+2]
      acc_2[3] += x[i_2, 4*j_2+3]
    acc_2[0] += x[i_2, 8]
    acc_2[1] += x[i_2, 9]
    local acc: f32 = 0
    acc += acc_2[0] + acc_2[1] + (acc_2[2] + acc_2[3])
    y[i_2] = acc"""
    )


def test_the_innermost_reduction_loop_has_unit_stride() -> None:
    x, y = node("x", 8, 9, 3), node("y", 3)
    i, k, j = loops(3, 9, 8)
    (_, group) = groups(total(y, (i, k, j), Read(x, at(j, k, i))))
    assert names(model_plan(group, TARGET))[1] == ["j", "k"]  # neither has unit stride; they stay
    transposed = node("t", 3, 9, 8)
    (_, group) = groups(total(y, (i, j, k), Read(transposed, at(i, k, j))))
    assert names(model_plan(group, TARGET))[1] == ["j", "k"]
    (_, group) = groups(total(y, (i, k, j), Read(transposed, at(i, k, j))))
    assert names(model_plan(group, TARGET))[1] == ["j", "k"]


def test_the_innermost_parallel_loop_writes_with_unit_stride() -> None:
    x, y = node("x", 5, 3), node("y", 3, 5)
    i, j = loops(5, 3)
    code = Assign(y, None, True, (Piece((i, j), at(j, i), Read(x, at(i, j))),))
    assert names(model_plan(groups(code)[0], TARGET))[0] == ["j", "i"]


def test_loops_with_dependences_keep_their_order() -> None:
    """Several writes to one cell, and a reduction that reads results of earlier iterations."""
    y, x = (Buf(name, float32, (8,), (1,), MemorySpace.ARENA, AccessMode.TEMP) for name in "yx")
    i, j = Sym("i", 0, 2), Sym("j", 0, 1)
    cell = Ref(y, (Affine.of(i) + Affine.of(j) * 2,))
    write = loop(i, (loop(j, (Store(cell, Load(Ref(x, (Affine.of(i),)))),)),))
    assert group_of(write, Namer()) is None
    wide = Buf("wide", float32, (4, 4), (4, 1), MemorySpace.ARENA, AccessMode.TEMP)
    row, column = Sym("row", 1, 3), Sym("column", 1, 3)
    current = Ref(wide, (Affine.of(column), Affine.of(row)))
    previous = Ref(wide, (Affine.of(column) - 1, Affine.of(row)))
    scan = loop(row, (loop(column, (Update(current, ADD, Load(previous)),)),))
    assert group_of(scan, Namer()) is None
    proc = Proc("step", (x, y, wide), (), (write, scan))
    assert schedule(proc, TARGET) == proc


def test_integer_reductions_have_one_accumulator() -> None:
    x, y = node("x", 40, kind=int32), node("y", kind=int32)
    (i,) = loops(40)
    assert names(model_plan(groups(total(y, (i,), Read(x, at(i))))[-1], TARGET)) == ([], ["i"], 1)


def test_a_full_reduction_is_a_block() -> None:
    x, y = node("x", 5), node("y")
    (i,) = loops(5)
    assert (
        body(total(y, (i,), Read(x, at(i)), MAX))
        == """\
  scope:
    local acc: f32 = -inf
    for i in 0..5:
      acc = max(acc, x[i])
    y = acc"""
    )


def test_a_reduction_without_initialization() -> None:
    x, y = node("x", 2, 5), node("y", 2)
    i, j = loops(2, 5)
    assert (
        body(total(y, (i, j), Read(x, at(i, j)), clear=False))
        == """\
  for i in 0..2:
    local acc: f32 = 0
    for j in 0..5:
      acc += x[i, j]
    y[i] = y[i] + acc"""
    )


def test_guards_become_loop_bounds() -> None:
    x, y = node("x", 4, 5), node("y", 4)
    i, j = loops(4, 5)
    when = Cond((Affine.of(i) - 1, Affine.of(j) - i))
    added = total(y, (i, j), Read(x, at(i, j)), when=when, clear=False)
    assert (
        body(added)
        == """\
  for i in 1..4:
    local acc: f32 = 0
    for j in i..5:
      acc += x[i, j]
    y[i] = y[i] + acc"""
    )
    assert (
        body(total(y, (i, j), Read(x, at(i, j)), when=when))
        == """\
  for i_2 in 0..4:
    local acc: f32 = 0
    if i_2-1 >= 0:
      for j in i_2..5:
        acc += x[i_2, j]
    y[i_2] = acc"""
    )


def test_guards_of_remainders_are_simplified() -> None:
    x, y = node("x", 9), node("y")
    (i,) = loops(9)
    padded = Read(x, at(Affine.of(i) + 1), outside=0.0)
    text = body(total(y, (i,), padded, when=Cond((-Affine.of(i) + 7,))))
    assert "acc_2[3] += x[4*i_2+4]" in text  # always in bounds
    assert "acc_2[0] += x[9]" not in text and text.count("acc_2[0] +=") == 1  # the guard excludes the last term


@pytest.mark.parametrize(("op", "accumulators"), [(ADD, 4), (MAX, 4), (MUL, 1), (AND, 1)])
def test_only_reassociable_reductions_are_reordered(op: Op, accumulators: int) -> None:
    x, y = node("x", 2, 20), node("y", 2)
    i, j = loops(2, 20)
    group = groups(total(y, (i, j), Read(x, at(i, j)), op))[-1]
    assert names(model_plan(group, TARGET)) == (["i_2"], ["j"], accumulators)


def test_partial_sums_without_initialization() -> None:
    x, y = node("x", 9), node("y")
    (i,) = loops(9)
    assert (
        body(total(y, (i,), Read(x, at(i)), clear=False))
        == """\
  scope:
    local acc_2: f32[4] = 0
    for i_2 in 0..2:
      acc_2[0] += x[4*i_2]
      acc_2[1] += x[4*i_2+1]
      acc_2[2] += x[4*i_2+2]
      acc_2[3] += x[4*i_2+3]
    acc_2[0] += x[8]
    local acc: f32 = 0
    acc += acc_2[0] + acc_2[1] + (acc_2[2] + acc_2[3])
    y = y + acc"""
    )


def test_loops_of_a_custom_plan() -> None:
    group = groups(product(2, 3, 8))[-1]
    (i, j), (k,) = group.syms, group.reductions[0].syms
    stmt = build_loops(group, ScalarPlan((j, i), (ReductionPlan((k,), 2),)), Namer(["acc"]))
    text = print_proc(Proc("p", (), (), (stmt,)))
    assert [line.strip().split(":")[0] for line in text.splitlines()[1:4]] == ["for j_2 in 0..3", "for i_2 in 0..2",
                                                                              "local acc_2"]  # fmt: skip
    assert text.count("acc_2[1] +=") == 1


def test_targets_without_schedules_get_unscheduled_nests() -> None:
    seen: list[str] = []
    lowered = lower(product(2, 3, 8), "step")
    plain = optimize(lowered, {}, Capabilities(wants_schedule=False), lambda name, _: seen.append(name))
    assert plain.body == lowered.body
    assert "schedule" not in seen and "eliminate_common_subexpressions" not in seen


def test_unknown_passes_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown pass fast; there are decide_placement, split_live_ranges, "):
        optimize(lower(product(2, 3, 8), "step"), {}, TARGET, without=frozenset(["fast"]))
