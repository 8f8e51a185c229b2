"""Fans of initializers: from the first contraction of a parameter in the block that owns it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc

X = {"batch": [2], "input": [], "output": [9, 9, 16]}
ROW = {"batch": [2], "input": [], "output": [50]}


def spread(w: oc.Tensor, oracle: Any) -> float:
    """The inverse of the variance of the initial values."""
    return float(1 / oracle(w + 0).var())


def test_he_and_glorot_of_a_convolution(oracle: Any) -> None:
    x = oc.placeholder("x", batch=[2], output=[9, 9, 64])
    w = oc.param("w", oc.kaiming(), o=[3, 3, 64, 64])
    oc.conv2d(x, w)
    assert oracle(w + 0).std() == pytest.approx(0.0589, rel=0.01)


@pytest.mark.parametrize(
    ("size", "settings", "fan_in", "fan_out"),
    [
        ([3, 3, 16, 32], {}, 9 * 16, 9 * 32),
        ([3, 3, 16, 32], {"stride": 2}, 9 * 16, 9 * 32),
        ([3, 3, 16, 32], {"padding": "same"}, 9 * 16, 9 * 32),
        ([3, 3, 4, 32], {"groups": 4}, 9 * 4, 9 * 8),
        ([1, 1, 16, 96], {}, 16, 96),
    ],
    ids=str,
)
def test_fans_of_convolutions(
    size: list[int], settings: dict[str, Any], fan_in: int, fan_out: int, oracle: Any
) -> None:
    x = oc.placeholder("x", **X)
    he, glorot = oc.param("he", oc.kaiming(), o=size), oc.param("glorot", oc.xavier(), o=size)
    oc.conv2d(x, he, **settings)
    oc.conv2d(x, glorot, **settings)
    assert spread(he, oracle) == pytest.approx(fan_in / 2, rel=0.06)
    assert spread(glorot, oracle) == pytest.approx((fan_in + fan_out) / 2, rel=0.06)


@pytest.mark.parametrize(
    ("size", "settings"), [((32, 16, 3, 3), {}), ((32, 16, 3, 3), {"stride": 2}), ((96, 16, 1, 1), {})], ids=str
)
def test_fans_are_those_of_pytorch(size: tuple[int, ...], settings: dict[str, Any], oracle: Any) -> None:
    torch = pytest.importorskip("torch")
    fan_in, fan_out = torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(size))
    w = oc.param("w", oc.xavier(), o=[size[2], size[3], size[1], size[0]])
    oc.conv2d(oc.placeholder("x", **X), w, **settings)
    assert spread(w, oracle) == pytest.approx((fan_in + fan_out) / 2, rel=0.06)


@pytest.mark.parametrize(
    ("product", "fan_in", "fan_out"),
    [
        (lambda w, x: oc.einsum("...|d; de => ...|e", x, w), 50, 70),
        (lambda w, x: oc.einsum("...|(a b); (a b),e => ...|e", x, w, a=5), 50, 70),
        (lambda w, x: oc.einsum("...|e; de => ...|d", oc.placeholder("y", batch=[2], output=[70]), w), 70, 50),
        (lambda w, x: oc.einsum("...|d; d,(h e) => ...|h,e", x, w, h=7), 50, 70),
    ],
    ids=["a spec", "merged axes", "the other way", "heads of the result"],
)
def test_fans_of_a_spec(product: Any, fan_in: int, fan_out: int, oracle: Any) -> None:
    w = oc.param("w", oc.xavier(), o=[50, 70])
    product(w, oc.placeholder("x", **ROW))
    assert spread(w, oracle) == pytest.approx((fan_in + fan_out) / 2, rel=0.06)


@pytest.mark.parametrize(
    "rearranged",
    [
        lambda w: w,
        lambda w: 0.5 * w,
        lambda w: w.astype("float64"),
        lambda w: oc.einsum("ed => de", oc.einsum("de => ed", w)),
        lambda w: w * oc.param("gain", 1.0, o=[70]),
    ],
    ids=["the parameter", "scaled", "cast", "transposed twice", "with a gain"],
)
def test_a_rearrangement_stands_for_its_parameter(rearranged: Any, oracle: Any) -> None:
    w = oc.param("w", oc.kaiming(), o=[50, 70])
    oc.einsum("...|d; de => ...|e", oc.placeholder("x", **ROW), rearranged(w))
    assert spread(w, oracle) == pytest.approx(50 / 2, rel=0.06)


def test_heads_are_no_part_of_a_fan(oracle: Any) -> None:
    w = oc.param("w", oc.xavier(), o=[4, 50, 30])
    oc.einsum("...|hd; hde => ...|he", oc.placeholder("x", batch=[2], output=[4, 50]), w)
    assert spread(w, oracle) == pytest.approx((50 + 30) / 2, rel=0.06)


def test_without_a_contraction_the_rows_are_the_fans(oracle: Any) -> None:
    table = oc.param("table", oc.kaiming(), o=[100, 30])
    table.take(np.array([1, 2]))
    assert spread(table, oracle) == pytest.approx(1 / 2, rel=0.06)
    linear = oc.param("linear", oc.xavier(), i=[30], o=[100])
    assert spread(linear, oracle) == pytest.approx(130 / 2, rel=0.06)


def test_a_bias_is_not_contracted_by_the_next_layer(oracle: Any) -> None:
    b = oc.param("b", oc.kaiming(), o=[3000])
    oc.param("v", o=[7]) @ (oc.param("w", o=[3000]) @ oc.placeholder("x", **ROW) + b)
    assert spread(b, oracle) == pytest.approx(1 / 2, rel=0.06)


def test_the_owning_block_decides(oracle: Any) -> None:
    @oc.op
    def embed(ids: oc.Tensor) -> Any:
        table = oc.param(oc.kaiming(), o=[100, 30])
        return oc.einsum("...|v; vd => ...|d", oc.one_hot(ids, 100), table), table

    h, table = embed(oc.tensor(np.array([3, 1]), batch_axes=1))
    scores = oc.einsum("...|d; vd => ...|v", h, table)
    assert scores.dims == (2, 100)
    assert spread(table, oracle) == pytest.approx(100 / 2, rel=0.06)


def tied(init: oc.Tensor) -> oc.Tensor:
    @oc.op
    def autoencoder(x: oc.Tensor) -> oc.Tensor:
        w = oc.param("w", init, o=[30])
        return w.T @ oc.relu(w @ x)

    y: oc.Tensor = autoencoder(oc.placeholder("x", **ROW))
    return y


def test_contractions_that_disagree_are_refused(oracle: Any) -> None:
    with pytest.raises(oc.ShapeError) as caught:
        oracle(tied(oc.kaiming()))
    lines = [line.partition("test_fans.py")[0].rstrip() for line in str(caught.value).splitlines()]
    assert lines == [
        "the fan-in of `w` is 50 in `w @ x` and 30 in `w.T @ relu(matmul)`",
        "  in   w @ x",
        "  in   w.T @ relu(matmul)",
        "  fix  give the initial value fan_in=...",
    ]


@pytest.mark.parametrize(
    ("init", "want"),
    [(lambda: oc.kaiming(fan_in=50), 25), (lambda: oc.xavier(), 40), (lambda: oc.xavier(fan_in=1, fan_out=9), 5)],
    ids=["a given fan", "an equal sum", "two given fans"],
)
def test_given_fans_override(init: Any, want: float, oracle: Any) -> None:
    (w,) = tied(init()).params.values()
    assert spread(w, oracle) == pytest.approx(want, rel=0.06)


@pytest.mark.parametrize("fan", [0, -1, 1.5, True])
def test_fans_are_numbers_of_cells(fan: Any) -> None:
    with pytest.raises(oc.DataError) as caught:
        oc.xavier(fan_out=fan)
    assert str(caught.value) == f"`fan_out` is a number of cells, from 1, not {fan!r}"


def test_parameters_that_share_an_initializer_differ(oracle: Any) -> None:
    init = oc.kaiming()
    a, b = oc.param("a", init, o=[40]), oc.param("b", init, o=[60])
    x = oc.placeholder("x", **ROW)
    y = (a @ x).sum() + (b @ oc.placeholder("z", batch=[2], output=[200])).sum()
    assert y.dims == ()
    values = [oracle(p + 0) for p in (a, b)]
    assert spread(a, oracle) == pytest.approx(25, rel=0.06)
    assert spread(b, oracle) == pytest.approx(100, rel=0.06)
    assert not np.array_equal(values[0].ravel()[:100] * 2, values[1].ravel()[:100])
