"""Values of operations against NumPy, including NaN and infinities; gradients against finite differences."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.ops import OPS, Domain
from ocannl.lang.core.derivatives import DERIVATIVES
from ocannl.testing.gradients import gradients_of

NAN, INF = np.nan, np.inf
ODD = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0])


def function(name: str) -> Callable[..., oc.Tensor]:
    names = {"max": "maximum", "min": "minimum", "not": "not_", "and": "and_", "or": "or_"}
    result: Callable[..., oc.Tensor] = getattr(oc, names.get(name, name))
    return result


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_primitives_equal_numpy(op: Any, oracle: Any) -> None:
    rng = np.random.default_rng(0)
    values = np.arange(9, dtype=np.uint32) if op.domain in (Domain.INTEGER, Domain.WORD) else ODD
    grids = [rng.permutation(np.tile(values, 3)) for _ in range(op.arity)]
    actual = oracle(function(op.name)(*(oc.tensor(g) for g in grids)))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(actual, op.numpy(*grids), rtol=1e-15)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: oc.relu(x), [NAN, INF, 0, 0, 0, 1, 0, 0.5, 2]),
        (lambda x: oc.sat01(x), [NAN, 1, 0, 0, 0, 1, 0, 0.5, 1]),
        (lambda x: oc.maximum(x, 0.5), [NAN, INF, 0.5, 0.5, 0.5, 1, 0.5, 0.5, 2]),
        (lambda x: oc.minimum(0.5, x), [NAN, 0.5, -INF, 0, 0, 0.5, -1, 0.5, 0.5]),
        (lambda x: x > 0.5, [0, 1, 0, 0, 0, 1, 0, 0, 1]),
        (lambda x: oc.eq(x, x), [0, 1, 1, 1, 1, 1, 1, 1, 1]),
        (lambda x: oc.ne(x, 1), [1, 1, 1, 1, 1, 0, 1, 1, 1]),
        (lambda x: ~x, [0, 0, 0, 1, 1, 0, 0, 0, 0]),
        (lambda x: x & 1, [1, 1, 1, 0, 0, 1, 1, 1, 1]),
        (lambda x: oc.where(x, x, 7), [NAN, INF, -INF, 7, 7, 1, -1, 0.5, 2]),
        (lambda x: oc.sigmoid(x), [NAN, 1, 0, 0.5, 0.5, 0.7310585786, 0.2689414214, 0.6224593312, 0.8807970780]),
    ],
)
def test_propagation_of_nan(call: Any, expected: Any, oracle: Any) -> None:
    np.testing.assert_allclose(oracle(call(oc.tensor(ODD))), expected, rtol=1e-9)


def test_the_remainder_has_the_sign_of_the_right_operand(oracle: Any) -> None:
    a, b = np.array([5.5, -5.5, 5.5, -5.5]), np.array([3.0, 3.0, -3.0, -3.0])
    np.testing.assert_allclose(oracle(oc.tensor(a) % oc.tensor(b)), [2.5, 0.5, -0.5, -2.5])


def test_reductions_propagate_nan(oracle: Any) -> None:
    x = oc.tensor([1.0, NAN, 3.0])
    assert np.isnan(oracle(x.max()))
    assert np.isnan(oracle(x.min()))
    assert np.isnan(oracle(x.sum()))


def test_integer_operations_preserve_the_type(oracle: Any) -> None:
    i = oc.tensor(np.array([7, -3, 2], "int32"))
    for result in (i + 1, i * i, i - 2, -i, abs(i), oc.maximum(i, 0), i % 4, i > 0):
        assert result.dtype is oc.int32
    assert (i / 2).dtype is oc.float32
    assert oc.exp(i).dtype is oc.float32
    np.testing.assert_array_equal(oracle(i % 4), [3, 1, 2])
    np.testing.assert_allclose(oracle(i / 2), [3.5, -1.5, 1])


def test_float_literals_promote_integers(oracle: Any) -> None:
    i = oc.tensor(np.array([7, -3, 2], "int32"))
    maximum = oc.maximum(i, 0.5)
    for result, expected in ((i + 0.5, [7.5, -2.5, 2.5]), (2.5 * i, [17.5, -7.5, 5]), (maximum, [7, 0.5, 2])):
        assert result.dtype is oc.float32
        np.testing.assert_allclose(oracle(result), expected)


# --- reductions ------------------------------------------------------------------------------------------------------

A = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("spec", "axis"),
    [
        ("...|...->... => ", (0, 1, 2)),
        ("b|i->o => b|o", 2),
        ("b|i->o => |i->o", 0),
        ("b|i->o => ", (0, 1, 2)),
        ("...|i->o => ...|0->o", 2),
    ],
)
def test_reductions_by_spec(spec: str, axis: Any, oracle: Any) -> None:
    x = oc.tensor(A, batch_axes=1, input_axes=1)
    for name in ("sum", "max", "min", "mean"):
        actual = oracle(getattr(x, name)(spec))
        np.testing.assert_allclose(actual.squeeze(), getattr(np, name)(A, axis=axis), err_msg=name)


def test_full_reductions_have_no_axes(oracle: Any) -> None:
    x = oc.tensor(A, batch_axes=1, input_axes=1)
    for name in ("sum", "max", "min", "mean"):
        t = getattr(x, name)()
        assert t.dims == ()
        assert oracle(t) == getattr(np, name)(A)


def test_mean_divides_by_the_number_of_summed_cells(oracle: Any) -> None:
    square = oc.tensor(A[0, :, :3])
    assert oracle(square.mean("ii => ")) == np.trace(A[0, :, :3]) / 3
    assert oracle(square.mean("i0 => i")).tolist() == A[0, :, 0].tolist()
    assert oracle(square.mean("ij => ijk", k=2)).tolist() == np.repeat(A[0, :, :3, None], 2, 2).tolist()
    assert oracle(oc.tensor(np.ones((1, 3))).mean("ij => i")).tolist() == [1]


def test_empty_reductions(oracle: Any) -> None:
    empty = oc.tensor(np.ones((0, 3)))
    assert oracle(empty.sum()) == 0
    assert oracle(empty.sum("ij => j")).tolist() == [0, 0, 0]
    assert oracle(empty.max()) == -INF
    assert oracle(empty.min("ij => j")).tolist() == [INF] * 3
    assert oracle(empty * 2).shape == (0, 3)
    assert np.isnan(oracle(empty.mean()))


# --- einsum ----------------------------------------------------------------------------------------------------------

V = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("spec", "arrays", "expected"),
    [
        ("ij;jk => ik", (A[0], A[0].T), A[0] @ A[0].T),
        ("i;j => ij", (V, V), np.outer(V, V)),
        ("ij => ji", (A[0],), A[0].T),
        ("ii => i", (A[0, :, :3],), np.diag(A[0, :, :3])),
        ("i => ii", (V,), np.diag(V)),
        ("ii => ", (A[0, :, :3],), np.trace(A[0, :, :3])),
        ("i1 => i", (A[0],), A[0, :, 1]),
        ("i => i0", (V,), V[:, None]),
        ("i => i2", (V,), np.stack([0 * V, 0 * V, V], 1)),
        ("_j => j", (A[0],), A[0].sum(0)),
        ("... => ", (A,), A.sum()),
        ("i... => ...", (A,), A.sum(0)),
        ("...i => i", (A,), A.sum((0, 1))),
        ("i ..r.. k => ..r..", (A,), A.sum((0, 2))),
        ("row, col; col, out => row, out", (A[0], A[0].T), A[0] @ A[0].T),
        ("i;i;i => i", (V, V, V), V**3),
        ("ij;jk;kl => il", (A[0], A[0].T, A[0]), A[0] @ A[0].T @ A[0]),
        ("i;j => ", (V, V), V.sum() ** 2),
    ],
)
def test_einsums_of_output_rows(spec: str, arrays: Any, expected: Any, oracle: Any) -> None:
    np.testing.assert_allclose(oracle(oc.einsum(spec, *map(oc.tensor, arrays))), expected)


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({"reduce": "max"}, (A[0][:, :, None] * A[0].T[None]).max(1)),
        ({"reduce": "max", "combine": "add"}, (A[0][:, :, None] + A[0].T[None]).max(1)),
        ({"reduce": "min", "combine": "sub"}, (A[0][:, :, None] - A[0].T[None]).min(1)),
        ({"combine": "add"}, (A[0][:, :, None] + A[0].T[None]).sum(1)),
        ({"combine": "max"}, np.maximum(A[0][:, :, None], A[0].T[None]).sum(1)),
        ({"reduce": "mul", "combine": "fst"}, np.repeat(A[0].prod(1)[:, None], 3, 1)),
        ({"reduce": "or", "combine": "and_"}, ((A[0][:, :, None] != 0) & (A[0].T[None] != 0)).any(1)),
        ({"reduce": "and", "combine": "lt"}, (A[0][:, :, None] < A[0].T[None]).all(1)),
    ],
)
def test_einsum_with_reduce_and_combine(keywords: Any, expected: Any, oracle: Any) -> None:
    actual = oracle(oc.einsum("ij;jk => ik", oc.tensor(A[0]), oc.tensor(A[0].T), **keywords))
    np.testing.assert_allclose(actual, expected)


def test_ternary_primitives_combine_three_operands(oracle: Any) -> None:
    c = np.array([1.0, 0.0, 1.0])
    x, y = oc.tensor(V), oc.tensor(10 * V)
    assert oracle(oc.einsum("i;i;i => i", oc.tensor(c), x, y, combine="where")).tolist() == [1, 20, 3]
    assert oracle(oc.einsum("i;i;i => i", x, y, x, combine="fma")).tolist() == (V * 10 * V + V).tolist()
    assert oracle(oc.einsum("i;i;i => ", x, y, x, combine="add", reduce="max")) == 36


def test_captured_sizes(oracle: Any) -> None:
    d, r = oc.Dim("d"), oc.Dim("r")
    x = oc.tensor(A)
    total = oc.einsum("i ..tail.. => ", x, i=d, tail=r)
    mean = total / d / r
    assert oracle(mean) == A.mean()
    assert (int(d), int(r), d.number(), float(r)) == (2, 12, 2, 12.0)
    assert repr(d) == "<dim d: 2>"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: oc.einsum("i=>i", x, reduce="sub"),
            "reduce='sub' is not an associative and commutative operation; these are add, mul, max, min, and, or",
        ),
        (
            lambda x: oc.einsum("i=>i", x, reduce=3),
            "reduce=3 is not an associative and commutative operation; these are add, mul, max, min, and, or",
        ),
        (
            lambda x: oc.einsum("i;i;i=>i", x, x, x, combine="sub"),
            "combine='sub' is not a primitive of 3 operands; these are add, mul, max, min, and, or, where, fma",
        ),
        (lambda x: x.sum(k=3), "names such as 'k' belong to a spec: x.sum(spec, ...)"),
    ],
)
def test_invalid_reduce_combine_and_names_are_rejected(call: Any, message: str) -> None:
    with pytest.raises(oc.CodeError) as caught:
        call(oc.tensor([1.0, 2.0]))
    assert str(caught.value) == message


INVALID_CALLS = {
    "too few": (
        lambda x, y: oc.einsum("ij; jk; kl => il", x),
        """
the spec has 3 operands, and 1 is given
  ij; jk; kl => il
      ^
  x    2,3  data, file.py:N
  fix  give 2 more, or leave `jk`, `kl` out of the spec
""",
    ),
    "none": (
        lambda x, y: oc.einsum("ij => ji"),
        """
the spec has 1 operand, and 0 are given
  ij => ji
  ^
  fix  give 1 more
""",
    ),
    "too many": (
        lambda x, y: oc.einsum("i, j => j, i", x, y),
        """
the spec has 1 operand, and 2 are given
  i, j => j, i
       ^
  x    2,3  data, file.py:N
  y    3    data, file.py:N
  fix  give 1 less, or write a part for each, separated by `;`: `...; ... => ...`
""",
    ),
    "too many to sum": (
        lambda x, y: x.sum("ij; j =>"),
        """
the spec has 2 operands, and 1 is given
  ij; j =>
      ^
  x    2,3  data, file.py:N
  fix  give 1 more, or leave `j` out of the spec
""",
    ),
    "too few to lay one after another": (
        lambda x, y: oc.concat("a; b => a^b", y),
        """
the spec has 2 operands, and 1 is given
  a; b => a^b
     ^
  y    3  data, file.py:N
  fix  give 1 more, or leave `b` out of the spec
""",
    ),
    "a shape too few": (
        lambda x, y: oc.infer("a; b => ab", (2,)),
        """
the spec has 2 operands, and 1 is given
  a; b => ab
     ^
  fix  give 1 more, or leave `b` out of the spec
""",
    ),
    "a name that is not there": (
        lambda x, y: oc.einsum("ij => ji", x, k=3),
        """
`k`, given as k=3, is not a name of the spec: its names are `i`, `j`
  ij => ji
  fix  leave `k` out, or write it where it belongs
""",
    ),
    "a name where there are none": (
        lambda x, y: oc.einsum("=>", 1.0, k=3),
        """
`k`, given as k=3, is not a name of the spec: it has no names
  =>
  fix  leave `k` out
""",
    ),
    "a misspelt name": (
        lambda x, y: oc.einsum("height, width => width", x, hieght=3),
        """
`hieght`, given as hieght=3, is not a name of the spec: its names are `height`, `width`
  height, width => width
  fix  write height=..., if this is the intent
""",
    ),
    "a name of letters that are axes": (
        lambda x, y: oc.einsum("...|head => ...|head", x, head=3),
        """
`head`, given as head=3, is not a name of the spec: its names are `h`, `e`, `a`, `d`
  ...|head => ...|head
  fix  put a comma into the spec, for example at its end, to make names whole words
""",
    ),
    "a truth value": (
        lambda x, y: oc.einsum("ij => ji", x, j=True),
        """
`j` of the spec is given as j=True
  ij => ji
   ^
  fix  give a size or a coefficient, an integer from 0, or an oc.Dim to capture the size
""",
    ),
    "less than nothing": (
        lambda x, y: oc.einsum("ij => ji", x, i=-1),
        """
`i` of the spec is given as i=-1
  ij => ji
  ^
  fix  give a size or a coefficient, an integer from 0, or an oc.Dim to capture the size
""",
    ),
}


@pytest.mark.parametrize("name", INVALID_CALLS)
def test_invalid_operands_and_names_of_a_spec_are_rejected(name: str) -> None:
    program, message = INVALID_CALLS[name]
    x = oc.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y = oc.tensor([1.0, 2.0, 3.0])
    with pytest.raises(oc.CodeError) as caught:
        program(x, y)
    assert re.sub(r"test_operations\.py:\d+", "file.py:N", str(caught.value)) == message.strip("\n")


# --- gradients -------------------------------------------------------------------------------------------------------

SMOOTH = {  # restricted ranges of operands
    "abs": (0.5, 2), "relu": (0.5, 2), "sat01": (0.2, 0.8), "log": (0.5, 2), "log2": (0.5, 2), "sqrt": (0.5, 2),
    "recip": (0.5, 2), "recip_sqrt": (0.5, 2), "div": (0.5, 2), "pow": (0.5, 2), "relu_gate": (0.5, 2),
    "sat01_gate": (0.2, 0.8), "where": (0.5, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_equal_finite_differences(name: str) -> None:
    arity = next(op.arity for op in OPS if op.name == name)
    low, high = SMOOTH.get(name, (-2, 2))
    rng = np.random.default_rng(1)
    operands = [rng.uniform(low, high, size=(2, 3)), *(rng.uniform(low, high, size=3) for _ in range(arity - 1))]
    if name == "mod":
        operands[1] = rng.uniform(2.5, 3, size=3)
    oc.testing.gradcheck(function(name), *operands)
    if arity == 2:
        oc.testing.gradcheck(lambda x: function(name)(x, 0.6), operands[0])
        oc.testing.gradcheck(lambda x: function(name)(0.6, x), operands[0] if name != "mod" else operands[1])


@pytest.mark.parametrize("name", ["abs", "relu", "sat01"])
def test_derivatives_below_a_kink(name: str) -> None:
    oc.testing.gradcheck(function(name), [-0.5, -2.0, 3.0])


@pytest.mark.parametrize("name", ["sigmoid", "silu", "gelu"])
def test_composite_operations(name: str) -> None:
    oc.testing.gradcheck(getattr(oc, name), np.linspace(-3, 3, 7))


@pytest.mark.parametrize("exponent", [1, 2, 3, 0.5, -1, 2.0])
def test_powers_by_a_number(exponent: float) -> None:
    oc.testing.gradcheck(lambda x: x**exponent, [0.5, 1.5, 2.0])


@pytest.mark.parametrize("exponent", [1, 2, 3])
def test_integer_powers_of_negative_numbers_and_zero(exponent: int) -> None:
    oc.testing.gradcheck(lambda x: x**exponent, [-1.5, 0.0, 2.0])


def test_reductions_and_einsums_have_gradients() -> None:
    x = np.random.default_rng(2).permutation(np.linspace(0.5, 2, 12)).reshape(3, 4)
    y = np.random.default_rng(3).permutation(np.linspace(-2, -0.5, 12)).reshape(4, 3)
    for name in ("sum", "max", "min", "mean"):
        oc.testing.gradcheck(lambda t, name=name: getattr(t, name)(), x)
        oc.testing.gradcheck(lambda t, name=name: getattr(t, name)("ij => i"), x)
    oc.testing.gradcheck(lambda t: oc.einsum("ij => i", t, reduce="mul"), x)
    variants = ({}, {"reduce": "max"}, {"combine": "add"}, {"combine": "sub", "reduce": "min"}, {"combine": "div"})
    for keywords in variants:
        oc.testing.gradcheck(lambda a, b, keywords=keywords: oc.einsum("ij;jk => ik", a, b, **keywords), x, y)
    oc.testing.gradcheck(lambda a: oc.einsum("ij;ij;ik => jk", a, a, a), x)


def test_ties_split_the_gradient_equally() -> None:
    tied = oc.param("tied", [[2.0, 2.0, 1.0], [3.0, 3.0, 3.0]], dtype="float64")
    (actual,) = gradients_of(tied.max("ij => i").sum(), tied)
    np.testing.assert_allclose(actual, [[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]])
    (actual,) = gradients_of(oc.maximum(tied, 2.0).sum(), tied)
    np.testing.assert_allclose(actual, [[0.5, 0.5, 0], [1, 1, 1]])
    (actual,) = gradients_of(oc.minimum(tied, tied).sum(), tied)
    np.testing.assert_allclose(actual, np.ones((2, 3)))


def test_gradients_at_kinks() -> None:
    w = oc.param("w", [0.0, 1.0], dtype="float64")
    for result, expected in (
        (oc.relu(w), [0, 1]),
        (oc.sat01(w), [0, 0]),
        (abs(w), [0, 1]),
        (w**2, [0, 2]),
        (w**1, [1, 1]),
        (oc.relu_gate(w, w), [0, 1]),
    ):
        (actual,) = gradients_of(result.sum(), w)
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "trunc"])
def test_discontinuous_operations_have_no_gradient(name: str) -> None:
    w = oc.param("w", [0.5, 1.0])
    arity = next(op.arity for op in OPS if op.name == name)
    assert function(name)(*[w] * arity).grad is None


# --- concatenation and stacks ----------------------------------------------------------------------------------------


def test_concatenation_and_split(oracle: Any) -> None:
    a, b = oc.tensor([1.0, 2.0, 3.0]), oc.tensor([4.0, 5.0])
    assert oracle(oc.concat("a; b => a^b", a, b)).tolist() == [1, 2, 3, 4, 5]
    assert oracle(oc.concat("2^a => a", oc.tensor(V))).tolist() == [3]
    sevens, nines = oc.full(7, b=[], i=[], o=[2]), oc.full(9, b=[], i=[], o=[1])
    assert oracle(oc.concat("a; b; c => a^b^c", sevens, a, nines)).tolist() == [7, 7, 1, 2, 3, 9]
    assert oracle(oc.concat("a => 1^a", sevens)).tolist() == [0, 7, 7]
    oc.testing.gradcheck(lambda x, y: oc.concat("a; b => a^b", x, y) ** 2, V, V[:2])


def test_stacks_and_blocks(oracle: Any) -> None:
    a, b = oc.tensor([1.0, 2.0]), oc.tensor([3.0, 4.0])
    assert oracle(oc.stack([a, b])).tolist() == [[1, 2], [3, 4]]
    assert str(oc.stack([a, b], axis="batch").shape) == "2|2"
    assert str(oc.stack((a, b), axis="input").shape) == "2->2"
    assert oracle(oc.block([[a, b], [b, a]])).tolist() == [[[1, 2], [3, 4]], [[3, 4], [1, 2]]]
    oc.testing.gradcheck(lambda x, y: oc.stack([x, y, x]) ** 2, V, V)
