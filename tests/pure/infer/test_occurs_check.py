"""Rows that would have to be longer than themselves: refused with the operation that closes the cycle."""

from __future__ import annotations

from itertools import permutations

import pytest

ORDERS = [*permutations(range(3))]


@pytest.mark.parametrize("order", ORDERS)
def test_a_cycle_of_equalities_is_refused_at_once_in_every_order(net, order):
    a, b, c = (net.x("?", name) for name in "abc")
    says = [
        lambda: net.einsum("i, ... => ..., i", a, result=b),
        lambda: net.einsum("..., i => i, ...", b, result=c),
        lambda: net.einsum("i, j, ... => ..., j", c, result=a),
    ]
    for n in order[:2]:
        says[n]()
    text = net.refuses("1 axis longer than itself", says[order[2]])
    assert all(f"  {name}  " in text for name in "abc"), text


@pytest.mark.parametrize("order", ORDERS)
def test_a_cycle_of_inequalities_is_refused_at_once_in_every_order(net, order):
    a, b, c, d = (net.x("?", name) for name in "abcd")
    net.add(d, net.x("3", "e"))
    says = [
        lambda: net.add(a, d, result=b),
        lambda: net.einsum("... => ..., i", b, result=c),
        lambda: net.add(c, result=a),
    ]
    for n in order[:2]:
        says[n]()
    text = net.refuses("1 axis longer than itself", says[order[2]])
    assert all(f"  {name}  " in text for name in "abc"), text


def test_tensors_beside_the_cycle_are_not_named(net):
    a, b, c = (net.x("?", name) for name in "abc")
    for _ in range(5):
        c = net.add(c, a)
    net.einsum("... => ..., i", a, result=b)
    text = net.refuses("longer than itself", net.add, b, result=a)
    assert text.count("  in   ") == 2 and "  c" not in text, text


def test_the_rows_of_a_square_tensor_are_equal(net):
    w = net.leaf("w", "?->?", square=True)
    net.refuses("row of `w` would have to be 1 axis longer", net.einsum, "..v..->..v.., i => i", w)


@pytest.mark.parametrize("order", ORDERS)
def test_equal_rows_are_balanced(net, order):
    """An axis in front and two axes behind in equal rows: the first row has one of the latter."""
    x, front, behind = (net.x("?", name) for name in ("x", "front", "behind"))
    says = [
        lambda: net.einsum("i, ... => ...", x, result=front),
        lambda: net.einsum("..., i, j => ...", x, i=3, j=4, result=behind),
        lambda: net.einsum("... => ..., i", behind, i=5),
    ]
    for n in order:
        says[n]()
    assert front.known == "...,4"
    assert net.shapes(x, front, behind) == ["3,4", "4", ""]


def test_a_long_row_is_not_endless(net):
    net.refuses("a row has at most 64", net.add, net.x("?"), net.x(",".join("2" * 65)))
