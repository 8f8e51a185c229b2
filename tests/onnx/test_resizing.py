"""Resizing and sampling of ONNX models, compared with ONNX Runtime, PyTorch and the reference implementation."""

import random

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_nodes import by_ocannl, by_reference, by_runtime, check_node, node_model

from ocannl_onnx.errors import UnsupportedModel

COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")
ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def normal(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("seed", range(6))
def test_resize(coordinates, seed):
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    x = normal(rng, 1, 2, draw.randint(2, 7), draw.randint(2, 7))
    attributes = {"mode": ("nearest", "linear", "cubic")[seed % 3], "coordinate_transformation_mode": coordinates}
    match attributes["mode"]:
        case "nearest":
            attributes["nearest_mode"] = draw.choice(ROUNDING)
        case "cubic":
            attributes |= {"exclude_outside": draw.randint(0, 1), "cubic_coeff_a": draw.choice([-0.5, -0.75])}
    inputs = [x, None, None, np.array([1, 2, draw.randint(2, 12), draw.randint(2, 12)], np.int64)]
    opset = 19 if coordinates == "half_pixel_symmetric" else draw.choice([13, 18, 19])
    check_node("Resize", inputs, opset=opset, peer=by_reference, constants=(3,), **attributes)
    check_node("Resize", inputs, opset=opset, peer=by_runtime, constants=(3,), **attributes)
    scales = np.array([1, 1, draw.choice([0.5, 0.6, 1.3]), draw.choice([0.8, 2, 2.5])], np.float32)
    check_node("Resize", [x, None, scales], opset=opset, peer=by_reference, constants=(2,), **attributes)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
def test_antialiased_resize(mode, exclude):
    x = normal(np.random.default_rng(0), 1, 1, 9, 8)
    attributes = {"mode": mode, "antialias": 1, "exclude_outside": exclude}
    sizes = np.array([1, 1, 4, 11], np.int64)
    check_node("Resize", [x, None, None, sizes], opset=18, peer=by_reference, constants=(3,), **attributes)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_aspect_ratio(policy):
    x = normal(np.random.default_rng(0), 1, 2, 4, 7)
    inputs = [x, None, None, np.array([9, 5], np.int64)]
    attributes = {"mode": "linear", "axes": [3, 2], "keep_aspect_ratio_policy": policy}
    check_node("Resize", inputs, opset=18, peer=by_reference, constants=(3,), **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("seed", range(3))
def test_regions(mode, seed):
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    x = normal(rng, 1, 2, 5, 6)
    roi = [0, 0, draw.uniform(-0.3, 0.4), draw.uniform(-0.2, 0.4), 1, 1, draw.uniform(0.5, 1.3), draw.uniform(0.5, 1.2)]
    inputs = [x, np.array(roi, np.float32), None, np.array([1, 2, 1 + 3 * seed, 4], np.int64)]
    attributes = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.5, "mode": mode}
    check_node("Resize", inputs, opset=13, peer=by_reference, constants=(1, 3), **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(2, 3), (0.5, 1.5), (0.6, 0.5)])
def test_versions_before_11(mode, scales):
    x, factors = normal(np.random.default_rng(0), 1, 2, 5, 4), np.array([1, 1, *scales], np.float32)
    check_node("Resize", [x, factors], opset=10, constants=(1,), mode=mode)
    if min(scales) >= 1:
        check_node("Upsample", [x, factors], opset=9, constants=(1,), mode=mode)
        check_node("Upsample", [x], opset=7, mode=mode, scales=[float(factor) for factor in factors])


def test_interpolated_integers_are_rounded():
    x = np.random.default_rng(0).integers(-128, 128, size=(1, 1, 4, 5)).astype(np.int8)
    attributes = {"mode": "cubic", "cubic_coeff_a": -0.75}
    sizes = np.array([1, 1, 7, 9], np.int64)
    inputs = [x, None, None, sizes]
    check_node("Resize", inputs, opset=18, peer=by_reference, constants=(3,), rtol=0, atol=1, **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
def test_grid_sample(mode, padding, align):
    rng = np.random.default_rng(0)
    x, grid = normal(rng, 2, 2, 3, 4), rng.uniform(-1.6, 1.6, size=(2, 5, 3, 2)).astype(np.float32)
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
    check_node("GridSample", [x, grid], opset=20, **attributes)
    if mode != "cubic":
        volume, points = normal(rng, 1, 2, 3, 4, 2), rng.uniform(-1.6, 1.6, size=(1, 2, 2, 3, 3)).astype(np.float32)
        check_node("GridSample", [volume, points], opset=20, **attributes)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_grid_sample_of_version_16(mode):
    rng = np.random.default_rng(1)
    x, grid = normal(rng, 2, 2, 3, 4), rng.uniform(-1.6, 1.6, size=(2, 5, 3, 2)).astype(np.float32)
    check_node("GridSample", [x, grid], opset=16, mode=mode)


@pytest.mark.parametrize("dims", [(3, 4), (2, 3, 4)])
@pytest.mark.parametrize("align", [0, 1])
def test_affine_grid(dims, align):
    theta = normal(np.random.default_rng(0), 2, len(dims), len(dims) + 1)
    inputs = [theta, np.array([2, 3, *dims], np.int64)]
    check_node("AffineGrid", inputs, opset=20, peer=by_reference, constants=(1,), align_corners=align)


def test_missing_values_stay_in_the_cells_that_read_them():
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 6)
    x[0, 0, 5] = np.nan
    model = node_model("Resize", [x, None, None, np.array([1, 1, 3])], opset=18, constants=(3,), mode="linear")
    (y,) = by_ocannl(model, {"x0": x})
    assert np.isnan(y[0, 0]).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"mode": "quintic"}, "mode"),
        ({"coordinate_transformation_mode": "middle"}, "coordinate_transformation_mode"),
        ({"nearest_mode": "even"}, "nearest_mode"),
        ({"mode": "nearest", "antialias": 1}, "antialias"),
    ],
)
def test_refusals(attributes, reason):
    x = np.zeros((1, 1, 3), np.float32)
    model = node_model("Resize", [x, None, None, np.array([1, 1, 5])], opset=18, constants=(3,), **attributes)
    with pytest.raises(UnsupportedModel, match=reason):
        by_ocannl(model, {"x0": x})
