"""Stores that updates are put into, and what forbids it."""

from __future__ import annotations

import pytest

from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.assign import Assign, Call, Comp, Number, Piece, Read, Seq, Value
from ocannl.ir.ops import ADD, AND, BY_NAME, MUL, Op
from ocannl.ir.precision import float32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.lower.lower import lower
from ocannl.opt.fusion.merge_initialization import merge_initialization


def node(label: str, *dims: int) -> TNode:
    return TNode(label, Role.STATE, lambda: dims, lambda: float32)


X, Y, Z, G = node("x", 5), node("y", 5), node("z", 5), node("g", 5)


def put(lhs: TNode, value: TNode | float, accum: Op | None = None, *, when: Cond = TRUE, shift: int = 0) -> Assign:
    i = WHERE if when is not TRUE else Sym("i", 0, lhs.dims[0] - 1)
    at = (Affine.of(i),)
    read: Value = Read(value, at, 0.0 if shift else None) if isinstance(value, TNode) else Number(value)
    return Assign(lhs, accum, False, (Piece((i,), at, read, when),))


WHERE = Sym("i", 0, 4)


def left(*code: Comp) -> list[str]:
    proc = merge_initialization(lower(Seq(code), "step"))
    lines = [line.strip() for line in print_proc(proc).splitlines()[1:] if " : " not in line]
    return [line for line in lines if not line.startswith("for ")]


def test_a_gradient_from_two_uses() -> None:
    assert left(put(G, 0), put(G, X, ADD), put(G, Y, ADD)) == ["g[i_3] = x[i_3] + y[i_3]"]


def test_any_store_of_all_cells_will_do() -> None:
    assert left(put(G, Z), put(G, X, MUL)) == ["g[i_2] = z[i_2] * x[i_2]"]
    assert left(put(G, 1), put(G, X, AND)) == ["g[i_2] = 1 && x[i_2]"]  # which is 0 or 1, and `x` need not be


def test_behind_a_condition_only_numbers_go_twice() -> None:
    positive = Cond((Affine.of(WHERE) - 1,))
    assert left(put(G, 0), put(G, X, ADD, when=positive)) == ["g[i_2] = x[i_2] if i_2-1 >= 0 else 0"]
    assert left(put(G, Z), put(G, X, ADD, when=positive)) == ["g[i] = z[i]", "if i_2-1 >= 0:", "g[i_2] += x[i_2]"]


@pytest.mark.parametrize(
    ("between", "why"),
    [
        (put(Y, G), "it reads the cells"),
        (put(Z, 1), "it changes what the first value reads"),
        (put(G, X, MUL, when=Cond((Affine.of(WHERE) - 1,))), "it changes the cells"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_stands_between(between: Assign, why: str) -> None:
    assert left(put(G, Z), between, put(G, X, ADD))[0] == "g[i] = z[i]"


def part(lhs: TNode, loops: tuple[Sym, ...], at: tuple[Affine, ...], value: Value, accum: Op | None = None) -> Assign:
    return Assign(lhs, accum, False, (Piece(loops, at, value),))


def test_a_diagonal_among_zeros_and_a_column_over_it() -> None:
    wide, i = node("wide", 5, 3), Sym("i", 0, 2)
    j, k = Sym("j", 0, 4), Sym("k", 0, 2)
    all_ = Assign(wide, None, False, (Piece((j, k), (Affine.of(j), Affine.of(k)), Number(0)),))
    diagonal = part(wide, (i,), (Affine.of(i), Affine.of(i)), Read(X, (Affine.of(i),)), ADD)
    assert left(all_, diagonal) == ["wide[j, k] = x[j] if -j+2 >= 0 && j-k == 0 else 0"]
    column = part(wide, (WHERE,), (Affine.of(WHERE), Affine((), 2)), Read(Y, (Affine.of(WHERE),)))
    assert left(all_, diagonal, column) == ["wide[j, k] = y[j] if -k+2 == 0 else x[j] if -j+2 >= 0 && j-k == 0 else 0"]
    other = part(wide, (WHERE,), (Affine.of(WHERE), Affine((), 1)), Read(Y, (Affine.of(WHERE),)), ADD)
    assert left(all_, column, other) == ["wide[j, k] = y[j] if -k+1 == 0 else y[j] if -k+2 == 0 else 0"]
    assert len(left(all_, diagonal, other)) == 2  # the diagonal would stand there twice


def test_what_exists_in_a_part_alone_stays_apart_from_its_neighbours() -> None:
    wide, i = node("wide", 5, 5), Sym("i", 0, 2)
    j, k = Sym("j", 0, 4), Sym("k", 0, 4)
    source = node("source", 5, 5)
    all_ = Assign(wide, None, False, (Piece((j, k), (Affine.of(j), Affine.of(k)), Number(0)),))
    rows = part(wide, (i, WHERE), (Affine.of(i) + 1, Affine.of(WHERE)), Read(source, (Affine.of(i), Affine.of(WHERE))))
    assert left(all_, rows) == ["wide[j, k] = source[j-1, k] if j-1 >= 0 && -j+3 >= 0 else 0"]
    same = Read(source, (Affine.of(WHERE), Affine.of(i)))
    columns = part(wide, (WHERE, i), (Affine.of(WHERE), Affine.of(i) + 1), same)
    assert len(left(all_, columns)) == 2


def test_steps_and_dear_values_stay_apart() -> None:
    i = Sym("i", 0, 1)
    steps = part(G, (i,), (Affine.of(i) * 2 + 1,), Read(X, (Affine.of(i),)))
    assert len(left(put(G, 0), steps)) == 2
    dear = part(G, (i,), (Affine.of(i),), Call(BY_NAME["exp"], (Read(X, (Affine.of(i),)),)))
    assert len(left(put(G, 0), dear)) == 2


def test_an_update_that_reads_the_cells_itself() -> None:
    i = Sym("i", 0, 4)
    at = (Affine.of(i),)
    square = Assign(G, ADD, False, (Piece((i,), at, Call(BY_NAME["mul"], (Read(G, at), Read(G, at)))),))
    assert left(put(G, Z), square)[0] == "g[i] = z[i]"


def test_sums_are_left_to_the_schedule() -> None:
    i, k = Sym("i", 0, 4), Sym("k", 0, 2)
    wide = node("wide", 5, 3)
    total = Assign(G, ADD, False, (Piece((i, k), (Affine.of(i),), Read(wide, (Affine.of(i), Affine.of(k)))),))
    assert left(put(G, 0), put(G, X, ADD), total) == ["g[i_2] = x[i_2]", "g[i_3] += wide[i_3, k]"]


def test_expressions_stop_growing() -> None:
    code = [put(G, 0), *(put(G, node(f"x{n}", 5), ADD) for n in range(100))]
    first, *updates = left(*code)
    assert 20 <= first.count(" + ") <= 40
    assert len(updates) + first.count(" + ") == 99


def test_nothing_to_do_is_the_same_program() -> None:
    proc = lower(Seq((put(G, Z), put(Y, X))), "step")
    assert merge_initialization(proc) is proc
