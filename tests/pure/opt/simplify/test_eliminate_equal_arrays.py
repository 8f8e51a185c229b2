"""Global value numbering over arrays: which arrays are equal, and which writes invalidate this."""

from __future__ import annotations

import pytest

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Call, Comp, Number, Piece, Read, Seq, Value
from ocannl.ir.ops import ADD, BY_NAME, MAX, Op
from ocannl.ir.precision import float32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.lower.lower import lower
from ocannl.opt.memory.decide_placement import decide_placement
from ocannl.opt.simplify.eliminate_dead_code import eliminate_dead_code
from ocannl.opt.simplify.eliminate_equal_arrays import eliminate_equal_arrays


def node(label: str, *dims: int, role: Role = Role.RESULT) -> TNode:
    return TNode(label, role, lambda: dims, lambda: float32)


SOURCE = node("source", 5, 5, role=Role.STATE)
FIRST, SECOND, LAST = node("first"), node("second"), node("last")


def total(to: TNode, rows: str, columns: str, op: Op = ADD) -> Assign:
    """Reduces all cells of the source, or its diagonal if rows and columns are the same symbol."""
    syms = {name: Sym(name, 0, 4) for name in dict.fromkeys(rows + columns)}
    cell = Read(SOURCE, (Affine.of(syms[rows]), Affine.of(syms[columns])))
    return Assign(to, op, True, (Piece(tuple(syms.values()), (), cell),))


def put(to: TNode, value: Value) -> Assign:
    return Assign(to, None, True, (Piece((), (), value),))


def both() -> Assign:
    return put(LAST, Call(BY_NAME["mul"], (Read(FIRST, ()), Read(SECOND, ()))))


def change() -> Assign:
    i, j = Sym("i", 0, 4), Sym("j", 0, 4)
    at = (Affine.of(i), Affine.of(j))
    return Assign(SOURCE, None, True, (Piece((i, j), at, Call(BY_NAME["neg"], (Read(SOURCE, at),))),))


def reads(*code: Comp) -> str:
    """Returns the last statement of the optimized program."""
    proc = eliminate_dead_code(eliminate_equal_arrays(decide_placement(lower(Seq(code), "step"), {})))
    return print_proc(proc).splitlines()[-1].strip()


def test_alpha_equivalent_reductions_are_equal() -> None:
    assert reads(total(FIRST, "i", "j"), total(SECOND, "k", "l"), both()) == "last = first * first"


@pytest.mark.parametrize(
    ("first", "between", "second"),
    [
        (("i", "j"), (), ("i", "i")), (("i", "i"), (), ("i", "j")), (("i", "j"), (change,), ("i", "j")),
        (("i", "j"), (), ("i", "j", MAX)),
    ],
)  # fmt: skip
def test_different_arrays_are_not_equal(first: tuple[str, str], between: tuple, second: tuple) -> None:
    code = total(FIRST, *first), *(statement() for statement in between), total(SECOND, *second), both()
    assert reads(*code) == "last = first * second"


def test_a_write_invalidates_equality() -> None:
    overwrite = put(FIRST, Number(2))
    assert reads(total(FIRST, "i", "j"), total(SECOND, "i", "j"), overwrite, both()) == "last = first * second"
    update = Assign(FIRST, ADD, False, (Piece((), (), Number(2)),))
    assert reads(total(FIRST, "i", "j"), update, total(SECOND, "i", "j"), both()) == "last = first * second"
    repeated = Assign(SECOND, ADD, False, (Piece((), (), Number(2)),))
    assert reads(total(FIRST, "i", "j"), update, total(SECOND, "i", "j"), repeated, both()) == "last = first * first"


@pytest.mark.parametrize("is_written", [False, True])
def test_copies_of_unmodified_inputs(is_written: bool) -> None:
    x, copy = node("x", role=Role.STATE), node("copy")
    later = (put(x, Number(0)),) if is_written else ()
    square = put(LAST, Call(BY_NAME["mul"], (Read(copy, ()), Read(copy, ()))))
    assert reads(put(copy, Read(x, ())), *later, square) == f"last = {'copy * copy' if is_written else 'x * x'}"


def test_arrays_with_intermediate_reads_are_kept() -> None:
    middle = put(node("middle", role=Role.STATE), Read(SECOND, ()))
    updates = [Assign(target, ADD, False, (Piece((), (), Number(2)),)) for target in (FIRST, SECOND)]
    code = total(FIRST, "i", "j"), updates[0], total(SECOND, "i", "j"), middle, updates[1], both()
    assert reads(*code) == "last = first * second"


def test_zeros_of_different_sign_are_not_equal() -> None:
    first, second = (Call(BY_NAME["div"], (Read(SOURCE, (Affine(), Affine())), Number(zero))) for zero in (0.0, -0.0))
    assert reads(put(FIRST, first), put(SECOND, second), both()) == "last = first * second"
    assert reads(put(FIRST, first), put(SECOND, first), both()) == "last = first * first"


def test_an_unchanged_program_is_returned_by_identity() -> None:
    proc = decide_placement(lower(Seq((total(FIRST, "i", "j"), total(SECOND, "i", "i"), both())), "step"), {})
    assert eliminate_equal_arrays(proc) is proc
