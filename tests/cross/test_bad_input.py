"""Bad input is refused in words or computed right; afterwards everything is as usable as before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train


@pytest.fixture
def ctx(backend: str) -> oc.Context:
    return oc.Context(backend)


def still_usable(ctx: oc.Context) -> None:
    x = oc.tensor([1.0, 2.0])
    w = oc.param("w", 3.0)
    loss = (w * x).sum()
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    assert ctx[loss] == 9
    assert ctx[w.grad].tolist() == [1, 2]


def data(*shape: int) -> oc.Tensor:
    return oc.tensor(np.ones(shape, "float32"))


def value(ctx: oc.Context, t: oc.Tensor) -> np.ndarray:
    ctx.run(t.forward)
    return ctx[t]


REFUSED: dict[str, tuple[type[Exception], Callable[[oc.Context], object]]] = {
    # specs
    "a spec without an arrow": (oc.EinsumSyntaxError, lambda ctx: oc.einsum("ij", data(2, 2))),
    "a spec with two arrows": (oc.EinsumSyntaxError, lambda ctx: oc.einsum("i => i => i", data(2))),
    "a spec of strange characters": (oc.EinsumSyntaxError, lambda ctx: oc.einsum("i$ => i", data(2))),
    "a spec that is no text": (oc.EinsumSyntaxError, lambda ctx: oc.einsum(None, data(2))),
    "an endless spec": (oc.EinsumSyntaxError, lambda ctx: oc.einsum("i" * 100_000, data(2))),
    "too few operands": (oc.CodeError, lambda ctx: oc.einsum("i;i => i", data(2))),
    "an unknown name": (oc.CodeError, lambda ctx: oc.einsum("i => i", data(2), j=3)),
    "an unknown reduction": (oc.CodeError, lambda ctx: oc.einsum("i => ", data(2), reduce="median")),
    # shapes
    "sizes that disagree": (oc.ShapeError, lambda ctx: (data(2) + data(3)).dims),
    "rows that disagree": (oc.ShapeError, lambda ctx: (data(2) @ data(2)).dims),
    "an index outside": (oc.ShapeError, lambda ctx: oc.einsum("i5 => i", data(2, 3)).dims),
    "a slice outside": (oc.ShapeError, lambda ctx: oc.tensor(np.ones((2, 3)), batch_axes=1)[2].dims),
    "a slice of nothing": (oc.ShapeError, lambda ctx: data(3)[0].dims),
    "a forgotten dimension": (oc.ShapeError, lambda ctx: (oc.param("v") @ oc.param("w")).dims),
    "more cells than memory": (oc.ShapeError, lambda ctx: oc.full(1.0, b=[], i=[], o=[2**40, 2**40]).dims),
    "two sizes for one name": (oc.ShapeError, lambda ctx: oc.einsum("ii => i", data(2, 3)).dims),
    # types and values
    "an unknown type": (oc.DtypeError, lambda ctx: oc.tensor([1], dtype="float20")),
    "complex numbers": (oc.DtypeError, lambda ctx: oc.tensor(np.array([1j]))),
    "objects": (oc.DtypeError, lambda ctx: oc.tensor(np.array([None]))),
    "ragged lists": (oc.DataError, lambda ctx: oc.tensor([[1], [2, 3]])),
    "empty lists": (oc.DataError, lambda ctx: oc.tensor([])),
    # code
    "reading what nothing wrote": (oc.UninitializedError, lambda ctx: value(ctx, oc.placeholder("p", o=[2]) * 2)),
    "reading a parameter without a value": (oc.UninitializedError, lambda ctx: value(ctx, oc.param("p", o=[2]) * 2)),
    "asking for what was never computed": (oc.UninitializedError, lambda ctx: ctx[data(2) * 2]),
    "running what is no code": (oc.CodeError, lambda ctx: ctx.run(3)),
    "running a tensor": (oc.CodeError, lambda ctx: ctx.run(data(2))),
    "a loss without parameters": (oc.CodeError, lambda ctx: train.grad_update(data(2).sum())),
    "a symbol that is missing": (oc.CodeError, lambda ctx: ctx.run((data(2) * oc.symbol("n", 0, 3)).forward)),
    "a symbol out of range": (oc.DataError, lambda ctx: ctx.run((data(2) * oc.symbol("n", 0, 3)).forward, n=3)),
    "a symbol that is no integer": (oc.CodeError, lambda ctx: ctx.run((data(2) * oc.symbol("n", 0, 3)).forward, n=1.5)),
    "a symbol that is not there": (oc.CodeError, lambda ctx: ctx.run((data(2) * 2).forward, n=1)),
    # setting arrays
    "an array of another shape": (oc.ShapeError, lambda ctx: ctx.__setitem__(oc.placeholder("p", o=[2]), np.ones(3))),
    "an array of words": (oc.OcannlError, lambda ctx: ctx.__setitem__(oc.placeholder("p", o=[1]), np.array(["a"]))),
    "a backend that is not there": (oc.UnknownBackend, lambda ctx: oc.Context("no such backend")),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_wrong_is_refused_and_leaves_no_trace(kind: str, ctx: oc.Context) -> None:
    error, act = REFUSED[kind]
    with pytest.raises(error) as caught:
        act(ctx)
    assert isinstance(caught.value, oc.OcannlError)
    assert len(str(caught.value)) > 20
    still_usable(ctx)


def strided() -> tuple[np.ndarray, oc.Tensor]:
    array = np.arange(24, dtype="float32").reshape(4, 6)[::2, ::-2]
    return array, oc.tensor(array)


def read_only() -> tuple[np.ndarray, oc.Tensor]:
    array = np.arange(4, dtype="float32")
    array.setflags(write=False)
    return array, oc.tensor(array)


def fortran() -> tuple[np.ndarray, oc.Tensor]:
    array = np.asfortranarray(np.arange(12, dtype="float32").reshape(3, 4))
    return array, oc.tensor(array)


def foreign_order() -> tuple[np.ndarray, oc.Tensor]:
    array = np.arange(4, dtype=">f8")
    return array, oc.tensor(array)


def broadcast() -> tuple[np.ndarray, oc.Tensor]:
    array = np.broadcast_to(np.arange(3, dtype="float32"), (2, 3))
    return array, oc.tensor(array)


def non_finite() -> tuple[np.ndarray, oc.Tensor]:
    return np.array([np.nan, np.inf, -np.inf]), oc.tensor([float("nan"), float("inf"), -float("inf")])


def without_axes() -> tuple[np.ndarray, oc.Tensor]:
    return np.array(3.0), oc.tensor(np.array(3.0))


@pytest.mark.parametrize("make", [strided, read_only, fortran, foreign_order, broadcast, non_finite, without_axes])
def test_odd_arrays_are_read_as_they_are(make: Callable[[], Any], ctx: oc.Context) -> None:
    array, t = make()
    np.testing.assert_array_equal(value(ctx, t * 1), array)
    p = oc.placeholder("p", o=list(array.shape), b=[], i=[], dtype="float64")
    ctx[p] = array
    np.testing.assert_array_equal(value(ctx, p + 0), array)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_arrays_of_no_cells(shape: tuple[int, ...], ctx: oc.Context) -> None:
    x = oc.tensor(np.ones(shape, "float32"), batch_axes=1)
    assert value(ctx, x * 2 + 1).shape == shape
    assert value(ctx, x.sum()) == 0
    assert value(ctx, x.max()) == -np.inf
    w = oc.param("w", 2.0)
    loss = (w * x).sum()
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    assert ctx[loss] == 0
    assert not ctx[w.grad].any()
    still_usable(ctx)


def test_an_empty_batch_trains_nothing(ctx: oc.Context) -> None:
    x, t = (oc.tensor(np.ones((0, n), "float32"), batch_axes=1) for n in (3, 2))
    w = oc.param("w", np.ones((2, 3), "float32"), i=[3], o=[2])
    loss = ((w @ x - t) ** 2).sum()
    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.1, momentum=0.9)))
    step()
    step()
    assert ctx[w].tolist() == np.ones((2, 3)).tolist()
    still_usable(ctx)


def test_an_error_within_a_graph_leaves_its_tensors_usable(ctx: oc.Context) -> None:
    x, w = data(3), oc.param("w", o=[2])
    y = w @ x
    with pytest.raises(oc.ShapeError):
        _ = (y + data(5)).dims
    z = y * 2
    ctx.init(z)
    assert value(ctx, z).shape == (2,)
    with pytest.raises(oc.ShapeError):
        _ = (w @ data(4)).dims
    assert w.dims == (2, 3)
    still_usable(ctx)
