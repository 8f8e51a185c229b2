"""Which rule puts a node where, and requests that contradict."""

from __future__ import annotations

import pytest

from ocannl.base.errors import CodeError
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Call, Comp, Piece, Read, Seq, nodes
from ocannl.ir.loops import AccessMode, MemorySpace
from ocannl.ir.ops import ADD, BY_NAME
from ocannl.ir.precision import float32
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.lower.lower import lower
from ocannl.opt.memory.decide_placement import decide_placement

KEPT, TEMPORARY = Placement.KEPT, Placement.TEMPORARY


def node(label: str, role: Role = Role.RESULT) -> TNode:
    return TNode(label, role, lambda: (3,), lambda: float32)


def put(lhs: TNode, *reads: TNode, clear: bool = True, accumulate: bool = False) -> Assign:
    i = Sym("i", 0, 2)
    at = (Affine.of(i),)
    value = Read(reads[0], at)
    total = value if len(reads) == 1 else Call(ADD, (value, Read(reads[1], at)))
    return Assign(lhs, ADD if accumulate else None, clear, (Piece((i,), at, total),))


def decided(code: Comp, keep_reasons: dict[TNode, str] | None = None) -> dict[str, tuple[Placement, str]]:
    proc = decide_placement(lower(code, "step"), keep_reasons or {})
    facts = {fact.node.label: (fact.placement, fact.pass_name) for fact in proc.facts}
    for buf in proc.bufs:
        if buf.node is not None and buf.access is not AccessMode.MERGE:
            assert (buf.space is MemorySpace.GLOBAL) == (facts[buf.node.label][0] is KEPT)
    assert [f.node for f in proc.facts] == [b.node for b in proc.bufs if b.node]
    return facts


@pytest.mark.parametrize(
    ("role", "author"),
    [
        (Role.DATA, "constant data"), (Role.PARAMETER, "parameter"), (Role.PLACEHOLDER, "placeholder"),
        (Role.STATE, "state"),
    ],
)  # fmt: skip
def test_roles_that_are_kept(role: Role, author: str) -> None:
    special, y = node("special", role), node("y")
    if role is not Role.DATA:
        assert decided(Seq((put(special, node("x")), put(y, special))))["special"] == (KEPT, author)
    assert decided(put(y, special))["special"] == (KEPT, author)


def test_what_only_the_routine_sees_is_temporary() -> None:
    x, h, y = node("x"), node("h"), node("y")
    facts = decided(Seq((put(h, x), put(y, h))))
    assert facts == {
        "x": (KEPT, "read before it is written"),
        "h": (TEMPORARY, "read only inside `step`"),
        "y": (KEPT, "written and not read later"),
    }


def test_gradients_of_parameters_are_temporary_once_the_update_took_them() -> None:
    w, x = node("w", Role.PARAMETER), node("x", Role.DATA)
    grad = TNode("", Role.GRADIENT, lambda: (3,), lambda: float32, gradient_of=w)
    update = put(w, grad, clear=False, accumulate=True)
    facts = decided(Seq((put(grad, x), update)))
    assert facts["w.grad"] == (TEMPORARY, "read only inside `step`")
    assert decided(put(grad, x))["w.grad"] == (KEPT, "written and not read later")


def test_reading_what_a_statement_itself_writes_is_not_reading_it_later() -> None:
    x, h = node("x"), node("h")
    facts = decided(Seq((put(h, x), put(h, h, x))))
    assert facts["h"] == (KEPT, "written and not read later")


def test_a_sum_into_what_was_there_comes_from_outside() -> None:
    x, h, y = node("x"), node("h"), node("y")
    facts = decided(Seq((put(h, x, clear=False, accumulate=True), put(y, h))))
    assert facts["h"] == (KEPT, "read before it is written")


def test_what_is_asked_for_is_kept_and_says_by_whom() -> None:
    x, h, y = node("x"), node("h"), node("y")
    code = Seq((put(h, x), put(y, h)))
    assert decided(code, {h: "keep="})["h"] == (KEPT, "keep=")
    assert decided(code, {h: "result of forward"})["h"] == (KEPT, "result of forward")


def test_requests_win_over_rules() -> None:
    x, h, y = node("x"), node("h"), node("y")
    h.requested.set(KEPT, "oc.keep")
    y.requested.set(TEMPORARY, "oc.virtual")
    facts = decided(Seq((put(h, x), put(y, h))))
    assert facts["h"] == (KEPT, "oc.keep")
    assert facts["y"] == (TEMPORARY, "oc.virtual")


@pytest.mark.parametrize(
    ("requested", "incoming", "why"),
    [("keep=", False, "keep="), (None, True, "it is read before it is written")],
)
def test_contradictions_name_both_authors(requested: str | None, incoming: bool, why: str) -> None:
    x, h, y = node("x"), node("h"), node("y")
    h.requested.set(TEMPORARY, "oc.virtual")
    code = put(y, h) if incoming else Seq((put(h, x), put(y, h)))
    with pytest.raises(CodeError) as caught:
        decide_placement(lower(code, "step"), {h: requested} if requested else {})
    assert str(caught.value) == (
        f"the placement of `h` is temporary, settled by oc.virtual; `step` has to keep it: {why}"
    )


def test_merge_buffers_are_not_settled() -> None:
    p = node("p")
    i = Sym("i", 0, 2)
    at = (Affine.of(i),)
    code = Assign(p, ADD, False, (Piece((i,), at, Call(BY_NAME["id"], (Read(p, at, merge=True),))),))
    proc = decide_placement(lower(code, "step"), {})
    assert [fact.node for fact in proc.facts] == list(nodes(code)) == [p]
    assert [b.access for b in proc.bufs if b.node is p and b.access is AccessMode.MERGE] == [AccessMode.MERGE]
