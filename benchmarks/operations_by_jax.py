"""The rows of `operations.py` that JAX has, by name: functions of the operands, compiled as a whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special
from jax.scipy.signal import stft as windowed_transforms

KEY = jax.random.key(0)
IMAGE_DIMENSIONS = ("NHWC", "HWIO", "NHWC")


def as_pairs(x: jax.Array) -> jax.Array:
    """Complex numbers as pairs of real numbers."""
    return jnp.stack((x.real, x.imag), -1)


def resized(method: str, scale: float, x: jax.Array) -> jax.Array:
    h, w, c = x.shape
    return jax.image.resize(x, (int(h * scale), int(w * scale), c), method)


def windows(initial: float, combine: Callable[..., Any], x: jax.Array, window: int, stride: int) -> jax.Array:
    """Reductions of windows of the first two axes."""
    return lax.reduce_window(x, initial, combine, (window, window, 1), (stride, stride, 1), "VALID")


def depth_to_space(x: jax.Array) -> jax.Array:
    h, w, c = x.shape
    return x.reshape(h, w, c // 4, 2, 2).transpose(0, 3, 1, 4, 2).reshape(2 * h, 2 * w, c // 4)


def space_to_depth(x: jax.Array) -> jax.Array:
    h, w, c = x.shape
    return x.reshape(h // 2, 2, w // 2, 2, c).transpose(0, 2, 4, 1, 3).reshape(h // 2, w // 2, 4 * c)


def normalized_response(x: jax.Array) -> jax.Array:
    sums = lax.reduce_window(x * x, 0.0, lax.add, (1, 1, 5), (1, 1, 1), [(0, 0), (0, 0), (2, 2)])
    return x / (1 + 1e-4 / 5 * sums) ** 0.75


def smooth_l1(x: jax.Array, y: jax.Array) -> jax.Array:
    d = jnp.abs(x - y)
    return jnp.where(d < 1, 0.5 * d * d, d - 0.5)


def gaussian_nll(x: jax.Array, y: jax.Array, v: jax.Array) -> jax.Array:
    v = jnp.maximum(v, 1e-6)
    return 0.5 * (jnp.log(v) + (x - y) ** 2 / v)


def cross_entropy(x: jax.Array) -> jax.Array:
    logs = jax.nn.log_softmax(x, 1)
    return -(0.9 * logs[:, 0] + 0.1 * logs.mean(1))


def multi_margin(x: jax.Array) -> jax.Array:
    return (jnp.maximum(1 - x[:, :1] + x, 0).sum(1) - 1) / x.shape[1]


def triplet_margin(x: jax.Array, y: jax.Array, z: jax.Array) -> jax.Array:
    near, far = (jnp.sqrt(((x - target + 1e-6) ** 2).sum(1)) for target in (y, z))
    return jnp.maximum(near - far + 1, 0)


def order(p: float, x: jax.Array) -> jax.Array:
    return jnp.linalg.norm(x, p, axis=1)


def cosine_similarity(x: jax.Array, y: jax.Array) -> jax.Array:
    return (x * y).sum(1) / jnp.sqrt((x * x).sum(1) * (y * y).sum(1))


def distances(x: jax.Array, y: jax.Array) -> jax.Array:
    squares = (x * x).sum(1)[:, None] + (y * y).sum(1)[None] - 2 * x @ y.T
    return jnp.sqrt(jnp.maximum(squares, 0))


def moments(x: jax.Array) -> jax.Array:
    return x.mean(1) + x.var(1)


def poisson_nll(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.exp(x) - y * x


def short_time(x: jax.Array) -> jax.Array:
    return as_pairs(windowed_transforms(x, nperseg=256, noverlap=192, boundary=None, padded=False)[2])


def indexed(draw: Callable[..., np.ndarray]) -> dict[str, Callable[..., Any]]:
    """The rows with indices, which `draw` draws below the first of the sizes given."""

    def indices(*sizes: int) -> jax.Array:
        return lax.optimization_barrier(jnp.asarray(draw(*sizes)))  # no constant, which the compiler would fold

    return {
        "take_along_axis 0": lambda x: jnp.take_along_axis(x, indices(*x.shape), 0),
        "take_along_axis 1": lambda x: jnp.take_along_axis(x, indices(*x.shape), 1),
        "put_along_axis 0": lambda x, v: x.at[indices(*x.shape), np.arange(x.shape[1])[None]].add(v),
        "put_along_axis 1": lambda x, v: x.at[np.arange(x.shape[0])[:, None], indices(*x.shape)].set(v),
        "index_update add": lambda x, v: x.at[indices(x.shape[0])].add(v),
        "index_update set": lambda x, v: x.at[indices(x.shape[0])].set(v),
        "segment_sum": lambda x: jax.ops.segment_sum(x, indices(x.shape[0]) % 64, 64),
        "segment_max": lambda x: jax.ops.segment_max(x, indices(x.shape[0]), x.shape[0]),
        "bincount": lambda x: jnp.bincount(indices(*x.shape).ravel(), length=x.shape[0]),
        "unique": lambda x: jnp.unique(indices(*x.shape).ravel(), size=x.shape[0]),
    }


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tan": jnp.tan, "asin": jnp.asin, "acos": jnp.acos, "atan": jnp.atan, "atan2": jnp.atan2, "sinh": jnp.sinh,
    "cosh": jnp.cosh, "asinh": jnp.asinh, "acosh": jnp.acosh, "atanh": jnp.atanh, "hypot": jnp.hypot,
    "sinc": jnp.sinc, "erf": special.erf, "erfc": special.erfc, "erfinv": special.erfinv, "lgamma": special.gammaln,
    "digamma": special.digamma, "log10": jnp.log10, "expm1": jnp.expm1, "log1p": jnp.log1p, "logit": special.logit,
    "gelu exact": partial(jax.nn.gelu, approximate=False), "gelu tanh": jax.nn.gelu, "relu6": jax.nn.relu6,
    "selu": jax.nn.selu, "celu": jax.nn.celu, "mish": jax.nn.mish, "prelu": lambda x, a: jnp.where(x > 0, x, a * x),
    "log_sigmoid": jax.nn.log_sigmoid, "hard_sigmoid": jax.nn.hard_sigmoid, "hard_swish": jax.nn.hard_swish,
    "hard_tanh": jax.nn.hard_tanh, "hardshrink": lambda x: jnp.where(jnp.abs(x) > 0.5, x, 0),
    "softshrink": lambda x: jnp.sign(x) * jnp.maximum(jnp.abs(x) - 0.5, 0), "tanhshrink": lambda x: x - jnp.tanh(x),
    "softsign": jax.nn.soft_sign, "threshold": lambda x: jnp.where(x > 0.1, x, 2.0), "glu": jax.nn.glu,
    "lerp": lambda x, y, t: x + t * (y - x), "fmod": jnp.fmod, "copysign": jnp.copysign, "nan_to_num": jnp.nan_to_num,
    "square": jnp.square,
    "interpolate nearest": partial(resized, "nearest", 1.5), "interpolate bilinear": partial(resized, "linear", 1.5),
    "pad zeros": lambda x: jnp.pad(x, ((3, 3), (3, 3), (0, 0))),
    "pad reflect": lambda x: jnp.pad(x, ((3, 3), (3, 3), (0, 0)), mode="reflect"),
    "flip": lambda x: jnp.flip(x, (0, 1)), "roll": lambda x: jnp.roll(x, (5, 7), (0, 1)), "rot90": jnp.rot90,
    "tile": lambda x: jnp.tile(x, (1, 2, 1)), "repeat": lambda x: jnp.repeat(x, 2, 1),
    "pixel_shuffle": depth_to_space, "pixel_unshuffle": space_to_depth,
    "lp_pool2d": lambda x: jnp.sqrt(windows(0.0, lax.add, x * x, 2, 2)), "local_response_norm": normalized_response,
    "smooth_l1_loss": smooth_l1, "log_cosh": lambda x, y: jnp.logaddexp(x - y, y - x) - math.log(2),
    "binary_cross_entropy": lambda x, y: jax.nn.softplus(x) - x * y, "poisson_nll_loss": poisson_nll,
    "gaussian_nll_loss": gaussian_nll, "soft_margin_loss": lambda x, y: jax.nn.softplus(-x * y),
    "kl_div": lambda x, y: (special.xlogy(y, y) - y * x).sum(1), "cross_entropy smooth": cross_entropy,
    "multi_margin_loss": multi_margin, "triplet_margin_loss": triplet_margin, "norm": partial(order, 2),
    "norm of order 3": partial(order, 3), "norm of order 2.5": partial(order, 2.5),
    "matrix_norm 1": lambda x: jnp.linalg.norm(x, 1),
    "normalize": lambda x: x / jnp.maximum(jnp.linalg.norm(x, axis=1, keepdims=True), 1e-12),
    "cosine_similarity": cosine_similarity, "cdist": distances,
    "cdist 1": lambda x, y: jnp.abs(x[:, None] - y[None]).sum(2), "nansum": lambda x: jnp.nansum(x, 1),
    "nanmean": lambda x: jnp.nanmean(x, 1), "ptp": lambda x: jnp.ptp(x, 1), "moments": moments, "cov": jnp.cov,
    "corrcoef": jnp.corrcoef, "cross": jnp.cross, "kron": jnp.kron,
    "exponential": lambda x: jax.random.exponential(KEY, (1 << 22,)),
    "truncated_normal": lambda x: jax.random.truncated_normal(KEY, -2, 2, (1 << 22,)),
    "gamma": lambda x: jax.random.gamma(KEY, 2.0, (1 << 20,)),
    "poisson": lambda x: jax.random.poisson(KEY, 5.0, (1 << 20,)),
    "categorical": lambda x: jax.random.categorical(KEY, x),
    "permutation": lambda x: jax.random.permutation(KEY, 1 << 20),
    "solve": jnp.linalg.solve, "inv": jnp.linalg.inv, "slogdet": lambda a: jnp.linalg.slogdet(a)[1],
    "cholesky": lambda a: jnp.linalg.cholesky(a @ a.T), "qr": lambda a: jnp.linalg.qr(a)[1],
    "svdvals": jnp.linalg.svdvals, "eigvalsh": lambda a: jnp.linalg.eigvalsh(a @ a.T),
    "rfft": lambda x: as_pairs(jnp.fft.rfft(x)), "rfft2": lambda x: as_pairs(jnp.fft.rfft2(x)), "stft": short_time,
    "histogram": lambda x: jnp.histogram(x, 100, (-3, 3))[0],
    "searchsorted": lambda s, x: jnp.searchsorted(jnp.sort(s), x),
    "nonzero": lambda x: jnp.stack(jnp.nonzero(x > 2, size=x.size // 5)), "sort": lambda x: jnp.sort(x, 1),
    "argsort": lambda x: jnp.argsort(x, 1), "topk 8": lambda x: lax.top_k(x, 8)[0],
    "kthvalue": lambda x: jnp.sort(x, 1)[:, 99], "median": lambda x: jnp.sort(x, 1)[:, (x.shape[1] - 1) // 2],
}  # fmt: skip


def step(
    name: str, arrays: Sequence[np.ndarray], gradient: bool, indices: Callable[..., np.ndarray]
) -> Callable[[], object] | None:
    """A compiled function of the arrays, or of its gradient; None if JAX has no such row."""
    function = (FUNCTIONS | indexed(indices)).get(name)
    if function is None:
        return None
    jax.config.update("jax_enable_x64", arrays[0].dtype == np.float64)
    xs = [jnp.asarray(a) for a in arrays]
    timed_function = function
    if gradient:
        timed_function = jax.value_and_grad(lambda *xs: function(*xs).sum(), argnums=tuple(range(len(xs))))
    compiled = jax.jit(timed_function)
    return lambda: jax.block_until_ready(compiled(*xs))
