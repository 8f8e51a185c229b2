"""The two traversals: order of visits, and what is left untouched stays the same object."""

from __future__ import annotations

from random import Random

from ocannl.ir import precision as P
from ocannl.ir.affine import Affine, Bound, Cond, Sym
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Cast,
    Comment,
    Const,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    MemorySpace,
    Ref,
    Store,
    Update,
    Var,
    When,
    loop,
)  # fmt: skip
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.walk import children, rewrite, rewrite_body, walk
from ocannl.lower.lower import lower
from ocannl.testing.random_programs import generate

I = Sym("i", 0, 3)
X = Buf("x", P.float32, (4,), (1,), MemorySpace.GLOBAL, AccessMode.INOUT)
AT = Ref(X, (Affine.of(I),))
LATER = Cond((Affine.of(I) - 1,))
UNIT, TWO = Const(1.0, P.float32), Const(2.0, P.float32)

EVERYTHING = (
    Comment("all there is"),
    loop(I, (
        Local(Buf("a", P.float32, (), (), MemorySpace.LOCAL, AccessMode.TEMP), 0),
        Let("v", Apply(ADD, (Load(AT), Cast(IndexValue(Affine.of(I), P.int32), P.float32)))),
        If(LATER, (Store(AT, When(LATER, Var("v", P.float32), UNIT)),), (Comment(""),)),
        Update(AT, ADD, Apply(MUL, (Load(AT), UNIT))),
    )),
)  # fmt: skip


def test_walk_meets_everything_in_the_order_of_the_program() -> None:
    names = [type(node).__name__ for node in walk(EVERYTHING)]
    assert " ".join(names) == (
        "Comment For Local Let Apply Load Cast IndexValue If Store When Var Const Comment Update Apply Load Const"
    )


def test_rewriting_nothing_gives_the_same_object() -> None:
    assert rewrite_body(EVERYTHING, lambda node: node) is EVERYTHING
    for seed in range(100):
        body = lower(generate(Random(seed)).code, "p").body
        assert rewrite_body(body, lambda node: node) is body


def test_rewriting_a_leaf_changes_only_the_way_to_it() -> None:
    new = rewrite_body(EVERYTHING, lambda node: TWO if node is UNIT else node)
    assert new is not EVERYTHING and new[0] is EVERYTHING[0]
    same = [a is b for a, b in zip(children(new[1]), children(EVERYTHING[1]), strict=True)]
    assert same == [True, True, False, False]
    assert sum(node is TWO for node in walk(new)) == 2 and not any(node is UNIT for node in walk(new))


def test_rewriting_goes_from_the_leaves_up() -> None:
    order: list[str] = []

    def note(node: object) -> object:
        order.append(type(node).__name__)
        return node

    rewrite(Apply(ADD, (Load(AT), Cast(UNIT, P.float32))), note)  # type: ignore[arg-type]
    assert order == ["Load", "Const", "Cast", "Apply"]


def test_origins_and_steps_survive() -> None:
    stmt = loop(I, (Store(AT, UNIT),))
    new = rewrite(stmt, lambda node: TWO if node is UNIT else node)
    assert (new.sym, new.lo, new.hi, new.step) == (I, Bound.lower(0), Bound.upper(4), 1)
