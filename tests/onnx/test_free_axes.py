"""Exported models with free axes: ONNX Runtime computes one file at several sizes as ocannl does for each of them."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

RANDOM = np.random.default_rng(0)
SIZES = {"n": (1, 2, 5), "m": (3, 1, 12)}


def placeholder(n=4, m=6, width=5, dtype="float32"):
    return oc.placeholder("x", b=[n, m], i=[], o=[width] if width else [], dtype=dtype)


def check(function: Any, dynamic=None, make=placeholder, by_tensors=False) -> Any:
    """Exports a function, or a tensor, with free axes; compares it with the function at several sizes."""
    ctx, x = oc.Context("numpy"), make()
    dynamic = dynamic or {0: "n", 1: "m"}
    outputs = function(x) if by_tensors else function
    model = oc.onnx.export(outputs, inputs={"x": x}, ctx=ctx, dynamic={"x": dynamic})
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for n, m in zip(*SIZES.values(), strict=True):
        other = make(**{name: size for name, size in (("n", n), ("m", m)) if name in dynamic.values()})
        result = function(other)
        values = RANDOM.normal(size=other.dims) if x.dtype.is_float else RANDOM.integers(0, 9, other.dims)
        ctx[other] = values
        with oc.training(False), oc.no_grad():
            ctx.init(result)
            ctx.run(oc.forward(result))
        (actual,) = session.run(None, {"x": np.asarray(ctx[other])})
        expected = np.asarray(ctx[result])
        assert actual.shape == expected.shape
        assert np.max(np.abs(actual.astype(float) - expected)) <= 1e-5 * max(1, np.max(np.abs(expected.astype(float))))
    return model


def sizes_of(value: Any) -> list[str | int]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


COMPUTATIONS = {
    "elementwise": lambda x: oc.relu(x * 2 + 1),
    "means": lambda x: x.mean(),
    "means along an axis": lambda x: oc.einsum("n, m|c => m|c", x) / x.dims[0],
    "merged axes": lambda x: oc.einsum("n, m|c => (n m)|c", x),
    "transposed": lambda x: oc.einsum("n, m|c => m, n|c", x),
    "positions": lambda x: x + oc.einsum("m => m|", oc.iota(x.dims[1])).astype("float32"),
    "outer products": lambda x: oc.einsum("n, m|c; n, k|c => n, m, k|", x, x),
    "softmax": lambda x: oc.softmax(x),
    "reversed": lambda x: oc.flip(x, "n, m|c => n|c"),
    "concatenated": lambda x: oc.concat("n, a|c; n, b|c => n, a^b|c", x, x * 2),
}


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_computations_have_any_size(name: str) -> None:
    check(COMPUTATIONS[name])


def image(n=2, m=0):
    return oc.placeholder("x", b=[n], i=[], o=[16, 16, 3])


def tokens(n=2, m=6):
    return oc.placeholder("x", b=[n, m], i=[], o=[], dtype="int32")


NETWORKS = {
    "vit": (image, nn.vit(patch=4, width=16, layers=1, heads=2, inner=32, classes=10), {0: "n"}),
    "unet": (image, nn.unet(classes=2, widths=(4, 8)), {0: "n"}),
    "gpt": (tokens, nn.gpt(vocabulary=9, length=16, width=16, layers=1, heads=2), {0: "n", 1: "m"}),
    "llama": (tokens, nn.llama(vocabulary=9, width=16, layers=1, heads=4, inner=32, kv_heads=2), {0: "n", 1: "m"}),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_have_any_size(name: str) -> None:
    make, net, dynamic = NETWORKS[name]
    model = check(net, dynamic, make)
    names = list(dynamic.values())
    assert sizes_of(model.graph.input[0])[: len(names)] == sizes_of(model.graph.output[0])[: len(names)] == names


def test_tensors_are_copied_for_other_sizes() -> None:
    net = nn.mlp(widths=[8, 3])
    check(net, by_tensors=True)


def test_loops_have_free_batches_and_refuse_free_steps() -> None:
    x = placeholder()
    y = nn.lstm(x, width=3)
    model = oc.onnx.export(y, inputs=[x], ctx=oc.Context("numpy"), dynamic={"x": {0: "n"}})
    assert sizes_of(model.graph.output[0]) == ["n", 6, 3]
    with pytest.raises(oc.onnx.UnsupportedModel, match="does not exist for m = 5"):
        oc.onnx.export(y, inputs=[x], ctx=oc.Context("numpy"), dynamic={"x": {1: "m"}})


def test_sizes_that_are_computed_have_a_text() -> None:
    model = oc.onnx.export(
        COMPUTATIONS["merged axes"], inputs=[placeholder()], ctx=oc.Context("numpy"), dynamic={"x": {0: "n", 1: "m"}}
    )
    assert sizes_of(model.graph.output[0]) == ["n*m", 5]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x * 2 if x.dims[0] % 2 else x + 1, "is Add or Mul"),
        (lambda x: x * float(x.dims[0]) ** 0.5, "no polynomial in the sizes"),
        (lambda x: x * min(x.dims[0], 100), "no polynomial in the sizes"),
        (lambda x: x + oc.tensor(np.ones((4, 6, 5)), batch_axes=2), "does not exist for n = 3"),
        (lambda x: oc.cumprod(x, "n, m|c => m|c"), "no polynomial in the sizes"),
        (lambda x: reduce(lambda y, _: oc.sin(y), range(x.dims[0]), x), "the number of operators depends on sizes"),
        (lambda x: oc.sin(x) if x.dims[0] < 100 else x, "not the same for all sizes"),
    ],
)
def test_models_that_are_not_uniform_are_refused(function: Any, message: str) -> None:
    with pytest.raises(oc.onnx.UnsupportedModel, match=message):
        oc.onnx.export(function, inputs=[placeholder()], ctx=oc.Context("numpy"), dynamic={"x": {0: "n"}})


@pytest.mark.parametrize(
    "dynamic",
    [3, {}, {"x": 0}, {"y": {0: "n"}}, {"x": {3: "n"}}, {"x": {True: "n"}}, {"x": {0: ""}}, {"x": {0: "n", 1: "n"}},
     {"x": {0: "2 n"}}],
)  # fmt: skip
def test_other_arguments_are_refused(dynamic: Any) -> None:
    with pytest.raises(oc.ArgumentError, match="fix"):
        oc.onnx.export(oc.relu, inputs=[placeholder()], dynamic=dynamic)


def test_functions_that_make_parameters_are_refused() -> None:
    with pytest.raises(oc.ArgumentError, match="new parameters in each call"):
        oc.onnx.export(lambda x: nn.lstm(x, width=3), inputs=[placeholder()], dynamic={"x": {0: "n"}})
