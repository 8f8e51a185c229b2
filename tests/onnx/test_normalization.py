"""Normalizations of ONNX models, compared with ONNX Runtime and with the reference implementation."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_nodes import by_ocannl, by_reference, check_node, node_model

from ocannl_onnx.errors import UnsupportedModel

HALF = {"rtol": 4e-3, "atol": 6e-3}
SHAPES = ((3, 4, 5), (2, 4, 3, 5), (2, 4, 2, 3, 2))


def normal(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def batch_inputs(rng, shape):
    channels = shape[1]
    return [normal(rng, *shape), *(normal(rng, channels) for _ in range(3)), np.abs(normal(rng, channels)) + 0.1]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_normalization(shape, opset):
    check_node("BatchNormalization", batch_inputs(np.random.default_rng(0), shape), opset=opset, epsilon=1e-3)


def test_batch_normalization_while_training():
    inputs = batch_inputs(np.random.default_rng(0), (3, 4, 5, 2))
    attributes = {"training_mode": 1, "momentum": 0.7}
    check_node("BatchNormalization", inputs, opset=15, outputs=3, peer=by_reference, **attributes)


@pytest.mark.parametrize("shape", SHAPES)
def test_instance_and_group_normalization(shape):
    rng = np.random.default_rng(1)
    inputs = [normal(rng, *shape), normal(rng, 4), normal(rng, 4)]
    check_node("InstanceNormalization", inputs, opset=22, epsilon=1e-3)
    for groups in (1, 2, 4):
        check_node("GroupNormalization", inputs, opset=21, num_groups=groups)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("outputs", [1, 3])
def test_layer_normalization(axis, outputs):
    rng = np.random.default_rng(2)
    x = normal(rng, 3, 4, 5)
    scale, bias = (normal(rng, *x.shape[axis:]) for _ in range(2))
    check_node("LayerNormalization", [x, scale, bias], opset=17, outputs=outputs, axis=axis)
    check_node("LayerNormalization", [x, scale], opset=17, outputs=outputs, axis=axis)
    check_node("RMSNormalization", [x, scale], opset=23, peer=by_reference, axis=axis)


def test_half_precision():
    rng = np.random.default_rng(3)
    inputs = [array.astype(np.float16) for array in batch_inputs(rng, (2, 4, 5))]
    check_node("BatchNormalization", inputs, opset=15, **HALF)
    check_node("LayerNormalization", [inputs[0], normal(rng, 5).astype(np.float16)], opset=17, **HALF)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_local_response_normalization(size):
    x = normal(np.random.default_rng(size), 2, 4, 3, 5)
    attributes = {"size": size, "alpha": 0.3, "beta": 0.6, "bias": 1.5}
    if size % 2:
        check_node("LRN", [x], opset=13, **attributes)
    low, high = (size - 1) // 2, size // 2
    squares = [(x[:, max(0, c - low) : c + high + 1] ** 2).sum(1) for c in range(4)]
    want = x / (1.5 + 0.3 / size * np.stack(squares, 1)) ** 0.6
    (y,) = by_ocannl(node_model("LRN", [x], opset=13, **attributes), {"x0": x})
    np.testing.assert_allclose(y, want, rtol=1e-5)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_lp_normalization(p, axis):
    x = normal(np.random.default_rng(p), 3, 4, 5)
    check_node("LpNormalization", [x], opset=22, p=p, axis=axis)
    x[:, :, 2], x[1] = 0, 0
    norm = np.linalg.norm(x, p, axis=axis, keepdims=True)
    (y,) = by_ocannl(node_model("LpNormalization", [x], opset=22, p=p, axis=axis), {"x0": x})
    np.testing.assert_allclose(y, x / np.where(norm == 0, 1, norm), rtol=1e-5)


@pytest.mark.parametrize("axes", [[0, 2, 3], [1, 2], [-1]])
def test_mean_variance_normalization(axes):
    x = normal(np.random.default_rng(0), 2, 3, 4, 5)
    check_node("MeanVarianceNormalization", [x], opset=13, axes=axes)


def test_dropout():
    x = normal(np.random.default_rng(0), 3, 4)
    check_node("Dropout", [x], opset=12, outputs=2)
    check_node("Dropout", [x], opset=10, ratio=0.3)
    check_node("Dropout", [x, np.array(0.3, np.float32), np.array(False)], opset=13, constants=(1, 2))
    inputs = [x, np.array(0.3, np.float32), np.array(True)]
    with pytest.raises(UnsupportedModel, match="training mode"):
        by_ocannl(node_model("Dropout", inputs, opset=13, constants=(1, 2)), {"x0": x})
    with pytest.raises(UnsupportedModel, match="mask"):
        by_ocannl(node_model("Dropout", [x], opset=10, outputs=2), {"x0": x})
