"""Sizes captured by name, constrained and read."""

from __future__ import annotations

import pytest

from ocannl.base.errors import ShapeError
from ocannl.infer.capture import Capture


def captured(net, spec, *operands, **sizes):
    names = dict.fromkeys(name for name in spec if name.isalpha())
    captures = {name: Capture(name) for name in names if name not in sizes}
    return net.einsum(spec, *operands, captures=captures, **sizes), captures


def test_a_captured_label_has_the_size_of_the_axis(net):
    """VR-01"""
    _, of = captured(net, "b|ij => ji", net.x("2|5,7"))
    assert [of[name].value for name in "bij"] == [2, 5, 7]


def test_reading_finishes_inference(net):
    w = net.param("w")
    y, of = captured(net, "i->o; i => o", w, net.x("4"))
    net.add(y, net.x("6", "k"))
    assert of["o"].known is None and of["i"].known == 4
    assert of["o"].value == 6 and str(w) == "4->6"


def test_setting_constrains(net):
    """VR-11, VR-13"""
    ws = net.param("a", "?"), net.param("b", "?")
    y, of = captured(net, "pqr; rst => pqst", *ws)
    for name, size in zip("pqrst", (4, 5, 6, 5, 4), strict=True):
        of[name].set(size)
    assert net.shapes(*ws, y) == ["4,5,6", "6,5,4", "4,5,5,4"]


def test_setting_before_binding(net):
    d = Capture("d")
    d.set(4)
    d.set(4)
    assert d.value == 4 and not d.is_bound
    w = net.param("w")
    net.einsum("i; i->hd => hd", net.x("12"), w, captures={"d": d}, h=3)
    assert str(w) == "12->3,4" and d.is_bound


def test_equal_sizes(net):
    """VR-03"""
    v, w = Capture("v"), Capture("w")
    x, y = net.x("?", "x"), net.x("?", "y")
    net.einsum("v => v", x, captures={"v": v})
    net.einsum("w => w", y, captures={"w": w})
    v.equal(w)
    v.set(42)
    assert (w.value, str(y), str(x)) == (42, "42", "42")


def test_a_query_of_either_of_two_equal_sizes_decides_both(net):
    v, w = Capture("v"), Capture("w")
    x, y = net.x("?", "x"), net.x("?", "y")
    net.einsum("v => v", x, captures={"v": v})
    z = net.einsum("w => w", y, captures={"w": w})
    v.equal(w)
    net.add(z, result=net.x("3", "k"))
    assert (v.value, str(x)) == (3, "3")


def test_scaled_sizes(net):
    """VR-15, VR-17, VR-19"""
    k, i = Capture("k"), Capture("i")
    k.scale(i, 2)
    i.set(4)
    assert k.value == 8
    k, i = Capture("k"), Capture("i")
    i.set(8)
    k.set(17)
    net.refuses(r"the sizes in `k = 2\*i` make 2 \* 8, but `k` is 17", k.scale, i, 2)
    net.refuses("`k` cannot be 0 times `i`: the factor is a number from 1", k.scale, i, 0)
    assert (k.value, i.value) == (17, 8)


@pytest.mark.parametrize("bad", [-1, True, 2.0, "3", None], ids=repr)
def test_invalid_sizes_are_refused(bad):
    with pytest.raises(ShapeError, match="`d` cannot be .*: it is a size"):
        Capture("d").set(bad)


def test_contradictions_are_taken_back(net):
    d = Capture("d")
    net.einsum("d => d", net.x("10"), captures={"d": d})
    message = net.refuses("output axis 1 of `x` is 10, but `d` is 4", d.set, 4)
    assert "placeholder, model.py" in message
    e = Capture("e")
    e.set(3)
    net.refuses("output axis 1 of `x` is 10, but `e` is 3", d.equal, e)
    assert not e.peers and not d.peers
    assert (d.value, e.value) == (10, 3)


def test_a_size_that_nothing_tells(net):
    with pytest.raises(ShapeError, match="nothing says what `d` is\n(?s:.*)capture it from a spec, or set it"):
        Capture("d").value  # noqa: B018


def test_names_that_a_spec_lacks_are_refused(net):
    """EP-36"""
    message = r"`j` is not a name of `s\*i => i`, which has `i`, `s`"
    net.refuses(message, net.einsum, "s*i => i", net.x("4"), j=2, s=2)
    net.refuses("`j` is not a name", net.einsum, "i => i", net.x("4"), captures={"j": Capture("j")})
    net.refuses("`s` is a coefficient", net.einsum, "s*i => i", net.x("4"), s=2, captures={"s": Capture("s")})
    net.refuses("`i` cannot be -1", net.einsum, "i => i", net.x("4"), i=-1)
    net.refuses("`i` cannot be True", net.einsum, "i => i", net.x("1"), i=True)
