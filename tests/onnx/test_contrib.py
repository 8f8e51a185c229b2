"""Operators of the domain `com.microsoft`, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx_nodes import check_node  # noqa: E402

DOMAIN = "com.microsoft"
RANDOM = np.random.default_rng(5)


def normal(*dims: int) -> Any:
    return RANDOM.normal(size=dims).astype("float32")


def check(operator: str, inputs: list[Any], **options: Any) -> list[Any]:
    return check_node(operator, inputs, opset=17, domain=DOMAIN, **options)


@pytest.mark.parametrize("operator", ["Gelu", "FastGelu", "QuickGelu"])
def test_activations(operator: str) -> None:
    check(operator, [3 * normal(2, 3, 8)])


@pytest.mark.parametrize("operator", ["BiasGelu", "FastGelu"])
def test_activations_of_sums(operator: str) -> None:
    check(operator, [normal(2, 3, 8), normal(8)])


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("second", [0, 1])
def test_fused_matmul(first: int, second: int) -> None:
    x, y = normal(2, 3, 4), normal(2, 4, 5)
    x, y = (np.swapaxes(a, 1, 2).copy() if flag else a for a, flag in ((x, first), (y, second)))
    check("FusedMatMul", [x, y], transA=first, transB=second, alpha=0.5)


@pytest.mark.parametrize("activation", ["Relu", "Sigmoid", "Tanh"])
def test_fused_conv(activation: str) -> None:
    inputs = [normal(1, 3, 6, 6), normal(4, 3, 3, 3), normal(4), normal(1, 4, 6, 6)]
    check("FusedConv", inputs[:3], activation=activation, pads=[1, 1, 1, 1])
    check("FusedConv", inputs, activation=activation, pads=[1, 1, 1, 1])


def test_skip_layer_normalization() -> None:
    x, skip, scale, shift, bias = normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8), normal(8)
    check("SkipLayerNormalization", [x, skip, scale, shift], epsilon=1e-5)
    check("SkipLayerNormalization", [x, skip, scale, None, bias], epsilon=1e-5)
    check("SkipSimplifiedLayerNormalization", [x, skip, scale], epsilon=1e-5)


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("mask", [None, np.array([4, 2], "int32"), np.array([[1, 1, 1, 1], [1, 0, 1, 1]], "int32")])
def test_attention(unidirectional: int, mask: Any) -> None:
    inputs = [normal(2, 4, 6), normal(6, 24), normal(24), mask]
    check("Attention", inputs if mask is not None else inputs[:3], num_heads=2, unidirectional=unidirectional)


def test_multi_head_attention() -> None:
    q, k, v, bias = normal(2, 3, 8), normal(2, 5, 8), normal(2, 5, 8), normal(24)
    check("MultiHeadAttention", [q, k, v], num_heads=2)
    check("MultiHeadAttention", [q, k, v, bias], num_heads=4, scale=0.3)
    check("MultiHeadAttention", [q, k, v, None, None, normal(2, 2, 3, 5)], num_heads=2)


def codes(*dims: int, dtype: str = "uint8") -> Any:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, size=dims, endpoint=True).astype(dtype)


def weight_codes(*dims: int) -> Any:
    """Values of int8 in seven bits: for these, ONNX Runtime is exact on processors without VNNI as well, where it adds
    pairs of products with uint8 values in 16 bits, with saturation."""
    return RANDOM.integers(-64, 64, size=dims).astype("int8")


def parameters(dtype: str = "uint8") -> list[Any]:
    return [np.array(RANDOM.uniform(0.01, 0.05), "float32"), codes(dtype=dtype)]


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantized_arithmetic(dtype: str) -> None:
    """A difference of one code is allowed: ONNX Runtime rounds the ratio of scales first."""
    x, y = ([codes(2, 3, 4, 4, dtype=dtype), *parameters(dtype)] for _ in range(2))
    constants = (1, 2, 4, 5, 6, 7)
    check("QLinearAdd", [*x, *y, *parameters(dtype)], constants=constants, atol=1)
    check("QLinearMul", [*x, *y, *parameters(dtype)], constants=constants, atol=1)
    check("QLinearLeakyRelu", [*x, *parameters(dtype)], constants=(1, 2, 3, 4), atol=1, alpha=0.2)
    check("QLinearSigmoid", [*x, *parameters(dtype)], constants=(1, 2, 3, 4), atol=1)
    check("QLinearGlobalAveragePool", [*x, *parameters(dtype)], constants=(1, 2, 3, 4), atol=1)
    check("QLinearConcat", [*parameters(dtype), *x, *y], constants=(0, 1, 3, 4, 6, 7), atol=1, axis=1)


def test_quantized_products() -> None:
    scale = np.array(0.02, "float32")
    check("MatMulIntegerToFloat", [codes(3, 4), codes(4, 5), scale, scale, codes(), codes(), normal(5)])
    columns = RANDOM.uniform(0.01, 0.05, size=5).astype("float32")
    check("DynamicQuantizeMatMul", [normal(3, 4), weight_codes(4, 5), columns], constants=(1, 2))
    check("DynamicQuantizeMatMul", [normal(3, 4), codes(4, 5), scale, codes(), normal(5)], constants=(1, 2, 3))


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_quantized_lstm(direction: str) -> None:
    count = 1 + (direction == "bidirectional")
    weights = [weight_codes(count, 4, 12), weight_codes(count, 3, 12)]
    scales = [np.full(count, 0.01, "float32"), np.zeros(count, "int8")] * 2
    inputs = [normal(6, 1, 4), *weights, normal(count, 24), None, None, None, None, *scales]
    constants = (1, 2, 3, 8, 9, 10, 11)
    check("DynamicQuantizeLSTM", inputs, constants=constants, outputs=3, hidden_size=3, direction=direction, atol=1e-4)


def quantized_lstm(x: Any, inputs: Any, hidden: Any, bias: Any, scale: float) -> Any:
    """The definition in NumPy, with exact sums of integers."""

    def product(values: Any, weights: Any) -> Any:
        low, high = min(values.min(), 0), max(values.max(), 0)
        step = np.float32(high - low) / np.float32(255) or np.float32(1)
        zero = np.rint(-low / step)
        codes = np.clip(np.rint(values / step) + zero, 0, 255) - zero
        return (codes.astype("int64") @ weights.astype("int64")) * float(step) * scale

    def sigmoid(v: Any) -> Any:
        return 1 / (1 + np.exp(-v))

    width = len(hidden)
    states, cells, outputs = np.zeros((x.shape[1], width)), np.zeros((x.shape[1], width)), []
    for row in product(x, inputs):
        gates = row + product(states.astype("float32"), hidden) + bias[: 4 * width] + bias[4 * width :]
        entry, exit, forget, candidate = np.split(gates, 4, 1)
        cells = sigmoid(forget) * cells + sigmoid(entry) * np.tanh(candidate)
        states = sigmoid(exit) * np.tanh(cells)
        outputs.append(states)
    return np.stack(outputs)[:, None]


def test_quantized_lstm_with_weights_of_eight_bits() -> None:
    width, scale, model = 16, float(np.float32(0.002)), onnx.helper
    weights = {"w": codes(1, 8, 4 * width, dtype="int8"), "r": codes(1, width, 4 * width, dtype="int8")}
    x, bias = normal(9, 2, 8), normal(1, 8 * width)
    scales = {"ws": np.array([scale], "float32"), "wz": np.zeros(1, "int8")}
    arrays = {**weights, "b": bias, **scales}
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "ws", "wz"]
    node = model.make_node("DynamicQuantizeLSTM", names, ["y"], domain=DOMAIN, hidden_size=width)
    graph = model.make_graph(
        [node],
        "lstm",
        [model.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [model.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    proto = model.make_model(graph, opset_imports=[model.make_opsetid("", 17), model.make_opsetid(DOMAIN, 1)])
    actual = oc.onnx.load(proto).compile(oc.Context("numpy"))(x)
    np.testing.assert_allclose(actual, quantized_lstm(x, weights["w"][0], weights["r"][0], bias[0], scale), atol=2e-6)
