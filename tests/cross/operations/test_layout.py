"""Resizing in all conventions of ONNX beside a direct computation, numbers that are none, random crops, refusals, and
random shapes.

OCANNL_TEST_OPERANDS is the number of random shapes of each operation, 4 by default; 200 in the long tier.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.lang.ops.resize import COORDINATES, ROUNDING

Array = np.ndarray[Any, Any]

SHAPES = int(os.environ.get("OCANNL_TEST_OPERANDS", "4"))
INF, NAN = np.inf, np.nan


def evaluated(t: oc.Tensor, backend: str) -> Array:
    ctx = oc.Context(backend)
    ctx.run(oc.forward(t))
    return np.asarray(ctx[t])


# --- resizing --------------------------------------------------------------------------------------------------------


def position(coordinates: str, t: int, old: int, new: int, scale: float) -> float:
    """The definitions of the operator Resize."""
    match coordinates:
        case "half_pixel":
            return (t + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (t + 0.5) / scale - 0.5 if new > 1 else 0.0
        case "half_pixel_symmetric":
            adjustment = new / (scale * old)
            return old / 2 * (1 - adjustment) + (t + 0.5) / scale - 0.5
        case "align_corners":
            return t * (old - 1) / (new - 1) if new > 1 else 0.0
        case _:
            return t / scale


def rounded(x: float, rounding: str) -> int:
    low = int(np.floor(x))
    match rounding:
        case "floor":
            return low
        case "ceil":
            return int(np.ceil(x))
        case "round_prefer_floor":
            return low if x - low <= 0.5 else low + 1
        case _:
            return low if x - low < 0.5 else low + 1


def cubic(d: float, a: float) -> float:
    d = abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def resized(x: Array, new: int, mode: str, coordinates: str, rounding: str, a: float, scale: float) -> Array:
    """A line, cell by cell."""
    old, out = len(x), []
    for t in range(new):
        s = position(coordinates, t, old, new, scale)
        low = int(np.floor(s))
        match mode:
            case "nearest":
                out.append(x[min(max(rounded(s, rounding), 0), old - 1)])
            case "linear":
                s = min(max(s, 0), old - 1)
                low = min(int(np.floor(s)), old - 1)
                out.append(x[low] * (1 - (s - low)) + x[min(low + 1, old - 1)] * (s - low))
            case _:
                taps = range(low - 1, low + 3)
                out.append(sum(cubic(s - n, a) * x[min(max(n, 0), old - 1)] for n in taps))
    return np.array(out)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_every_convention_of_resize(mode: str, coordinates: str, backend: str) -> None:
    x = np.random.default_rng(0).normal(size=5)
    t, wanted, calls = oc.tensor(x[:, None], label="x"), [], []
    for rounding in ROUNDING if mode == "nearest" else ["floor"]:
        for size, scale in ((1, None), (3, None), (4, None), (10, None), (13, 2.7), (3, 0.65)):
            settings: dict[str, Any] = {"mode": mode, "coordinates": coordinates, "rounding": rounding}
            if mode == "cubic":
                settings["cubic_coeff_a"] = -0.6
            how = {"size": [size]} if scale is None else {"scale": [scale]}
            calls.append(oc.resize(t, **how, **settings))
            factor = size / 5 if scale is None else scale
            wanted.append(resized(x, size, mode, coordinates, rounding, -0.6, factor))
    ctx = oc.Context(backend)
    ctx.compile(oc.forward(*calls), keep=calls)()
    for call, want in zip(calls, wanted, strict=True):
        np.testing.assert_allclose(ctx[call][:, 0], want, atol=1e-12)


def test_a_cell_that_is_not_read_may_be_no_number(backend: str) -> None:
    x = oc.tensor(np.array([NAN, 1.0, 2.0, INF])[:, None], label="x")
    for call, want in (
        (oc.resize(x, [2], mode="nearest", coordinates="asymmetric"), [NAN, 2.0]),
        (oc.resize(x, [4]), [NAN, 1.0, 2.0, INF]),
        (oc.resize(x, [3], coordinates="align_corners"), [NAN, 1.5, INF]),
        (oc.resize(x, [120], mode="nearest"), np.repeat([NAN, 1.0, 2.0, INF], 30)),
        (oc.pad(x, 1, "t,c => c", mode="edge"), [NAN, NAN, 1.0, 2.0, INF, INF]),
        (oc.center_crop(x, [2]), [1.0, 2.0]),
    ):
        np.testing.assert_array_equal(evaluated(call, backend)[:, 0], want)


def test_integers_keep_their_type_unless_they_are_averaged(backend: str) -> None:
    x = oc.tensor(np.array([[3], [8], [250]], "uint8"), label="x")
    twice = evaluated(oc.resize(x, [6], mode="nearest"), backend)
    assert twice.dtype == np.uint8 and twice[:, 0].tolist() == [3, 3, 8, 8, 250, 250]
    mean = evaluated(oc.resize(x, [1], mode="area"), backend)
    assert mean.dtype == np.float32 and np.isclose(mean[0, 0], 87)
    largest = evaluated(oc.adaptive_max_pool1d(x, 2), backend)
    assert largest.dtype == np.uint8 and largest[:, 0].tolist() == [8, 250]


# --- crops and grids -------------------------------------------------------------------------------------------------


def test_random_crops_are_windows_at_all_positions(backend: str) -> None:
    x = np.arange(2 * 3 * 4.0).reshape(1, 2, 3, 4) + np.zeros((600, 1, 1, 1))
    images = oc.tensor(x, batch_axes=1, label="images")
    crops = evaluated(oc.random_crop(images, (1, 2), key="crops", counter=0), backend)
    assert crops.shape == (600, 1, 2, 4)
    windows = {x[0, i : i + 1, j : j + 2].tobytes() for i, j in product(range(2), range(2))}
    drawn = [crop.tobytes() for crop in crops]
    assert {*drawn} == windows and all(100 < drawn.count(window) < 200 for window in windows)
    same = evaluated(oc.random_crop(images, (1, 2), key="crops", counter=0), backend)
    assert np.array_equal(same, crops)


def test_positions_outside_and_no_numbers_are_zeros(backend: str) -> None:
    image = oc.tensor(np.full((2, 2, 1), 5.0), label="image")
    grid = oc.tensor(np.array([[NAN, 0.0], [INF, 0.0], [9.0, 9.0], [-1e30, 0.0], [0.0, 0.0]]), label="grid")
    for mode in ("nearest", "bilinear"):
        got = evaluated(oc.grid_sample(image, grid, mode=mode), backend)[:, 0]
        assert got.tolist() == [0.0, 0.0, 0.0, 0.0, 5.0], mode


# --- refusals --------------------------------------------------------------------------------------------------------

IMAGE = oc.tensor(np.ones((4, 5, 3)), label="image")
EMPTY = oc.tensor(np.ones((0, 5, 3)), label="empty")
BOTH = "h,w,c => c"
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no size": (lambda: oc.resize(IMAGE), oc.CodeError, "takes either a size or a scale"),
    "size and scale": (lambda: oc.resize(IMAGE, 3, scale=2), oc.CodeError, "takes either a size or a scale"),
    "no cells": (lambda: oc.resize(IMAGE, 0), oc.CodeError, "`size` of oc.resize is a positive integer"),
    "fewer sizes": (lambda: oc.interpolate(IMAGE, (1, 2, 3, 4)), oc.CodeError, "one to three spatial axes"),
    "a huge size": (lambda: oc.resize(IMAGE, 2**40), oc.CodeError, "would have 1099511627776 cells, and 2**24 are"),
    "huge widths": (lambda: oc.pad(IMAGE, 2**40, BOTH, mode="edge"), oc.CodeError, "and 2**24 are supported"),
    "a tiny scale": (lambda: oc.resize(IMAGE, scale=0.1), oc.CodeError, "4 cells times 0.1 is less than one cell"),
    "no scale": (lambda: oc.resize(IMAGE, scale=NAN), oc.CodeError, "`scale` of oc.resize is a positive number"),
    "an empty image": (lambda: oc.resize(EMPTY, 2), oc.ShapeError, "the axis `h` has no cells to interpolate"),
    "a mode": (lambda: oc.resize(IMAGE, 2, mode="bilinear"), oc.CodeError, "'nearest', 'linear', 'cubic', 'area'"),
    "coordinates": (lambda: oc.resize(IMAGE, 2, coordinates="x"), oc.CodeError, "`coordinates` is one of"),
    "aligned means": (lambda: oc.interpolate(IMAGE, 2, mode="bilinear", align_corners=True, antialias=True),
                      oc.CodeError, "exclude each other"),
    "an unknown size": (lambda: oc.resize(oc.placeholder("u"), (2, 2)), oc.ShapeError, "the axis `h` is unknown"),
    "an unknown rank": (lambda: oc.resize(oc.placeholder("u"), 2), oc.ShapeError, "output axes is unknown"),
    "no axes to pad": (lambda: oc.pad(IMAGE, 1), oc.CodeError, "`image` has 3 output axes: give a spec"),
    "widths": (lambda: oc.pad(IMAGE, (1, 2, 3), BOTH), oc.CodeError, "a pair for each of 2 axes, not (1, 2, 3)"),
    "a width": (lambda: oc.pad(IMAGE, -1, BOTH), oc.CodeError, "a nonnegative integer"),
    "a padding": (lambda: oc.pad(IMAGE, 1, BOTH, mode="mean"), oc.CodeError, "`mode` of oc.pad is one of"),
    "nothing to copy": (lambda: oc.pad(EMPTY, 1, BOTH, mode="wrap"), oc.ShapeError, "no cells to copy"),
    "a part of an axis": (lambda: oc.tile(IMAGE, 2, "(h a),w,c => h,w,c"), oc.CodeError, "removes `a`"),
    "times": (lambda: oc.tile(IMAGE, 1.5, BOTH), oc.CodeError, "`times` of oc.tile is a nonnegative integer"),
    "two axes": (lambda: oc.repeat(IMAGE, 2, BOTH), oc.CodeError, "not along `h`, `w`"),
    "few times": (lambda: oc.repeat(IMAGE, [1, 2], "h,w,c => w,c"), oc.CodeError, "one for each of 4 axes"),
    "the sum of parts": (lambda: oc.split(IMAGE, [1, 2], "h,w,c => w,c"), oc.ShapeError, "have 1 + 2 = 3"),
    "no chunks": (lambda: oc.chunk(IMAGE, 0, "h,w,c => w,c"), oc.CodeError, "a positive integer, not 0"),
    "one axis to rotate": (lambda: oc.rot90(IMAGE, 1, "h,w,c => h,w"), oc.CodeError, "not of 1"),
    "an order": (lambda: oc.meshgrid(oc.iota(2), indexing="yx"), oc.CodeError, "'xy' or 'ij'"),
    "no vectors": (lambda: oc.meshgrid(), oc.CodeError, "at least one vector"),
    "odd channels": (lambda: oc.pixel_shuffle(IMAGE, 2).dims, oc.ShapeError, "multiple of 4"),
    "an odd axis": (lambda: oc.space_to_depth(IMAGE, 2).dims, oc.ShapeError, "multiple of 2"),
    "an order of channels": (lambda: oc.depth_to_space(IMAGE, 2, mode="RCD"), oc.CodeError, "'DCR' or 'CRD'"),
    "a large crop": (lambda: oc.center_crop(IMAGE, 5), oc.ShapeError, "the axis `h` has 4 cells, and 5 are to remain"),
    "half a norm": (lambda: oc.lp_pool2d(IMAGE, 2, p=0.5), oc.CodeError, "a number from 1, not 0.5"),
    "no windows": (lambda: oc.adaptive_avg_pool2d(IMAGE, 0), oc.CodeError, "a positive integer"),
    "windows of nothing": (lambda: oc.adaptive_max_pool2d(EMPTY, 1), oc.ShapeError, "the axis `h` has no cells"),
    "a wide window": (lambda: oc.unfold(IMAGE, 9).dims, oc.ShapeError, "the window is longer than the axis"),
    "windows of vectors": (lambda: oc.fold(oc.iota(3), 2), oc.CodeError, "give `window` as a list"),
    "a mode of sampling": (lambda: oc.grid_sample(IMAGE, IMAGE, mode="area"), oc.CodeError, "`mode` of oc.grid_sample"),
    "coordinates of a grid": (lambda: oc.grid_sample(IMAGE, oc.tensor([1.0])).dims, oc.ShapeError, "indexed up to 1"),
    "sizes of a grid": (lambda: oc.affine_grid(IMAGE, 3), oc.CodeError, "a list of one to three sizes"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_arguments_are_rejected(name: str) -> None:
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=re.escape(message)):
        call()


# --- random shapes ---------------------------------------------------------------------------------------------------


def _pad(x: oc.Tensor, a: Array, random: Random) -> tuple[oc.Tensor, Array]:
    mode = random.choice(["constant", "edge", "reflect", "symmetric", "wrap"])
    widths = [(random.randrange(5), random.randrange(5)) for _ in range(2)]
    return oc.pad(x, widths, BOTH, mode=mode), np.pad(a, (*widths, (0, 0)), mode=mode)


def _roll(x: oc.Tensor, a: Array, random: Random) -> tuple[oc.Tensor, Array]:
    shifts = (random.randrange(-9, 9), random.randrange(-9, 9))
    return oc.roll(oc.flip(x, BOTH), shifts, BOTH), np.roll(a[::-1, ::-1], shifts, (0, 1))


def _repeat(x: oc.Tensor, a: Array, random: Random) -> tuple[oc.Tensor, Array]:
    times = [random.randrange(3) for _ in a]
    n, m = random.randrange(1, 4), random.randrange(1, 4)
    repeated = oc.tile(oc.repeat(x, times, "h,w,c => w,c"), (n, m), BOTH)
    return repeated, np.tile(np.repeat(a, times, 0), (n, m, 1))


def _split(x: oc.Tensor, a: Array, random: Random) -> tuple[oc.Tensor, Array]:
    cut = random.randrange(a.shape[1] + 1)
    first, second = oc.split(x, [cut, a.shape[1] - cut], "h,w,c => h,c")
    return oc.concat("h,a,c; h,b,c => h,b^a,c", first, second), np.roll(a, -cut, 1)


def _resize(x: oc.Tensor, a: Array, random: Random) -> tuple[oc.Tensor, Array]:
    coordinates, mode = random.choice([*COORDINATES]), random.choice(["nearest", "linear", "cubic"])
    rounding, sizes = random.choice([*ROUNDING]), [random.randrange(1, 50) for _ in range(2)]
    want = a
    for axis, new in enumerate(sizes):
        settings = mode, coordinates, rounding, -0.75, new / a.shape[axis]
        want = np.apply_along_axis(lambda line, new=new, s=settings: resized(line, new, *s), axis, want)
    return oc.resize(x, sizes, mode=mode, coordinates=coordinates, rounding=rounding), want


def _blocks(x: oc.Tensor, a: Array, random: Random) -> tuple[oc.Tensor, Array]:
    block, mode = (random.randrange(1, 4), random.randrange(1, 4)), random.choice(["DCR", "CRD"])
    tiled = oc.tile(x, block, BOTH)
    return oc.depth_to_space(oc.space_to_depth(tiled, block, mode=mode), block, mode=mode), np.tile(a, (*block, 1))


@pytest.mark.parametrize("operation", [_pad, _roll, _repeat, _split, _resize, _blocks])
def test_random_shapes(operation: Callable[..., tuple[oc.Tensor, Array]], backend: str) -> None:
    for seed in range(SHAPES):
        random = Random(f"{operation.__name__} {seed}")
        dims = [random.randrange(1, 9) for _ in range(3)]
        a = np.random.default_rng(seed).normal(size=dims)
        call, want = operation(oc.tensor(a, label="x"), a, random)
        got = evaluated(call, backend)
        assert got.shape == want.shape, seed
        np.testing.assert_allclose(got, want, atol=1e-12, err_msg=str(seed))


def test_what_reads_an_updated_array_of_vectors_sees_the_update(ctx: oc.Context) -> None:
    """The update and its readers are one group, whose loop over three components is unrolled."""
    x, total, first, second = (oc.placeholder(n, batch=[64], input=[], output=[3]) for n in ("x", "t", "a", "b"))
    with oc.cd("update") as code:
        total += oc.roll(x, 1, "...|c => ...|") * x
        first[...] = 2.0 * total + x
        second[...] = total * 3.0 - x
    values, before = np.random.default_rng(0).normal(size=(2, 64, 3)).astype("float32")
    for t, array in ((x, values), (total, before), (first, values), (second, values)):
        ctx[t] = array
    ctx.run(code)
    after = before + np.roll(values, 1, 1) * values
    for t, array in ((total, after), (first, 2 * after + values), (second, 3 * after - values)):
        np.testing.assert_allclose(ctx[t], array, rtol=1e-5, atol=1e-5)
