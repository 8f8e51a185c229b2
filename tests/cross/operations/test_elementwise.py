"""Elementwise functions: the documented error bounds, signed zeros, integers, refusals and random shapes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

mp = pytest.importorskip("mpmath")
Array = np.ndarray[Any, Any]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operations.md"
SHAPES = int(os.environ.get("OCANNL_TEST_OPERANDS", "4"))
PRECISE = mp.MPContext()
PRECISE.dps = 120

with PRECISE.workdps(120):
    ROOT_PI = PRECISE.sqrt(PRECISE.pi)
Scalar = Callable[[Any], Any]
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772

FUNCTIONS: dict[str, tuple[Scalar, Scalar, float, float]] = {
    # value, derivative, and the interval of the samples
    "erf": (PRECISE.erf, lambda x: 2 / ROOT_PI * PRECISE.exp(-x * x), -9, 9),
    "erfc": (PRECISE.erfc, lambda x: -2 / ROOT_PI * PRECISE.exp(-x * x), -5, 9),
    "erfinv": (PRECISE.erfinv, lambda x: ROOT_PI / 2 * PRECISE.exp(PRECISE.erfinv(x) ** 2), -1, 1),
    "lgamma": (lambda x: PRECISE.log(PRECISE.gamma(x)), PRECISE.digamma, 2.5, 90),
    "digamma": (PRECISE.digamma, lambda x: PRECISE.polygamma(1, x), 1.6, 90),
    "tan": (PRECISE.tan, lambda x: 1 + PRECISE.tan(x) ** 2, -99, 99),
    "asin": (PRECISE.asin, lambda x: 1 / PRECISE.sqrt(1 - x * x), -1, 1),
    "acos": (PRECISE.acos, lambda x: -1 / PRECISE.sqrt(1 - x * x), -1, 1),
    "atan": (PRECISE.atan, lambda x: 1 / (1 + x * x), -9, 9),
    "sinh": (PRECISE.sinh, PRECISE.cosh, -89, 89),
    "cosh": (PRECISE.cosh, PRECISE.sinh, -89, 89),
    "asinh": (PRECISE.asinh, lambda x: 1 / PRECISE.sqrt(1 + x * x), -9, 9),
    "acosh": (PRECISE.acosh, lambda x: 1 / PRECISE.sqrt(x * x - 1), 1, 9),
    "atanh": (PRECISE.atanh, lambda x: 1 / (1 - x * x), -1, 1),
    "log10": (PRECISE.log10, lambda x: 1 / (x * PRECISE.log(10)), 0, 99),
    "cbrt": (lambda x: PRECISE.sign(x) * PRECISE.cbrt(abs(x)), lambda x: 1 / (3 * PRECISE.cbrt(abs(x)) ** 2), -9, 9),
    "logit": (lambda x: PRECISE.log(x / (1 - x)), lambda x: 1 / (x * (1 - x)), 0, 1),
    "selu": (
        lambda x: SELU_SCALE * (x if x > 0 else SELU_ALPHA * PRECISE.expm1(x)),
        lambda x: SELU_SCALE * (1 if x > 0 else SELU_ALPHA * PRECISE.exp(x)), -80, 9,
    ),
    "celu": (lambda x: x if x > 0 else PRECISE.expm1(x), lambda x: 1 if x > 0 else PRECISE.exp(x), -80, 9),
    "log_sigmoid": (lambda x: -PRECISE.log1p(PRECISE.exp(-x)), lambda x: 1 / (1 + PRECISE.exp(x)), -80, 80),
    "tanhshrink": (lambda x: x - PRECISE.tanh(x), lambda x: PRECISE.tanh(x) ** 2, -3, 3),
    "softsign": (lambda x: x / (1 + abs(x)), lambda x: 1 / (1 + abs(x)) ** 2, -9, 9),
}  # fmt: skip


def documented(name: str) -> tuple[float, float, float]:
    """The bounds of values in float32 and float64, and of gradients."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        names, *bounds = line.strip("|").split("|")
        if line.startswith("| `") and f"`{name}`" in names and len(bounds) == 3:
            return tuple(float(re.findall(r"[\d.]+|$", bound)[0] or "inf") for bound in bounds)  # type: ignore[return-value]
    raise AssertionError(f"{PAGE.name} states no bound for {name}")


def arguments(name: str, kind: str) -> Array:
    low, high = FUNCTIONS[name][2:]
    random = np.random.default_rng(0)
    small = np.exp(random.uniform(-30, 0, 60)) * random.choice([-1, 1], 60)
    x = np.concatenate([random.uniform(low, high, 120), small]).astype(kind)
    return x[(x > low) & (x < high)]


def value_and_gradient(function: Callable[..., Any], x: Array, backend: str) -> tuple[Array, Array]:
    p = oc.param("x", x)
    y = function(p)
    loss = y.sum()
    ctx = oc.Context(backend)
    ctx.init(loss)
    ctx.compile(train.grad_update(loss), keep=[y, p.grad])()
    return ctx[y], ctx[p.grad]


def ulp_error(got: Array, exact: list[Any]) -> float:
    """The largest error in units in the last place, of values that are normal numbers."""
    want = np.array([float(e) for e in exact])
    limits = np.finfo(got.dtype)
    unit = np.spacing(np.abs(want).astype(got.dtype)).astype("float64")
    normal = (np.abs(want) > float(limits.tiny)) & (np.abs(want) < float(limits.max))
    errors = [float(abs(PRECISE.mpf(float(g)) - e) / u) for g, e, u in zip(got, exact, unit, strict=True)]
    return float(np.array(errors)[normal].max())


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_documented_error_bounds(name: str, kind: str, backend: str) -> None:
    exact, slope = FUNCTIONS[name][:2]
    x = arguments(name, kind)
    points = [PRECISE.mpf(float(v)) for v in x]
    value, gradient = value_and_gradient(getattr(oc, name), x, backend)
    single, double, of_gradient = documented(name)
    slack = 1.0 if backend == "numpy" and kind == "float32" else 0.0  # functions of NumPy, and no fused operations
    assert ulp_error(value, [exact(p) for p in points]) <= (single if kind == "float32" else double) + slack
    if not (name == "lgamma" and kind == "float64"):
        assert ulp_error(gradient, [slope(p) for p in points]) <= of_gradient + slack


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_exact_gelu_is_accurate_in_the_tail(kind: str, backend: str) -> None:
    x = np.linspace(-12.5, 9, 200).astype(kind)
    points = [PRECISE.mpf(float(v)) for v in x]
    value, gradient = value_and_gradient(partial(oc.gelu, approximate="none"), x, backend)
    root = PRECISE.sqrt(2)
    assert ulp_error(value, [p * PRECISE.erfc(-p / root) / 2 for p in points]) <= 4
    slope = [PRECISE.erfc(-p / root) / 2 + p * PRECISE.exp(-p * p / 2) / (root * ROOT_PI) for p in points]
    assert np.abs(gradient - np.array([float(s) for s in slope])).max() <= 4 * np.finfo(kind).eps


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_erf_reaches_its_limits(kind: str, backend: str) -> None:
    x = np.array([np.inf, 1e30, 6.0, -6.0, -np.inf]).astype(kind)
    value, gradient = value_and_gradient(oc.erf, x, backend)
    assert value.tolist() == [1, 1, 1, -1, -1]
    assert gradient[[0, 1, -1]].tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_the_second_derivative_of_the_exact_gelu_is_continuous(kind: str, ctx: oc.Context) -> None:
    x = oc.placeholder("x", batch=[4], input=[], output=[], dtype=kind)
    slope = oc.jvp(oc.gelu(x, approximate="none"), {x: 1.0})
    curvature = oc.jvp(slope, {x: 1.0})
    ctx[x] = np.array([0.0, -0.0, 1e-6, -1e-6])
    ctx.run(curvature.forward)
    np.testing.assert_allclose(ctx[curvature], np.sqrt(2 / np.pi), rtol=1e-5)


ZEROS = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf])


def run(result: oc.Tensor, backend: str) -> Array:
    ctx = oc.Context(backend)
    ctx.init(result)
    ctx.compile(result.forward)()
    return ctx[result]


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_signs_of_zeros(kind: str, backend: str) -> None:
    y, x = (a.ravel().astype(kind) for a in np.meshgrid(ZEROS, ZEROS))
    got = run(oc.atan2(oc.tensor(y), oc.tensor(x)), backend)
    np.testing.assert_allclose(got, np.arctan2(y, x), rtol=1e-6)
    assert np.array_equal(np.signbit(got), np.signbit(np.arctan2(y, x)))
    assert np.array_equal(run(oc.copysign(oc.tensor(x), oc.tensor(y)), backend), np.copysign(x, y))
    assert np.array_equal(run(oc.signbit(oc.tensor(x)), backend), np.signbit(x))


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_remainders_of_integers(kind: str, backend: str) -> None:
    x = np.array([7, -7, 7, -7, 0, np.iinfo(kind).min, np.iinfo(kind).max], kind)
    y = np.array([3, 3, -3, -3, 5, 3, -2], kind)
    got = run(oc.fmod(oc.tensor(x), oc.tensor(y)), backend)
    assert got.dtype == x.dtype and np.array_equal(got, np.fmod(x, y))
    assert np.array_equal(run(oc.square(oc.tensor(y)), backend), y * y)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_numbers_in_place_of_infinities(kind: str, backend: str) -> None:
    x = oc.tensor(np.array([np.nan, np.inf, -np.inf, 2.0])).astype(kind)
    largest = float(oc.nan_to_num(x).numpy()[1])
    assert np.isfinite(largest) and float(run(oc.nan_to_num(x), backend)[1]) == largest
    np.testing.assert_array_equal(run(oc.nan_to_num(x), backend).astype(float), [0, largest, -largest, 2])


@pytest.mark.parametrize("seed", range(SHAPES))
@pytest.mark.parametrize("name", ["hypot", "atan2", "fmod", "copysign", "logical_xor", "heaviside", "isclose"])
def test_random_shapes(name: str, seed: int, backend: str) -> None:
    random = np.random.default_rng(seed)
    shape = random.integers(0, 5, random.integers(0, 4))
    shapes = [[1 if random.random() < 0.3 else n for n in shape[random.integers(0, len(shape) + 1) :]] for _ in "xy"]
    x, y = (random.uniform(-3, 3, s).astype("float32") for s in shapes)
    peer = {"atan2": np.arctan2}.get(name) or getattr(np, name)
    got = run(getattr(oc, name)(oc.tensor(x), oc.tensor(y)), backend)
    np.testing.assert_allclose(got, peer(x, y), rtol=1e-6, atol=1e-7)


def test_refusals() -> None:
    x = oc.tensor([[1.0, 2.0, 3.0]], label="x")
    with pytest.raises(oc.CodeError, match='approximate="erf" is neither'.replace('"', "'")):
        oc.gelu(x, approximate="erf")
    with pytest.raises(oc.ShapeError, match="make that size a multiple of 2"):
        oc.glu(x, "t,c => t")
    with pytest.raises(oc.CodeError, match="along one axis"):
        oc.glu(x)
    with pytest.raises(oc.DataError, match="`alpha` of oc.celu must be a positive number"):
        oc.celu(x, alpha=0.0)
    with pytest.raises(oc.CodeError, match="threshold"):
        oc.threshold(x)


@pytest.mark.parametrize(
    ("name", "answer"), [("arctan2", "atan2"), ("rad2deg", "degrees"), ("hardswish", "hard_swish"), ("arcsin", "asin")]
)
def test_other_spellings_are_answered(name: str, answer: str) -> None:
    with pytest.raises(AttributeError, match=f"write oc.{answer}"):
        getattr(oc, name)
