"""Projections, checked by interpreting the boxes on arrays."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import pytest

from ocannl.infer.logic import COMPOSE, COMPOSE_ACCUMULATE, TRANSPOSE, einsum, pointwise, slice_batch
from ocannl.infer.parse import parse
from ocannl.infer.project import project
from ocannl.ir.affine import Sym, SymKind
from ocannl.ir.projections import is_injective, is_surjective


def run(projections, *arrays, reduce=np.add, combine=np.multiply, neutral=0.0, symbols=None):
    """Interprets the boxes one iteration at a time; arrays are in memory order."""
    result = np.full(projections.result_dims, neutral)
    assert projections.operand_dims == tuple(a.shape for a in arrays)
    for piece in projections.pieces:
        for values in itertools.product(*(range(loop.lo, loop.hi + 1) for loop in piece.loops)):
            at = {**(symbols or {}), **dict(zip(piece.loops, values, strict=True))}
            read = []
            for indices, array in zip(piece.operands, arrays, strict=True):
                if indices is not None:
                    cell = tuple(index.evaluate(at) for index in indices)
                    inside = all(0 <= i < size for i, size in zip(cell, array.shape, strict=True))
                    read.append(array[cell] if inside else neutral)
            cell = tuple(index.evaluate(at) for index in piece.result)
            term = read[0]
            for factor in read[1:]:
                term = combine(term, factor)
            result[cell] = reduce(result[cell], term)
    return result


def grid(*dims):
    """0, 1, 2, ... in memory order."""
    return np.arange(prod(dims), dtype=float).reshape(dims)


def filled(net, rows, name="x"):
    x = net.x(rows, name)
    return x, grid(*x.dims)


def value(net, spec, *rows, sizes=None, arrays=None, **how):
    operands = [filled(net, row, f"x{n}") for n, row in enumerate(rows)]
    logic = einsum(parse(spec))
    result = net.relate(logic, *(x for x, _ in operands), text=spec, sizes=sizes or {})
    projected = project(logic, [x for x, _ in operands], result, sizes=sizes or {})
    return str(result), run(projected, *(arrays or [a for _, a in operands]), **how)


# --- values of specs --------------------------------------------------------------------------------------------------

EINSUMS = [
    ("b|i->o => o|b->i", ["2|3->4"], "4|2->3", lambda x: x.transpose(1, 2, 0)),  # EI-01
    ("b|i->o => b|i", ["2|3->4"], "2|3", lambda x: x.sum(1)),  # EI-03
    ("i; j => i->j", ["2", "3"], "2->3", lambda x, y: np.outer(y, x)),  # EI-05
    ("b|i->o;b|i->o=>b|i->o", ["2|3->4", "2|3->4"], "2|3->4", lambda x, y: x * y),  # EI-07
    (
        "a|i->h; b|h->o => ab|i->o", ["3|2->4", "2|4->5"], "3,2|2->5",
        lambda x, y: np.einsum("ahi,boh->aboi", x, y),
    ),  # EI-09
    ("a|i->h; b|h->o => i->o", ["3|2->4", "2|4->5"], "2->5", lambda x, y: np.einsum("ahi,boh->oi", x, y)),  # EI-11
    (
        "...b|...i->...o => ...i|...o->...b", ["2,3|4,5->6,7"], "2,5|4,7->6,3",
        lambda x: np.einsum("abcdef->afcbed", x),
    ),  # EI-13
    ("...|...->...o => o", ["3,4"], "4", lambda x: x.sum(0)),  # EI-15
    (
        "...|i->...; ...|...->i => ...|i", ["3|4->2", "3|1->4"], "3|4",
        lambda x, y: np.einsum("boi,bij->bi", x, y),
    ),  # EI-17
    ("i->...;j->... => ...ij", ["2->3", "4->3"], "3,2,4", lambda x, y: np.einsum("oi,oj->oij", x, y)),  # EI-19
    ("...|...->... => ...|...->0", ["2|3->4"], "2|3->1", lambda x: x.sum(1)[:, None]),  # EI-21
    (
        "...|i->1; ...|j...->i => ...|ij", ["3|4->2", "3|2,3->4"], "3|4,2",
        lambda x, y: np.einsum("bi,bijk->bij", x[:, 1], y),
    ),  # EI-23
    ("bij;bjk;bkm=>bim", ["1,2,2", "1,2,2", "1,2,2"], "1,2,2", lambda x, y, z: x @ y @ z),  # EI-29
    ("ii => i", ["3,3"], "3", np.diag),
    ("i => ii", ["3"], "3,3", np.diag),  # PJ-11
    ("ij => ji", ["3,4"], "4,3", np.transpose),  # PJ-13
    ("2...|...->... => ...|...->...", ["3,2|4"], "2|4", lambda x: x[2]),
    ("...|... => ...|...2", ["2|3"], "2|3,3", lambda x: np.stack([0 * x, 0 * x, x], -1)),
    ("_, _ => 0", ["2,3"], "1", lambda x: x.sum()[None]),
    ("i, _ ; _ => i", ["2,3", "4"], "2", lambda x, y: x.sum(1) * y.sum()),
    ("(h d) => h, d", ["12"], "4,3", lambda x: x.reshape(4, 3)),
    ("h, d => (d h)", ["4,3"], "12", lambda x: x.T.reshape(-1)),
    ("2*o+wh => o, wh", ["6"], "3,2", lambda x: x.reshape(3, 2)),
    ("o, wh => 2*o+wh", ["3,2"], "6", lambda x: x.reshape(6)),  # PJ-09
    ("i => 2*i", ["3"], "6", lambda x: np.stack([x, 0 * x], 1).reshape(-1)),  # CV-21
    ("2*i+1 => i", ["6"], "3", lambda x: x[1::2]),
    ("i+3 => i", ["5"], "2", lambda x: x[3:]),
    ("o<+k; k => o", ["9", "3"], "7", lambda x, k: np.correlate(x, k, "valid")),
    ("o=+k; k => o", ["9", "3"], "9", lambda x, k: np.correlate(x, k, "same")),
    ("o=+k; k => o", ["4", "2"], "4", lambda x, k: np.correlate(np.r_[0, x], k, "valid")),  # CV-09
    ("2*o=+k; k => o", ["8", "3"], "4", lambda x, k: np.correlate(x, k, "same")[::2]),
    ("o<+2*k; k => o", ["9", "3"], "5", lambda x, k: sum(x[2 * j : 2 * j + 5] * k[j] for j in range(3))),
    ("o<+1+k; k => o", ["9", "3"], "6", lambda x, k: np.correlate(x[1:], k, "valid")),
    ("x, ...; y, ... => x^y, ...", ["2,3", "4,3"], "6,3", lambda x, y: np.vstack([x, y])),
    ("x; y; z => x^y^z", ["2", "1", "3"], "6", lambda *xs: np.concatenate(xs)),
    ("2^y, ... => y, ...", ["6,3"], "4,3", lambda x: x[2:]),
    ("x^y => y", ["6"], "6", lambda x: x),
    ("x, ... => 1^x, ...", ["2,3"], "3,3", lambda x: np.vstack([np.zeros((1, 3)), x])),
    (
        "a,c; b,c; a,d; b,d => a^b, c^d", ["2,3", "1,3", "2,4", "1,4"], "3,7",
        lambda p, q, r, s: np.block([[p, r], [q, s]]),
    ),
]  # fmt: skip


SIZES = {"(h d) => h, d": {"d": 3}, "2*o+wh => o, wh": {"o": 3, "wh": 2}}


@pytest.mark.parametrize(("spec", "rows", "shape", "want"), EINSUMS, ids=[e[0] for e in EINSUMS])
def test_the_value_of_a_spec(net, spec, rows, shape, want):
    got = value(net, spec, *rows, sizes=SIZES.get(spec, {}))
    assert got[0] == shape
    np.testing.assert_allclose(got[1], want(*(filled(net, row)[1] for row in rows)))


def test_numbers_of_upstream(net):
    """EI-01, EI-03, EI-09, EI-17"""
    first = value(net, "b|i->o => o|b->i", "2|3->4")[1][0]
    assert first.T[:, :3].tolist() == [[0, 1, 2], [12, 13, 14]]
    assert value(net, "b|i->o => b|i", "2|3->4")[1].tolist() == [[18, 22, 26], [66, 70, 74]]
    cell = value(net, "a|i->h; b|h->o => ab|i->o", "2|3->4", "2|4->5")[1][0, 1].T
    assert cell[0].tolist() == [402, 474, 546, 618, 690]
    got = value(net, "...|i->...; ...|...->i => ...|i", "3|4->2", "3|1->4")[1]
    assert got.tolist() == [[0, 6, 16, 30], [80, 110, 144, 182], [288, 342, 400, 462]]


def test_maximum_over_a_window(net):
    """CV-13"""
    how = {"reduce": np.maximum, "neutral": -np.inf}
    shape, got = value(net, "2*oh<+wh, 2*ow<+ww, c; wh, ww => oh, ow, c", "4,4,3", "2,2", combine=lambda a, _: a, **how)
    assert shape == "2,2,3"
    assert got.tolist() == [[[15, 16, 17], [21, 22, 23]], [[39, 40, 41], [45, 46, 47]]]


def test_the_tropical_product_of_a_window(net):
    """CV-15"""
    spec = "2*oh<+kh, 2*ow<+kw; kh, kw => oh, ow"
    _, got = value(net, spec, "4,4", "2,2", reduce=np.maximum, combine=np.add, neutral=-np.inf)
    assert got.tolist() == [[8, 10], [16, 18]]


# --- built-in logic ---------------------------------------------------------------------------------------------------


def built(net, logic, *rows, **how):
    operands = [filled(net, row, f"x{n}") for n, row in enumerate(rows)]
    result = net.relate(logic, *(x for x, _ in operands))
    projected = project(logic, [x for x, _ in operands], result)
    return projected, str(result), run(projected, *(a for _, a in operands), **how), [a for _, a in operands]


def test_composition_contracts_input_with_output(net):
    projected, shape, got, (w, x) = built(net, COMPOSE, "4->2,3", "5|4")
    assert shape == "5|2,3"
    np.testing.assert_allclose(got, np.einsum("pqk,bk->bpq", w, x))
    (piece,) = projected.pieces
    assert [loop.name for loop in piece.loops] == ["b0", "o0", "o1", "k0"]


def test_composition_stretches(net):
    _, shape, got, (w, x) = built(net, COMPOSE, "1,5|4->3", "2,1|7->4")
    assert shape == "2,5|7->3"
    np.testing.assert_allclose(got, np.einsum("bok,akn->abon", w[0], x[:, 0]))


def test_composition_sums_over_an_axis_that_the_second_operand_lacks(net):
    _, shape, got, (w, x) = built(net, COMPOSE, "2,4->3", "4")
    assert shape == "3"
    np.testing.assert_allclose(got, np.einsum("oak,k->o", w, x))


def test_composition_accumulates(net):
    _, shape, got, (w, x, b) = built(net, COMPOSE_ACCUMULATE, "4->3", "5|4", "3", combine=lambda a, b: a * b)
    assert shape == "5|3"
    np.testing.assert_allclose(got, (x @ w.T) * b)


def test_transposition(net):
    _, shape, got, (x,) = built(net, TRANSPOSE, "2|3->4,5")
    assert shape == "2|4,5->3"
    np.testing.assert_allclose(got, x.transpose(0, 3, 1, 2))


def test_pointwise_operands_stand_still_where_they_are_stretched(net):
    """S30: the gap of a row decides which of its axes meet which"""
    projected, shape, got, (x, y, z) = built(net, pointwise(3), "2|3,1", "4", "")
    assert shape == "2|3,4"
    np.testing.assert_allclose(got, x * y * z)
    (piece,) = projected.pieces
    assert [[str(i) for i in indices] for indices in piece.operands] == [["b0", "o0", "0"], ["o1"], []]


def test_a_row_is_stretched_in_front(net):
    """For results of any spec: `i` meets the last axis but one, as in NumPy."""
    spec_result, x = net.einsum("i, ..v.., j => i, ..v.., j", net.x("5,7")), net.x("2,5,7")
    y = net.add(spec_result, x)
    assert str(y) == "2,5,7"
    projected = project(pointwise(2), [spec_result, x], y)
    assert [str(i) for i in projected.pieces[0].operands[0]] == ["o1", "o2"]
    net.refuses("2", lambda: net.add(net.einsum("i, ..v.. => i, ..v..", net.x("2")), x))


@pytest.mark.parametrize("index", [2, "symbol"])
def test_a_slice_of_the_leftmost_batch_axis(net, index):
    n = Sym("n", 0, 3, SymKind.STATIC)
    logic = slice_batch(n if index == "symbol" else index)
    x, array = filled(net, "4,5|2->3")
    y = net.relate(logic, x)
    assert str(y) == "5|2->3"
    np.testing.assert_allclose(run(project(logic, [x], y), array, symbols={n: 2}), array[2])


def test_a_slice_waits_for_the_row(net):
    x, n = net.x("?|"), Sym("n", 0, 9, SymKind.STATIC)
    y = net.relate(slice_batch(n), x)
    net.add(y, net.x("5|", "k"))
    assert net.shapes(y, x) == ["5|", "10,5|"]
    net.refuses("batch axis 1 of `z` is 4, but it is indexed up to 9", net.relate, slice_batch(n), net.x("4|", "z"))
    net.refuses("a slice.*the batch row of `z` is empty", net.relate, slice_batch(0), net.x("4", "z"))


# --- loops ------------------------------------------------------------------------------------------------------------


def test_axes_of_size_1_have_no_loop(net):
    """PJ-15"""
    projected, *_ = built(net, einsum(parse("ijk => ki")), "1,3,1")
    (piece,) = projected.pieces
    assert [loop.name for loop in piece.loops] == ["j"]
    assert [str(i) for i in piece.result] == ["0", "0"]


def test_axes_of_size_zero_have_an_empty_loop(net):
    projected, shape, got, _ = built(net, einsum(parse("ij => i")), "3,0")
    assert shape == "3" and [loop.extent for loop in projected.pieces[0].loops] == [3, 0]
    assert got.tolist() == [0, 0, 0]


def test_loops_of_the_result_come_first_in_memory_order(net):
    projected, *_ = built(net, einsum(parse("a|i->h; b|h->o => ba|i->o")), "3|2->4", "2|4->5")
    assert [loop.name for loop in projected.pieces[0].loops] == ["b", "a", "o", "i", "h"]


def test_names_of_loops_are_unique_in_an_operation(net):
    projected, *_ = built(net, einsum(parse("b0, ..b.., _, _ => ..b.., b0")), "2,3,4,5")
    names = [loop.name for loop in projected.pieces[0].loops]
    assert len(set(names)) == len(names) == 4
    x, y = net.x("2,3"), net.x("4,3", "y")
    logic = einsum(parse("x, ...; y, ... => x^y, ..."))
    projected = project(logic, [x, y], net.relate(logic, x, y))
    assert len({loop.name for piece in projected.pieces for loop in piece.loops}) == 4


def test_a_tensor_that_occurs_twice_has_two_occurrences(net):
    """S30"""
    x, array = filled(net, "3,3")
    logic = einsum(parse("ij; jk => ik"))
    y = net.relate(logic, x, x)
    np.testing.assert_allclose(run(project(logic, [x, x], y), array, array), array @ array)


def test_operations_have_separate_loops(net):
    x, array = filled(net, "4,4")
    diagonal, total = einsum(parse("ii => i")), einsum(parse("ij => 0"))
    d, t = net.relate(diagonal, x), net.relate(total, x)
    project(diagonal, [x], d)
    np.testing.assert_allclose(run(project(total, [x], t), array), [array.sum()])


def test_an_existing_result_may_be_larger_than_the_written_cells(net):
    """an assignment: other cells are left, or cleared"""
    x, lhs = net.x("4"), net.x("4,3", "lhs")
    logic = einsum(parse("i => i1"))
    net.relate(logic, x, result=lhs)
    projected = project(logic, [x], lhs)
    assert run(projected, grid(4))[:, 1].tolist() == [0, 1, 2, 3]
    (piece,) = projected.pieces
    assert is_injective(piece.result, piece.loops) and not is_surjective(piece.result, piece.loops, lhs.dims)


def test_projecting_says_nothing_new(net):
    x, lhs = net.x("5"), net.x("5", "lhs")
    logic = einsum(parse("a^b => a^b"))
    before = (x.is_required, len(x.relations), x.rows[2].trail[0].size_equations)
    project(logic, [x], lhs, sizes={"a": 2})
    assert (x.is_required, len(x.relations), x.rows[2].trail[0].size_equations) == before


def test_projecting_a_mismatch_is_refused(net):
    net.refuses("is 4, but", project, einsum(parse("i => i")), [net.x("4")], net.x("5", "lhs"))
