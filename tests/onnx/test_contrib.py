"""Operators of the domain `com.microsoft`, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
