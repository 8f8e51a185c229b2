from dataclasses import replace

import pytest

from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.assign import Assign, Call, Convert, Index, LabeledBlock, Number, Origin, Piece, Read, Seq
from ocannl.ir.canon import canonical
from ocannl.ir.ops import ADD, MAX, MUL
from ocannl.ir.precision import float16, float64
from ocannl.ir.tnode import Placement, Role


def text(code, keep_reasons=None):
    return canonical(code, keep_reasons or {}).text


def test_canonical_text(build):
    nodes, code = build.layer()
    assert text(LabeledBlock("a layer", code), {nodes["h"]: "keep="}).splitlines() == [
        'n0 "h" float32[2,3] result asked "keep="',
        'n1 "w" float32[3,4] param',
        'n2 "x" float32[2,4] param'.replace("param", "placeholder"),
        'n3 "y" float32[2,3] result',
        '{ "a layer"',
        "n0 add clear",
        " [0..1 0..2 0..3] +1l0,+1l1 <- mul(n1[+1l1,+1l2], n2[+1l0,+1l2])",
        "n3 store clear",
        " [0..1 0..2] +1l0,+1l1 <- relu(n0[+1l0,+1l1])",
        "}",
    ]


def test_equal_computations_have_equal_texts_and_matching_nodes(build):
    (first_nodes, first), (second_nodes, second) = build.layer(), build.layer()
    a, b = canonical(first, {}), canonical(second, {})
    assert a.text == b.text
    assert [n.label for n in a.nodes] == [n.label for n in b.nodes]
    assert set(a.nodes) == set(first_nodes.values()) and set(b.nodes) == set(second_nodes.values())


def test_names_of_loops_and_origins_do_not_matter(build):
    x, y = build.node("x", 3), build.result("y", 3)

    def code(name, where):
        i = Sym(name, 0, 2)
        return Assign(y, None, True, (Piece((i,), (Affine.of(i),), Read(x, (Affine.of(i),))),), Origin("y", where))

    assert text(code("i", "a.py:1")) == text(code("zebra", "b.py:2"))


def test_the_order_of_terms_does_not_follow_names(build):
    x, y = build.node("x", 9), build.result("y", 3, 3)

    def code(first, second):
        a, b = Sym(first, 0, 2), Sym(second, 0, 2)
        at = (Affine.of(a), Affine.of(b))
        return Assign(y, None, True, (Piece((a, b), at, Read(x, (Affine.sum([(3, a), (1, b)]),))),))

    assert text(code("a", "b")) == text(code("b", "a"))


def variants(build):
    """One computation in many small variations: no two are the same."""
    x, y, z = build.node("x", 4), build.result("y", 4), build.node("x", 4)
    i, n, m = Sym("i", 0, 3), build.static("n", 0, 4), build.static("n", 0, 5)
    at = (Affine.of(i),)
    kept = build.result("y", 4)
    kept.requested.set(Placement.KEPT, "keep(y)")
    temporary = build.result("y", 4)
    temporary.requested.set(Placement.TEMPORARY, "virtual(y)")

    def code(lhs=y, accum=ADD, clear=True, value=None, loops=(i,), at=at, when=None):
        value = Call(MUL, (Read(x, (Affine.of(i),)), Read(x, (Affine.of(i),)))) if value is None else value
        return Assign(lhs, accum, clear, (Piece(loops, at, value, *([when] if when else [])),))

    short = Sym("i", 0, 2)
    yield code()
    yield code(accum=MAX)
    yield code(accum=None)
    yield code(clear=False)
    yield code(lhs=build.result("other", 4))
    yield code(lhs=build.result("y", 4, precision=float16))
    yield code(lhs=build.node("y", 4, role=Role.STATE))
    yield code(lhs=build.result("y", 5))
    yield code(lhs=kept)
    yield code(lhs=temporary)
    yield code(when=Cond((Affine.of(i) - 1,)))
    yield code(when=Cond((), (Affine.of(i) - 1,)))
    yield code(value=Call(MUL, (Read(x, at), Read(z, at))))  # two nodes that look alike
    yield code(value=Call(ADD, (Read(x, at), Read(x, at))))
    yield code(value=Read(x, at))
    yield code(value=Read(x, at, merge=True))
    yield code(value=Read(x, at, outside=0.0))
    yield code(value=Read(x, at, outside=-0.0))
    yield code(value=Read(x, at, outside=float("nan")))
    yield code(value=Read(x, (Affine.of(i) * -1 + 3,)))
    yield code(value=Read(x, (Affine.of(n),)))
    yield code(value=Read(x, (Affine.of(m),)))
    yield code(value=Index(Affine.of(i)))
    yield code(value=Index(Affine.of(i) + 1))
    yield code(value=Number(1))
    yield code(value=Number(1.0))
    yield code(value=Number(-1.0))
    yield code(value=Convert(Read(x, at), float64))
    yield code(value=Convert(Read(x, at), float16))
    yield code(loops=(short,), at=(Affine.of(short),), value=Number(1))
    yield Seq((code(), code()))
    yield LabeledBlock("text", code())
    yield LabeledBlock("text\n}", code())
    yield LabeledBlock("other", code())
    yield LabeledBlock("text", Seq((code(), code())))
    yield Seq((LabeledBlock("text", code()), code()))
    yield replace(code(), pieces=code().pieces * 2)


def test_differences_change_the_text(build):
    texts = [text(code) for code in variants(build)]
    for n, text_ in enumerate(texts):
        assert text_ not in texts[:n], text_


def test_keep_reasons_change_the_text(build):
    nodes, code = build.layer()
    texts = {text(code), text(code, {nodes["h"]: "keep="}), text(code, {nodes["h"]: "forward"})}
    texts.add(text(code, {nodes["y"]: "keep="}))
    assert len(texts) == 4
    stranger = build.result("stranger", 3)
    assert text(code, {stranger: "keep="}) == text(code)


def test_hostile_label_is_escaped(build):
    x = build.node("x", 4)
    plain = build.result("y", 4)
    nasty = build.result('y" float32[4] result\nn1 "x', 4)
    assert text(build.pointwise(plain, "neg", x)).count("\n") == text(build.pointwise(nasty, "neg", x)).count("\n")


@pytest.mark.parametrize("count", [10])
def test_large_computation_is_fast_enough(build, count):
    """Not timed: that nothing is quadratic in an obvious way shows in the text's length."""
    x, y = build.node("x", 4), build.result("y", 4)
    single_length = len(text(build.pointwise(y, "neg", x)))
    total_length = len(text(Seq(tuple(build.pointwise(y, "neg", x) for _ in range(count)))))
    assert total_length < count * single_length
