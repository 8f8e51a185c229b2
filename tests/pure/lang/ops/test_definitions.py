"""Operations composed of primitives: axes, errors, and values at special points."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.testing.gradients import gradients_of

INF = np.inf
X = np.random.default_rng(0).normal(size=(2, 5, 3))


@pytest.fixture
def x() -> oc.Tensor:
    return oc.tensor(X, batch_axes=1, label="x")


# --- errors ----------------------------------------------------------------------------------------------------------

IDS = np.array([0, 2])
FEW = np.zeros((4, 4, 2))

INVALID: dict[str, tuple[Callable[[oc.Tensor], Any], type[Exception], str]] = {
    "names without a spec": (lambda x: x.softmax(k=3), oc.CodeError, "names such as 'k' belong to a spec: x.softmax("),
    "two axes": (lambda x: x.cumsum("...|t,c => ...|"), oc.CodeError, "removes `t`, `c`"),
    "no axis": (lambda x: x.argmax("...|t,c => ...|t,c"), oc.CodeError, "removes none"),
    "a part of an axis": (lambda x: oc.flip(x, "...|(a t),c => ...|a,c", a=5), oc.CodeError, "removes `t`"),
    "a row": (lambda x: oc.cummax(x, "...|t,..r.. => ...|t"), oc.CodeError, "removes `r`"),
    "several output axes": (lambda x: oc.cumprod(x), oc.CodeError, "`cumprod` operates along one axis, but `x` has 2"),
    "a shift": (lambda x: oc.roll(x, 0.5, "...|t,c => ...|c"), oc.CodeError, "an integer, not 0.5"),
    "no cells": (lambda x: oc.argmin(oc.tensor(np.zeros(0))).forward.elaborate(), oc.ShapeError, "no smallest value"),
    "a norm": (lambda x: x.norm(ord="fro"), oc.DataError, "the order of oc.norm is a number"),
    "a huge norm": (lambda x: x.norm(ord=2**2000), oc.DataError, "the order of oc.norm is a number"),
    "a norm of nan": (lambda x: x.norm(ord=float("nan")), oc.DataError, "the order of oc.norm is a number"),
    "no limit": (lambda x: oc.clip(x), oc.CodeError, "takes at least one limit"),
    "a setting": (lambda x: oc.elu(x, beta=1), oc.CodeError, "oc.elu has no argument `beta=`"),
    "operands": (lambda x: oc.logaddexp(x), oc.CodeError, "oc.logaddexp(x, y): missing a required argument: 'y'"),
    "whole scores": (lambda x: oc.cross_entropy(IDS, IDS), oc.DtypeError, "holds scores, which are floats"),
    "classes of rows": (lambda x: oc.cross_entropy(x, oc.tensor(IDS, batch_axes=1)).dims, oc.ShapeError, "5,3"),
    "fractions as ids": (lambda x: oc.one_hot(x, 3), oc.DtypeError, "`one_hot` takes integer indices, and `x` is"),
    "a size of ids": (lambda x: oc.one_hot(IDS, -1), oc.DataError, "number of its elements, at most 2**31, not -1"),
    "a size": (lambda x: oc.iota(2.0), oc.DataError, "takes the number of its elements, at most 2**31, not 2.0"),
    "a type": (lambda x: x.astype("float31"), oc.DtypeError, "float31"),
    "a stride": (lambda x: oc.conv2d(FEW, FEW, stride=0), oc.CodeError, "`stride` is a positive integer, or one for"),
    "a window": (lambda x: oc.max_pool2d(FEW, (2, 2, 2)), oc.CodeError, "of 2 axes, and not (2, 2, 2)"),
    "a dilation": (lambda x: oc.avg_pool1d(X[0], 2, dilation=True), oc.CodeError, "and not True"),
    "a padding": (lambda x: oc.conv1d(X, X, padding="full"), oc.CodeError, "of 1 axes, and not 'full'"),
    "groups": (lambda x: oc.conv1d(X, X, groups=0), oc.CodeError, "`groups` must be a positive integer, not 0"),
    "what is left": (lambda x: oc.max_pool2d(FEW, 3, 2).dims, oc.ShapeError, "1 is no multiple of the stride 2"),
    "other channels": (lambda x: oc.conv1d(X[0], np.zeros((2, 4, 1))).dims, oc.ShapeError, "4"),
    "a diagonal": (lambda x: oc.tril(x, 1.5), oc.CodeError, "oc.tril: the offset of the diagonal must be an integer"),
    "no square": (lambda x: oc.trace(x).dims, oc.ShapeError, "5"),
    "other lengths": (lambda x: oc.dot(np.zeros(2), np.zeros(3)).dims, oc.ShapeError, "3"),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid_arguments_are_rejected(name: str, x: oc.Tensor) -> None:
    call, error, message = INVALID[name]
    with pytest.raises(error, match=re.escape(message)):
        call(x)


# --- axes ------------------------------------------------------------------------------------------------------------


def test_axes_are_matched_by_name(oracle: Any) -> None:
    square = np.random.default_rng(0).normal(size=(3, 3))
    e = np.exp(square)
    for spec, axis in (("q,k => q", 1), ("q,k => k", 0), ("q,k => q,0", 1)):
        got = oracle(oc.tensor(square).softmax(spec))
        np.testing.assert_allclose(got, e / e.sum(axis, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(oracle(oc.tensor(square).var("q,k => q")), square.var(1))


def test_softmax_defaults_to_the_output_row(x: oc.Tensor, oracle: Any) -> None:
    e = np.exp(X)
    np.testing.assert_allclose(oracle(oc.softmax(x)), e / e.sum((1, 2), keepdims=True))
    np.testing.assert_allclose(oracle(oc.logsumexp(x)), np.log(e.sum((1, 2))))
    inputs = oc.tensor(X, input_axes=1)
    np.testing.assert_allclose(oracle(oc.softmax(inputs)), e / e.sum((0, 1)))


def test_scans_default_to_the_only_output_axis(oracle: Any) -> None:
    rows = oc.tensor(X[0], batch_axes=1)
    np.testing.assert_allclose(oracle(rows.cumsum()), X[0].cumsum(1))
    np.testing.assert_array_equal(oracle(rows.argmax()), X[0].argmax(1))
    assert rows.argmax().dtype == oc.int32


def test_specs_may_merge_axes_and_give_sizes(oracle: Any) -> None:
    six = np.arange(6.0)
    np.testing.assert_allclose(oracle(oc.std(oc.tensor(six), "(a b) => a", a=2)), six.reshape(2, 3).std(1))


def test_windows_of_two_and_three_dimensions_and_groups(oracle: Any) -> None:
    rng = np.random.default_rng(0)
    image, kernel = rng.integers(-3, 3, size=(1, 5, 6, 4)), rng.integers(-3, 3, size=(3, 2, 2, 6))
    want = np.zeros((1, 3, 5, 6))
    for group in range(2):
        inputs, outputs = image[..., 2 * group : 2 * group + 2], slice(3 * group, 3 * group + 3)
        for i, j in np.ndindex(3, 2):
            want[..., outputs] += inputs[:, i : i + 3, j : j + 5] @ kernel[i, j][:, outputs]
    got = oc.conv2d(oc.tensor(image, batch_axes=1), kernel, groups=2)
    np.testing.assert_array_equal(oracle(got), want)
    volume = rng.normal(size=(4, 6, 2, 3))
    halves = volume.reshape(2, 2, 3, 2, 1, 2, 3)
    np.testing.assert_allclose(oracle(oc.max_pool3d(volume, 2)), halves.max((1, 3, 5)))
    np.testing.assert_allclose(oracle(oc.avg_pool3d(volume, (2, 2, 1))), volume.reshape(2, 2, 3, 2, 2, 3).mean((1, 3)))


def test_dilation_and_padding(oracle: Any) -> None:
    x, k = np.arange(7.0)[:, None], np.array([1.0, 10.0, 100.0])[:, None, None]
    np.testing.assert_array_equal(oracle(oc.conv1d(x, k, dilation=2))[:, 0], [420, 531, 642])
    padded, pooled = oc.conv1d(x, k, padding="same"), oc.max_pool1d(-1 - x, 3, 1, padding="same")
    np.testing.assert_array_equal(oracle(padded)[:, 0], [100, 210, 321, 432, 543, 654, 65])
    np.testing.assert_array_equal(oracle(pooled)[:, 0], [-1, -1, -2, -3, -4, -5, -6])
    np.testing.assert_allclose(oracle(oc.avg_pool1d(x, 3, 1, padding="same"))[:2, 0], [1 / 3, 1])


@pytest.mark.parametrize("settings", [{"stride": 2}, {"dilation": 2}, {"groups": 2}, {"padding": "same"}], ids=str)
def test_transposed_convolution_is_the_gradient_of_convolution(settings: Any, oracle: Any) -> None:
    rng = np.random.default_rng(0)
    groups = settings.get("groups", 1)
    k = rng.normal(size=(3, 4 // groups, 6))
    image = oc.param("image", rng.normal(size=(9, 4)))
    result = oc.conv1d(image, k, **settings)
    gradient = rng.normal(size=result.dims)
    (want,) = gradients_of((result * gradient).sum(), image)
    swapped = np.concatenate([np.swapaxes(part, 1, 2) for part in np.split(k, groups, axis=2)], axis=2)
    np.testing.assert_allclose(oracle(oc.conv_transpose1d(gradient, swapped, **settings)), want)


# --- values ----------------------------------------------------------------------------------------------------------


def test_softmax_of_extreme_scores(oracle: Any) -> None:
    big = oc.tensor(np.array([[1e4, 0.0], [-1e4, -1e4], [-INF, 0.0]]), batch_axes=1)
    np.testing.assert_array_equal(oracle(oc.softmax(big)), [[1, 0], [0.5, 0.5], [0, 1]])
    np.testing.assert_allclose(oracle(oc.log_softmax(big)), [[0, -1e4], [-np.log(2)] * 2, [-INF, 0]])
    np.testing.assert_allclose(oracle(oc.logsumexp(big)), [1e4, np.log(2) - 1e4, 0])


def test_cross_entropy_of_classes_equals_that_of_one_hot_distributions(oracle: Any) -> None:
    scores, classes = oc.param("scores", X[0], batch=[5], input=[], output=[3]), np.array([0, 2, 1, 1, 7])
    ids = oc.cross_entropy(scores, oc.tensor(classes, batch_axes=1))
    shares = oc.cross_entropy(scores, oc.one_hot(oc.tensor(classes, batch_axes=1), 3))
    np.testing.assert_allclose(oracle(ids), oracle(shares))
    assert oracle(ids)[4] == 0  # invalid class index
    np.testing.assert_allclose(gradients_of(ids.sum(), scores)[0], gradients_of(shares.sum(), scores)[0])


def test_out_of_range_ids_yield_zeros(oracle: Any) -> None:
    ids = np.array([[0, 3], [9, -1]])
    np.testing.assert_array_equal(oracle(oc.one_hot(ids, 4)).sum(-1), [[1, 1], [0, 0]])
    assert oracle(oc.one_hot(ids, 4, dtype=oc.uint8)).dtype == np.uint8
    table = oc.tensor(np.arange(8.0).reshape(4, 2))
    np.testing.assert_array_equal(oracle(table.take(ids)), [[[0, 1], [6, 7]], [[0, 0], [0, 0]]])


@pytest.mark.parametrize("factor", ["data", "parameter"])  # beside a parameter the rows may have more axes
def test_ids_without_batch_axes_are_shared_by_the_batch(oracle: Any, factor: str) -> None:
    values, ids = np.arange(1.0, 37.0).reshape(3, 6, 2), np.array([[4, 1, 1], [0, 5, 9]])
    w = oc.param("w", np.ones((6, 2))) if factor == "parameter" else oc.tensor(np.ones((6, 2)))
    rows = (oc.tensor(values, batch_axes=1) * w).take(ids)
    want = np.concatenate([values, np.zeros((3, 4, 2))], 1)[:, ids]
    np.testing.assert_array_equal(oracle(rows), want)
    assert str(rows.shape) == "3|2,3,2"
    if factor == "parameter":
        counts = np.array([(ids == v).sum() for v in range(6)])
        np.testing.assert_array_equal(gradients_of(rows.sum(), w)[0], counts[:, None] * values.sum(0))


def test_cells_that_are_not_selected_do_not_contribute(oracle: Any) -> None:
    table = oc.tensor(np.array([[1.0, 2.0], [np.nan, INF]]))
    np.testing.assert_array_equal(oracle(table.take(np.array([0, 0]))), [[1, 2], [1, 2]])
    for walked in (oc.flip(table, "t,c => c"), oc.roll(table, 1, "t,c => c")):
        np.testing.assert_array_equal(oracle(walked), [[np.nan, INF], [1, 2]])
    np.testing.assert_array_equal(oracle(table.cumsum("t,c => c")), [[1, 2], [np.nan, INF]])


def test_norm_has_zero_gradient_at_the_origin() -> None:
    origin = oc.param("origin", np.zeros(3))
    for length in (oc.norm(origin), oc.std(origin)):
        np.testing.assert_array_equal(gradients_of(length, origin)[0], [0, 0, 0])


def test_masks_compare_indices(oracle: Any) -> None:
    causal = oc.einsum("i; j => ij", oc.iota(3), oc.iota(3), combine="ge")
    np.testing.assert_array_equal(oracle(causal), np.tril(np.ones((3, 3))))
    assert oc.iota(3, dtype=oc.float64).dtype == oc.float64
    assert oracle(oc.iota(0)).shape == (0,)


def test_index_masks_are_not_materialized() -> None:
    masked = oc.tril(oc.tensor(X[0], label="m"))
    stages = oc.Context("numpy").compile(masked.forward).stages()
    assert "iota" in stages["lower"]
    assert "iota" not in stages["eliminate_dead_code"]


def test_formulas_are_inlined_into_formulas(oracle: Any) -> None:
    @oc.defop(shape="pointwise", doc="The softplus of twice the value.")
    def steep(x: Any) -> Any:
        def forward(v: Any, v1: Any) -> None:
            v["=:"] = oc.softplus(2.0 * v1)

        return forward, None

    np.testing.assert_allclose(oracle(steep(oc.tensor(X[0]))), np.logaddexp(2 * X[0], 0))


# --- types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "dtype", "want"),
    [
        (np.array([1.7, -1.7, 0.0]), oc.int32, [1, -1, 0]),
        (np.array([0.5, 0.0, np.nan]), oc.bool, [True, False, True]),
        (np.array([300, -1]), oc.uint8, [44, 255]),
        (np.array([1, 2**24 + 1]), oc.float32, [1, 2**24]),
    ],
    ids=str,
)
def test_casts(values: Any, dtype: Any, want: Any, oracle: Any) -> None:
    got = oc.cast(oc.tensor(values), dtype)
    assert got.dtype == dtype
    np.testing.assert_array_equal(oracle(got), want)


def test_the_gradient_of_a_cast_is_cast_back() -> None:
    w = oc.param("w", X[0].astype(np.float32))
    (g,) = gradients_of((w.astype(oc.float64) * X[0]).sum(), w)
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, X[0].astype(np.float32))
    assert not w.astype(oc.int32).has_gradient


def test_means_and_variances_of_integers_are_floats(oracle: Any) -> None:
    ints = oc.tensor(np.array([1, 2, 4]))
    for name in ("mean", "var", "std", "norm"):
        assert getattr(ints, name)().dtype.is_float, name
    np.testing.assert_allclose(oracle(ints.var()), np.var([1, 2, 4]), rtol=1e-6)
    np.testing.assert_allclose(oracle(ints.norm()), np.sqrt(21), rtol=1e-6)


def test_integers_at_their_limits(oracle: Any) -> None:
    ints = np.array([5, 2**31 - 1, -(2**31), 7], np.int32)
    np.testing.assert_array_equal(oracle(oc.cummax(ints)), np.maximum.accumulate(ints))
    np.testing.assert_array_equal(oracle(oc.cummin(ints)), np.minimum.accumulate(ints))
    np.testing.assert_array_equal(oracle(oc.floor(np.array([2**53 + 1]))), [2**53 + 1])
    assert oracle(oc.tensor(np.array([True, False, True])).cumsum()).tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    "write",
    [
        lambda n, x: n.__iadd__(1.5),
        lambda n, x: n.__iadd__(x),
        lambda n, x: n.__itruediv__(2),
        lambda n, x: n.__setitem__(..., x),
        lambda n, x: n.__setitem__(("=+", "i => i"), x),
        lambda n, x: oc.assign(n, "mul", n, x),
        lambda n, x: oc.assign(n, "id", n, accum="div"),
    ],
)
def test_implicit_float_to_integer_conversion_is_rejected(write: Any) -> None:
    n, x = oc.node("n", output=[2], dtype=oc.int32), oc.tensor([1.5, 2.0], label="x")
    message = r"`n` is of type int32.*\n  fix .*x\.astype\(oc\.int32\) truncates"
    with pytest.raises(oc.DtypeError, match=message), oc.cd("c"):
        write(n, x)


def test_lossless_values_are_stored_into_integers(oracle: Any) -> None:
    n, x = oc.node("n", output=[2], dtype=oc.int32), oc.tensor([1.5, 2.0])
    with oc.cd("whole") as code:
        n += 2.0
        n += x > 1.6
        n *= oc.tensor(np.array([3, 4]))
        n += x.round().astype(oc.int32)
        oc.assign(n, "lt", x, 1.6, accum="add")
    np.testing.assert_array_equal(oracle.after(code, n, feeds={n: np.zeros(2, np.int32)})[0], [9, 14])
    truth = oc.node("truth", output=[2], dtype=oc.bool)
    with oc.cd("truth") as code:
        truth[...] = x > 1.6
    np.testing.assert_array_equal(oracle.after(code, truth, feeds={truth: np.zeros(2, bool)})[0], [False, True])
