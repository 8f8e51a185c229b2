"""Random contents: Threefry-4x32 with 20 rounds, keyed by the seed and the path of a parameter.

Building something else first changes nothing: a stream depends on the seed, on the path in the first initialization
code that contains the parameter, and on the ordinal of the random leaf inside the parameter's initial value.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011 (constants of Random123).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ocannl.base.errors import CodeError, DtypeError, UninitializedError
from ocannl.ir.precision import Precision

if TYPE_CHECKING:
    from ocannl.lang.tensor import Tensor

Words = NDArray[np.uint32]

_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_PARITY = np.uint32(0x1BD11BDA)


def threefry4x32(key: Words, counter: Words, rounds: int = 20) -> Words:
    """Four uint32 lanes for each counter; lanes are the last axis of `key` (4) and `counter` (n, 4)."""
    ks = [np.uint32(k) for k in key]
    ks.append(_PARITY ^ ks[0] ^ ks[1] ^ ks[2] ^ ks[3])
    x = [counter[..., i] + ks[i] for i in range(4)]
    for r in range(rounds):
        first, second = (1, 3) if r % 2 == 0 else (3, 1)
        for base, lane, turn in ((0, first, _ROTATIONS[r % 8][0]), (2, second, _ROTATIONS[r % 8][1])):
            x[base] = x[base] + x[lane]
            x[lane] = ((x[lane] << np.uint32(turn)) | (x[lane] >> np.uint32(32 - turn))) ^ x[base]
        if r % 4 == 3:
            step = r // 4 + 1
            for i in range(4):
                x[i] = x[i] + ks[(step + i) % 5]
            x[3] = x[3] + np.uint32(step)
    return np.stack(x, -1)


def uniform_bits(seed: int, path: str, ordinal: int, count: int) -> Words:
    """`count` uint32 words of the stream."""
    digest = hashlib.blake2b(path.encode(), digest_size=8).digest()
    words = np.frombuffer(digest, "<u4")
    key = np.array([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF, *words], np.uint32)
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    counter = np.zeros((len(blocks), 4), np.uint32)
    counter[:, 0], counter[:, 1] = blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32)
    counter[:, 2] = ordinal
    with np.errstate(over="ignore"):
        return threefry4x32(key, counter).reshape(-1)[:count]


def unit_uniform(seed: int, path: str, ordinal: int, count: int, wide: bool) -> NDArray[np.floating]:
    """Numbers in [0, 1): the top 24 bits as float32, or the top 53 bits of two words as float64."""
    if not wide:
        bits = uniform_bits(seed, path, ordinal, count)
        return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    bits = uniform_bits(seed, path, ordinal, 2 * count).astype(np.uint64)
    both = (bits[0::2] << np.uint64(32)) | bits[1::2]
    return (both >> np.uint64(11)).astype(np.float64) * 2.0**-53


Scale = Callable[[], float]


class Draw:
    """Random contents of a node."""

    __slots__ = ("distribution", "ordinal", "path")

    def __init__(self, distribution: Distribution, key: str | None = None) -> None:
        self.distribution = distribution
        self.path = key
        self.ordinal = 0

    def key_by(self, path: str, ordinal: int) -> None:
        """Settles the stream; the first to say so wins."""
        if self.path is None:
            self.path, self.ordinal = path, ordinal

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> NDArray[np.generic]:
        if not precision.is_float:
            raise DtypeError(f"random numbers are drawn as floats, not as {precision}")
        if self.path is None:
            raise UninitializedError(
                "a random leaf outside any parameter has no stream of its own: give it one with `key=`"
            )
        wide = precision.nbytes == 8
        count = math.prod(dims)
        return self.distribution(self.path, self.ordinal, count, wide, seed).astype(precision.numpy).reshape(dims)


class Distribution:
    """Turns unit uniform numbers into those of a distribution: uniform in [low, high), or normal with mean `low` and
    standard deviation `high - low`; both times `factor`, asked late since it may depend on inferred sizes."""

    __slots__ = ("factor", "low", "normal", "span")

    def __init__(self, low: float, high: float, normal: bool = False, factor: Scale | None = None) -> None:
        self.low = low
        self.span = high - low
        self.normal = normal
        self.factor = factor

    def __call__(self, path: str, ordinal: int, count: int, wide: bool, seed: int) -> NDArray[np.floating]:
        factor = 1.0 if self.factor is None else self.factor()
        if not self.normal:
            unit = unit_uniform(seed, path, ordinal, count, wide)
            return np.asarray(unit * unit.dtype.type(self.span * factor) + unit.dtype.type(self.low * factor))
        unit = unit_uniform(seed, path, ordinal, 2 * count, wide)
        first, second = unit[0::2].astype(np.float64), unit[1::2].astype(np.float64)
        radius = np.sqrt(-2.0 * np.log1p(-first))  # first < 1, so the logarithm is finite
        out = radius * np.cos(2.0 * math.pi * second) * (self.span * factor) + self.low * factor
        return np.asarray(out, unit.dtype)


class Fanned(Distribution):
    """A centered distribution scaled by the fan of the parameter that it is drawn into."""

    __slots__ = ("gain", "fans")

    def __init__(self, normal: bool, gain: float, fans: tuple[str, ...]) -> None:
        super().__init__(0.0 if normal else -1.0, 1.0, normal)
        self.gain = gain
        self.fans = fans

    def __call__(self, path: str, ordinal: int, count: int, wide: bool, seed: int) -> NDArray[np.floating]:
        if self.factor is None:
            raise CodeError("oc.kaiming and oc.xavier scale by the sizes of a parameter: use them as its initial value")
        return super().__call__(path, ordinal, count, wide, seed)

    def bind(self, t: Tensor) -> None:
        """Takes the sizes from `t`: fan in is the product of its input axes, fan out of its output axes."""

        def factor() -> float:
            fan = sum(math.prod(axis.size for axis in getattr(t.shape, row)) for row in self.fans)
            spread = math.sqrt(self.gain / max(fan, 1))
            return spread if self.normal else spread * math.sqrt(3.0)

        self.factor = factor
