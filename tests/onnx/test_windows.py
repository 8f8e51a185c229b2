"""Convolutions, pooling and regions of interest of ONNX models, compared with ONNX Runtime at random settings."""

import random

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_nodes import by_ocannl, by_reference, check_node, node_model  # noqa: E402

import ocannl as oc  # noqa: E402
import ocannl_onnx  # noqa: E402
from ocannl import train  # noqa: E402
from ocannl_onnx.errors import UnsupportedModel  # noqa: E402


def normal(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def settings(draw, rank, *, pooling):
    """Attributes of windows; the padding of pooling is less than the window."""
    sizes = [draw.randint(1, 3) for _ in range(rank)]
    attributes = {"kernel_shape": sizes, "strides": [draw.randint(1, 3) for _ in range(rank)]}
    mode = draw.choice(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
    if mode == "NOTSET":
        attributes["pads"] = [draw.randint(0, size - 1 if pooling else 2) for size in sizes * 2]
    else:
        attributes["auto_pad"] = mode
    if mode.startswith("SAME"):  # of windows that reach every cell
        attributes["strides"] = [min(step, size) for step, size in zip(attributes["strides"], sizes, strict=True)]
    return attributes


@pytest.mark.parametrize("seed", range(12))
def test_convolution(seed):
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    rank, group = draw.choice([1, 2, 2, 3]), draw.choice([1, 1, 2, 3])
    attributes = settings(draw, rank, pooling=False)
    if not attributes.get("auto_pad", "").startswith("SAME"):
        attributes["dilations"] = [draw.randint(1, 2) for _ in range(rank)]
    channels, maps = draw.randint(1, 2) * group, draw.randint(1, 2) * group
    x = normal(rng, draw.randint(1, 2), channels, *(draw.randint(5, 8) for _ in range(rank)))
    kernel = normal(rng, maps, channels // group, *attributes["kernel_shape"])
    bias = [normal(rng, maps)] if draw.random() < 0.5 else []
    check_node("Conv", [x, kernel, *bias], opset=draw.choice([7, 11, 22]), group=group, **attributes)


@pytest.mark.parametrize("seed", range(12))
def test_transposed_convolution(seed):
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    rank, group = draw.choice([1, 2, 2, 3]), draw.choice([1, 1, 2])
    sizes, stride = ([draw.randint(low, 3) for _ in range(rank)] for low in (2, 1))
    stride = [min(step, size) for step, size in zip(stride, sizes, strict=True)]
    dims = [draw.randint(2, 4) for _ in range(rank)]
    attributes = {"kernel_shape": sizes, "strides": stride}
    match seed % 3:
        case 0:
            attributes["pads"] = [draw.randint(0, 1) for _ in range(2 * rank)]
            attributes["output_padding"] = [draw.randint(0, step - 1) for step in stride]
            attributes["dilations"] = [draw.randint(1, 2) for _ in range(rank)]
        case 1:
            attributes["auto_pad"] = draw.choice(["SAME_UPPER", "SAME_LOWER"])
        case 2:
            natural = [(old - 1) * step + size for old, step, size in zip(dims, stride, sizes, strict=True)]
            attributes["output_shape"] = [size - draw.randint(0, 1) for size in natural]
    channels, maps = draw.randint(1, 2) * group, draw.randint(1, 2)
    x, kernel = normal(rng, 2, channels, *dims), normal(rng, channels, maps, *sizes)
    bias = [normal(rng, maps * group)] if draw.random() < 0.5 else []
    check_node("ConvTranspose", [x, kernel, *bias], opset=draw.choice([7, 11, 22]), group=group, **attributes)


OPSETS = {"MaxPool": [8, 10, 12, 22], "AveragePool": [7, 10, 19, 22], "LpPool": [11, 18, 22]}
DILATIONS = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}  # the first versions with dilations


@pytest.mark.parametrize("operator", OPSETS)
@pytest.mark.parametrize("seed", range(8))
def test_pooling(operator, seed):
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    rank, opset = draw.choice([1, 2, 2, 3]), draw.choice(OPSETS[operator])
    attributes = settings(draw, rank, pooling=True)
    if "pads" in attributes and opset >= DILATIONS[operator]:
        attributes |= {"ceil_mode": draw.randint(0, 1), "dilations": [draw.randint(1, 2) for _ in range(rank)]}
    outputs = 1
    match operator:
        case "MaxPool":
            outputs, attributes["storage_order"] = draw.randint(1, 2), draw.randint(0, 1)
        case "AveragePool":
            attributes["count_include_pad"] = draw.randint(0, 1)
        case "LpPool":
            attributes["p"] = draw.randint(1, 3)
    x = normal(rng, draw.randint(1, 2), draw.randint(1, 3), *(draw.randint(5, 8) for _ in range(rank)))
    check_node(operator, [x], opset=opset, outputs=outputs, **attributes)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_pooling_of_integers(dtype):
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, size=(1, 2, 5, 5)).astype(dtype)
    check_node("MaxPool", [x], opset=12, outputs=2, kernel_shape=[2, 2], pads=[1, 1, 0, 0])


@pytest.mark.parametrize("operator", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_global_pooling(operator):
    for shape in ((2, 3, 5), (1, 2, 3, 4), (2, 1, 2, 3, 4)):
        check_node(operator, [normal(np.random.default_rng(0), *shape)], opset=7)


def test_gradients_of_convolutions():
    """Compared with PyTorch."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, kernel = normal(rng, 2, 4, 7, 6), normal(rng, 6, 2, 3, 2)
    model = node_model("Conv", [x, kernel], opset=22, constants=(1,), group=2, strides=[2, 1], pads=[1, 0, 1, 1])
    block = ocannl_onnx.load(model)
    images = oc.param("x", x, o=list(x.shape))
    loss = (block(images) ** 2).sum()
    ctx = oc.Context()
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    results = [ctx[p.grad] for p in (images, *block.parameters.values())]
    a, k = (torch.tensor(array, requires_grad=True) for array in (x, kernel))
    padded = torch.nn.functional.pad(a, (0, 1, 1, 1))
    (torch.nn.functional.conv2d(padded, k, stride=(2, 1), groups=2) ** 2).sum().backward()
    for got, want in zip(results, (a.grad, k.grad), strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-3)


def test_unpooling():
    rng = np.random.default_rng(0)
    x = normal(rng, 2, 2, 2, 3)
    cells = np.stack([rng.permutation(24)[:6] for _ in range(4)]) + 24 * np.arange(4)[:, None]
    ids = cells.reshape(x.shape).astype(np.int64)
    check_node("MaxUnpool", [x, ids], opset=11, kernel_shape=[2, 2], strides=[2, 2])
    target = np.array([2, 2, 5, 7], np.int64)
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    check_node("MaxUnpool", [x, ids, target], opset=11, constants=(2,), peer=by_reference, **attributes)


@pytest.mark.parametrize("stride", [[1, 1], [2, 1]])
def test_columns(stride):
    rng = np.random.default_rng(0)
    dims, sizes, pads = [6, 5], [2, 3], [0, 1, 1, 0]
    counts = [(dims[n] + pads[n] + pads[n + 2] - sizes[n]) // stride[n] + 1 for n in range(2)]
    inputs = [normal(rng, 2, 3 * 6, counts[0] * counts[1]), np.array(dims, np.int64), np.array(sizes, np.int64)]
    check_node("Col2Im", inputs, opset=18, constants=(1, 2), strides=stride, pads=pads)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("opset", [10, 16])
def test_regions(mode, opset):
    rng = np.random.default_rng(opset)
    x, ids = normal(rng, 2, 3, 7, 8), rng.integers(0, 2, 4)
    corners = np.sort(rng.uniform(-2, 12, size=(4, 2, 2)), axis=1).reshape(4, 4).astype(np.float32)
    attributes = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.5, "mode": mode}
    check_node("RoiAlign", [x, corners, ids], opset=opset, **attributes)
    regions = np.concatenate([ids[:, None], corners], 1).astype(np.float32)
    check_node("MaxRoiPool", [x, regions], opset=11, pooled_shape=[2, 3], spatial_scale=0.7)


@pytest.mark.parametrize("seed", range(4))
def test_deformable_convolution(seed):
    rng = np.random.default_rng(seed)
    group, shares = 1 + seed % 2, 1 + seed // 2
    x, kernel = normal(rng, 2, 4, 6, 7), normal(rng, 4, 4 // group, 2, 3)
    offsets, mask = normal(rng, 2, shares * 12, 3, 7) * 1.5, normal(rng, 2, shares * 6, 3, 7)
    inputs = [x, kernel, offsets, normal(rng, 4) if seed else None, mask if seed < 3 else None]
    attributes = {"group": group, "offset_group": shares, "strides": [2, 1], "pads": [1, 1, 0, 1]}
    check_node("DeformConv", inputs, opset=19, atol=1e-4, **attributes)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "reason"),
    [
        ("Conv", [(1, 3, 5, 5), (2, 2, 3, 3)], {}, "channels"),
        ("Conv", [(1, 2, 5, 5), (2, 2, 3, 3)], {"auto_pad": "NEAR"}, "auto_pad"),
        ("Conv", [(1, 2, 5, 5), (2, 2, 3, 3)], {"pads": [1, 1]}, "pads"),
        ("ConvTranspose", [(1, 3, 5, 5), (2, 2, 3, 3)], {}, "kernel"),
        ("MaxPool", [(1, 3, 5, 5)], {"kernel_shape": [2]}, "axes"),
    ],
)
def test_refusals(operator, inputs, attributes, reason):
    arrays = [np.zeros(shape, np.float32) for shape in inputs]
    model = node_model(operator, arrays, opset=22, **attributes)
    model.graph.output[0].type.CopyFrom(onnx.helper.make_tensor_type_proto(1, [None] * len(inputs[0])))
    with pytest.raises(UnsupportedModel, match=reason):
        by_ocannl(model, {f"x{n}": array for n, array in enumerate(arrays)})


def test_sampling_ratio_of_regions_is_required():
    x, regions, ids = np.zeros((1, 2, 4, 4), np.float32), np.zeros((1, 4), np.float32), np.zeros(1, np.int64)
    model = node_model("RoiAlign", [x, regions, ids], opset=16)
    with pytest.raises(UnsupportedModel, match="sampling_ratio=0"):
        by_ocannl(model, {"x0": x, "x1": regions, "x2": ids})
