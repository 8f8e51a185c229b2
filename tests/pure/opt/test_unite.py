"""Arrays that are computed once, and what makes them others."""

from __future__ import annotations

import pytest

from ocannl.ir.assign import Apply, Assign, Comp, Number, Piece, Read, Seq, Value
from ocannl.ir.index import Affine, Sym
from ocannl.ir.ops import ADD, BY_NAME, MAX, Op
from ocannl.ir.precision import float32
from ocannl.ir.text import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.lower.lower import lower
from ocannl.opt.memory.decide_placement import decide_placement
from ocannl.opt.simplify.dead_code import eliminate_dead_code
from ocannl.opt.simplify.equal_arrays import eliminate_equal_arrays


def node(label: str, *dims: int, role: Role = Role.RESULT) -> TNode:
    return TNode(label, role, lambda: dims, lambda: float32)


SOURCE = node("source", 5, 5, role=Role.STATE)
ONE, OTHER, LAST = node("one"), node("other"), node("last")


def total(to: TNode, rows: str, columns: str, op: Op = ADD) -> Assign:
    """Over all cells, or over the diagonal."""
    syms = {name: Sym(name, 0, 4) for name in dict.fromkeys(rows + columns)}
    cell = Read(SOURCE, (Affine.of(syms[rows]), Affine.of(syms[columns])))
    return Assign(to, op, True, (Piece(tuple(syms.values()), (), cell),))


def put(to: TNode, value: Value) -> Assign:
    return Assign(to, None, True, (Piece((), (), value),))


def both() -> Assign:
    return put(LAST, Apply(BY_NAME["mul"], (Read(ONE, ()), Read(OTHER, ()))))


def change() -> Assign:
    i, j = Sym("i", 0, 4), Sym("j", 0, 4)
    at = (Affine.of(i), Affine.of(j))
    return Assign(SOURCE, None, True, (Piece((i, j), at, Apply(BY_NAME["neg"], (Read(SOURCE, at),))),))


def reads(*code: Comp) -> str:
    """What the last statement is."""
    proc = eliminate_dead_code(eliminate_equal_arrays(decide_placement(lower(Seq(code), "step"), {})))
    return print_proc(proc).splitlines()[-1].strip()


def test_sums_under_other_names() -> None:
    assert reads(total(ONE, "i", "j"), total(OTHER, "k", "l"), both()) == "last = one * one"


@pytest.mark.parametrize(
    ("first", "between", "second"),
    [
        (("i", "j"), (), ("i", "i")), (("i", "i"), (), ("i", "j")), (("i", "j"), (change,), ("i", "j")),
        (("i", "j"), (), ("i", "j", MAX)),
    ],
)  # fmt: skip
def test_others(first: tuple[str, str], between: tuple, second: tuple) -> None:
    code = total(ONE, *first), *(each() for each in between), total(OTHER, *second), both()
    assert reads(*code) == "last = one * other"


def test_what_is_written_again_is_no_longer_the_same() -> None:
    again = put(ONE, Number(2))
    assert reads(total(ONE, "i", "j"), total(OTHER, "i", "j"), again, both()) == "last = one * other"
    more = Assign(ONE, ADD, False, (Piece((), (), Number(2)),))
    assert reads(total(ONE, "i", "j"), more, total(OTHER, "i", "j"), both()) == "last = one * other"
    same = Assign(OTHER, ADD, False, (Piece((), (), Number(2)),))
    assert reads(total(ONE, "i", "j"), more, total(OTHER, "i", "j"), same, both()) == "last = one * one"


def test_what_was_read_on_the_way_stays() -> None:
    middle = put(node("middle", role=Role.STATE), Read(OTHER, ()))
    more = [Assign(each, ADD, False, (Piece((), (), Number(2)),)) for each in (ONE, OTHER)]
    code = total(ONE, "i", "j"), more[0], total(OTHER, "i", "j"), middle, more[1], both()
    assert reads(*code) == "last = one * other"


def test_zeros_of_two_signs_are_not_equal() -> None:
    first, second = (Apply(BY_NAME["div"], (Read(SOURCE, (Affine(), Affine())), Number(zero))) for zero in (0.0, -0.0))
    assert reads(put(ONE, first), put(OTHER, second), both()) == "last = one * other"
    assert reads(put(ONE, first), put(OTHER, first), both()) == "last = one * one"


def test_nothing_to_do_is_the_same_program() -> None:
    proc = decide_placement(lower(Seq((total(ONE, "i", "j"), total(OTHER, "i", "i"), both())), "step"), {})
    assert eliminate_equal_arrays(proc) is proc
