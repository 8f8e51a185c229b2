"""Quantization of ONNX models, compared with ONNX Runtime and with the reference implementation."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto  # noqa: E402
from onnx_nodes import by_ocannl, by_reference, by_runtime, check_node, node_model  # noqa: E402

from ocannl_onnx.errors import UnsupportedModel  # noqa: E402

INTEGERS = ("int8", "uint8", "int16", "uint16")
SEVEN_BITS = -64, 64
"""The range of int8 weights for which ONNX Runtime is exact on processors without VNNI: there it adds pairs of products
with uint8 values in 16 bits, with saturation."""


def zero_point(rng, dtype, shape):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min // 2, limits.max // 2, size=shape).astype(dtype)


def scales(rng, *shape):
    return rng.uniform(0.01, 0.2, size=shape).astype(np.float32)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_quantize_and_dequantize(dtype, axis):
    rng = np.random.default_rng(3)
    x = (rng.normal(size=(3, 4, 5)) * 20).astype(np.float32)
    shape = () if axis is None else (x.shape[axis],)
    attributes = {} if axis is None else {"axis": axis}
    scale, zero = scales(rng, *shape), zero_point(rng, dtype, shape)
    (codes,) = check_node("QuantizeLinear", [x, scale, zero], opset=21, rtol=0, atol=0, **attributes)
    check_node("DequantizeLinear", [codes, scale, zero], opset=21, **attributes)


@pytest.mark.parametrize("opset", [10, 13, 19, 23])
def test_versions(opset):
    rng = np.random.default_rng(opset)
    x = np.array([-1000, -0.25, -0.05, 0.05, 0.15, 0.25, 1000], np.float32)
    inputs = [x, np.array(0.1, np.float32), np.array(7, np.uint8)]
    (codes,) = check_node("QuantizeLinear", inputs, opset=opset, rtol=0, atol=0)
    check_node("DequantizeLinear", [codes, *inputs[1:]], opset=opset)
    check_node("QuantizeLinear", inputs[:2], opset=opset, rtol=0, atol=0)
    accumulated = rng.integers(-(2**20), 2**20, size=6).astype(np.int32)
    check_node("DequantizeLinear", [accumulated, inputs[1]], opset=opset)


@pytest.mark.parametrize("block", [2, 3])
def test_blocks(block):
    rng = np.random.default_rng(block)
    x = (rng.normal(size=(3, 5, 2)) * 9).astype(np.float32)
    shape = (3, -(-5 // block), 2)
    scale, zero = scales(rng, *shape), zero_point(rng, "int8", shape)
    x_blocks = np.repeat(scale, block, 1)[:, :5], np.repeat(zero, block, 1)[:, :5]
    want = np.clip(np.rint(x / x_blocks[0]) + x_blocks[1], -128, 127).astype(np.int8)
    model = node_model("QuantizeLinear", [x, scale, zero], opset=21, axis=1, block_size=block)
    (codes,) = by_ocannl(model, {"x0": x, "x1": scale, "x2": zero})
    np.testing.assert_array_equal(codes, want)
    model = node_model("DequantizeLinear", [codes, scale, zero], opset=21, axis=1, block_size=block)
    (back,) = by_ocannl(model, {"x0": codes, "x1": scale, "x2": zero})
    np.testing.assert_allclose(back, (codes.astype(np.float32) - x_blocks[1]) * x_blocks[0], rtol=1e-6)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2])
def test_float8(kind):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(4, 6)) * 100).astype(np.float32)
    zero = np.zeros((), onnx.helper.tensor_dtype_to_np_dtype(kind))
    scale = np.array(0.25, np.float32)
    (codes,) = check_node("QuantizeLinear", [x, scale, zero], opset=19, peer=by_reference, rtol=0, atol=0)
    check_node("DequantizeLinear", [codes, scale, zero], opset=19, peer=by_reference)


def test_dynamic_quantization():
    rng = np.random.default_rng(1)
    for x in (rng.normal(size=(3, 4)), rng.uniform(1, 2, size=5), -rng.uniform(1, 2, size=5), np.zeros(3)):
        check_node("DynamicQuantizeLinear", [x.astype(np.float32)], opset=11, outputs=3)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_matrix_products(kind):
    rng = np.random.default_rng(2)
    limits = np.iinfo(kind)
    a, b = (rng.integers(limits.min, limits.max, size=s, endpoint=True).astype(kind) for s in ((2, 3, 4), (4, 5)))
    zero = zero_point(rng, kind, ())
    check_node("MatMulInteger", [a, b, zero, zero], opset=10, rtol=0)
    check_node("MatMulInteger", [a, b], opset=10, rtol=0)
    check_node("MatMulInteger", [a[0], b, zero, zero_point(rng, kind, 5)], opset=10, rtol=0)
    small, result = np.array(0.02, np.float32), np.array(0.9, np.float32)
    check_node("QLinearMatMul", [a, small, zero, b, small, zero, result, zero], opset=21, rtol=0, atol=1)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("per_channel", [False, True])
def test_convolutions(group, per_channel):
    rng = np.random.default_rng(group)
    x = rng.integers(0, 256, size=(2, 4, 6, 5)).astype(np.uint8)
    kernel = rng.integers(*SEVEN_BITS, size=(6, 4 // group, 3, 2)).astype(np.int8)
    attributes = {"group": group, "strides": [2, 1], "pads": [1, 0, 1, 1]}
    shape = (6,) if per_channel else ()
    zero, result = np.array(120, np.uint8), np.array(100, np.uint8)
    inputs = [x, np.float32(0.02), zero, kernel, scales(rng, *shape), np.zeros(shape, np.int8),
              np.float32(0.5), result, rng.integers(-500, 500, size=6).astype(np.int32)]  # fmt: skip
    arrays = [np.asarray(value) for value in inputs]
    check_node("QLinearConv", arrays, opset=10, rtol=0, atol=1, **attributes)
    codes = rng.integers(0, 256, size=kernel.shape).astype(np.uint8)
    check_node("ConvInteger", [x, codes, zero, np.array(3, np.uint8)], opset=10, rtol=0, **attributes)


def test_chains_of_dynamically_quantized_convolutions():
    """Codes and scales equal those of ONNX Runtime bit by bit, layer after layer. The activation is computed in double
    precision, so that both round it alike: another last bit changes codes at halves, and these all later results."""
    rng = np.random.default_rng(9)
    nodes, constants, layers = [], {"one": np.array(1.0)}, 6

    def add(operator, inputs, *outputs, **attributes):
        nodes.append(onnx.helper.make_node(operator, inputs.split(), outputs, **attributes))

    for n in range(layers):
        constants[f"w{n}"] = rng.integers(*SEVEN_BITS, size=(8, 8, 3, 3)).astype(np.int8)
        constants[f"w_scale{n}"] = np.float32(rng.uniform(0.002, 0.004))
        add("DynamicQuantizeLinear", f"x{n}", f"codes{n}", f"scale{n}", f"zero{n}")
        add("ConvInteger", f"codes{n} w{n} zero{n}", f"sum{n}", pads=[1, 1, 1, 1])
        add("Cast", f"sum{n}", f"float{n}", to=TensorProto.FLOAT)
        add("Mul", f"scale{n} w_scale{n}", f"step{n}")
        add("Mul", f"float{n} step{n}", f"y{n}")
        add("Cast", f"y{n}", f"double{n}", to=TensorProto.DOUBLE)
        add("Neg", f"double{n}", f"negative{n}")
        add("Exp", f"negative{n}", f"exp{n}")
        add("Add", f"exp{n} one", f"divisor{n}")
        add("Div", f"one divisor{n}", f"ratio{n}")
        add("Cast", f"ratio{n}", f"gate{n}", to=TensorProto.FLOAT)
        add("Mul", f"y{n} gate{n}", f"x{n + 1}")
    shape = 1, 8, 24, 24
    outputs = [(f"codes{n}", TensorProto.UINT8, shape) for n in range(layers)]
    outputs += [(f"scale{n}", TensorProto.FLOAT, ()) for n in range(layers)]
    outputs += [(f"x{layers}", TensorProto.FLOAT, shape)]
    graph = onnx.helper.make_graph(
        nodes,
        "chain",
        [onnx.helper.make_tensor_value_info("x0", TensorProto.FLOAT, shape)],
        [onnx.helper.make_tensor_value_info(*output) for output in outputs],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    for _ in range(3):
        values = {"x0": rng.normal(size=shape).astype(np.float32)}
        for want, got in zip(by_runtime(model, values), by_ocannl(model, values), strict=True):
            np.testing.assert_array_equal(got, want)


def test_refusals():
    zero = np.zeros((), onnx.helper.tensor_dtype_to_np_dtype(TensorProto.INT4))
    x, scale = np.ones((2, 3), np.float32), np.ones((), np.float32)
    model = node_model("QuantizeLinear", [x, scale, zero], opset=21, constants=(2,))
    with pytest.raises(UnsupportedModel, match="int4"):
        by_ocannl(model, {"x0": x, "x1": scale})
    model = node_model("QuantizeLinear", [x, np.ones(2, np.float32)], opset=21, axis=1)
    with pytest.raises(UnsupportedModel, match="parameters"):
        by_ocannl(model, {"x0": x, "x1": np.ones(2, np.float32)})


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
@pytest.mark.parametrize("block", [0, 4])
def test_weights_of_few_bits(dtype, block):
    """Initializers of packed integers, with a scale and a zero point of each column, or of blocks of a column."""
    rng = np.random.default_rng(block)
    bits, low = int(dtype[-1]), 0 if dtype.startswith("u") else -(1 << (int(dtype[-1]) - 1))
    kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(getattr(TensorProto, dtype.upper())))
    rows = 8 // block if block else 1
    codes, zeros = (rng.integers(low, low + (1 << bits), size=(n, 6)).astype(kind) for n in (8, rows))
    scale = scales(rng, rows, 6)
    inputs = [codes, *((scale, zeros) if block else (scale[0], zeros[0]))]
    attributes = {"axis": 0, "block_size": block} if block else {"axis": 1}
    model = node_model("DequantizeLinear", inputs, opset=25, constants=(0, 2), **attributes)
    (actual,) = by_ocannl(model, {"x1": inputs[1]})
    repeats = block or 8
    expected = (codes.astype("float32") - np.repeat(zeros.astype("float32"), repeats, 0)) * np.repeat(scale, repeats, 0)
    np.testing.assert_array_equal(actual, expected)


def test_results_of_four_bits_are_refused():
    zero = np.zeros((), onnx.helper.tensor_dtype_to_np_dtype(TensorProto.INT4))
    inputs = [np.ones(3, np.float32), np.array(0.1, np.float32), zero]
    with pytest.raises(UnsupportedModel, match="int4"):
        by_ocannl(node_model("QuantizeLinear", inputs, opset=21, constants=(1, 2)), {"x0": inputs[0]})
    with pytest.raises(UnsupportedModel, match="int4"):
        by_ocannl(node_model("CastLike", [inputs[0], zero], opset=21, constants=(1,)), {"x0": inputs[0]})
