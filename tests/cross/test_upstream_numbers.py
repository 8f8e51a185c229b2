"""What upstream's tests say of precisions and of arrays: each case is run here, or what happens instead, with the
reason.

A case is called as upstream's list calls it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from upstream import Cases

import ocannl as oc
from ocannl import train

AREAS = {"PR": "01 03 05 07", "ND": "01 02 03 04 05"}

OVERRIDDEN = {
    "PR-03": "there are no cells of 128 bits: random numbers fill any number of cells, in any type",
    "PR-05": "nobody sets the type of indices: each index expression takes the one that has room for it",
    "ND-03": "no buffer has margins: what is read outside of an array is a guard, and padding is an operation",
    "ND-04": "how upstream prints is not copied: what a literal says can be read from its shape and its array",
}

case = Cases(AREAS, OVERRIDDEN)


@case("PR-01")
def test_a_leaf_takes_the_type_of_what_reads_it(ctx):
    """d = (a + b) * c, where b is float16 and d is bfloat16; 1 + 3 = 4, twice that is 8."""
    a, c = oc.tensor([1.0], label="a"), oc.tensor([2.0], label="c")
    b = oc.tensor([3.0], label="b", dtype="float16")
    both = a + b
    d = (both * c).with_dtype("bfloat16")
    ctx.run(d.forward)
    assert ctx[d].tolist() == [8.0]
    assert [t.dtype.name for t in (a, b, both, c, d)] == ["float16", "float16", "float16", "bfloat16", "bfloat16"]


@case("PR-03")
def test_random_numbers_of_any_type_fill_any_number_of_cells(ctx):
    t = oc.uniform(key="cells", counter=0, output=[37], dtype="float16")
    values = t.eval(ctx)
    assert values.dtype == np.float16 and values.shape == (37,) and len(set(values.tolist())) > 30


@case("PR-05")
def test_indices_have_room(ctx):
    n = oc.symbol("n", 0, 2**31 + 1)
    index = oc.placeholder("here", output=[], dtype="int64")
    with oc.cd() as code:
        index[...] = n
    ctx.run(code, n=2**31)
    assert int(ctx[index]) == 2**31


@case("PR-07")
def test_parameters_hold_the_default_and_their_gradients_theirs(ctx):
    for values, gradients in (("float32", None), ("bfloat16", "float32"), ("float64", "float64")):
        with oc.use_precision(values, gradients=gradients):
            w = oc.param("w", [1.0, 2.0])
            loss = (w * w).sum()
        ctx.init(loss)
        ctx.run(train.grad_update(loss))
        assert w.grad is not None and (w.dtype, w.grad.dtype) == (values, gradients or values)
        assert ctx[w.grad].tolist() == [2.0, 4.0]


BITS = {
    "ND-01": ("bfloat16", np.uint16, [3.14159, 0.001, 1e3, np.inf, -np.inf], [0x4049, 0x3A83, 0x447A, 0x7F80, 0xFF80]),
    "ND-02": ("float8_e5m2", np.uint8, [1, -1, 0.5, 2, 0.125, 16, -0.25], [0x3C, 0xBC, 0x38, 0x40, 0x30, 0x4C, 0xB4]),
}


@case("ND-01", "ND-02")
@pytest.mark.parametrize("name", BITS)
def test_narrow_numbers_have_these_bits(ctx, name):
    kind, word, numbers, bits = BITS[name]
    narrow = oc.tensor(np.array(numbers, np.float32)).astype(kind).eval(ctx)
    assert narrow.view(word).tolist() == bits
    assert oc.tensor(numbers, dtype=kind).eval(ctx).view(word).tolist() == bits


@case("ND-03")
def test_an_array_within_a_larger_one_is_an_operation(ctx):
    x = oc.tensor(np.arange(1.0, 7).reshape(2, 3).astype("float32"))
    padded = oc.concat("a,b => 1^a^1, 2^b^1", x - -999.0) + -999.0
    want = np.full((4, 6), -999.0, np.float32)
    want[1:3, 2:5] = [[1, 2, 3], [4, 5, 6]]
    np.testing.assert_array_equal(padded.eval(ctx), want)


@case("ND-04")
def test_a_literal_says_which_axes_there_are(ctx):
    inline, rows = oc.tensor([(1, 2, 3), (4, 5, 6)]), oc.tensor(oc.batch([1, 2, 3], [4, 5, 6]))
    assert (str(inline.shape), str(rows.shape)) == ("3->2", "2|3")
    for t in (inline, rows):
        np.testing.assert_array_equal(t.eval(ctx), [[1, 2, 3], [4, 5, 6]])


RAGGED: list[tuple[Any, str]] = [
    ([[1, 2], [3]], "an output axis of 1 stands beside an output axis of 2"),
    ([[1, 2], (3, 4)], "an input axis of 2 stands beside an output axis of 2"),
    ([[1, 2], 3], "3 stands where an output axis of 2 is expected"),
]


@case("ND-05")
@pytest.mark.parametrize(("literal", "says"), RAGGED)
def test_a_literal_that_is_ragged_or_mixed_is_refused(literal, says):
    with pytest.raises(oc.DataError, match=says):
        oc.tensor(literal)


def test_every_case_is_run_or_overridden():
    case.check()
