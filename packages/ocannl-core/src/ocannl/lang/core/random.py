"""Random contents: the counter-based generator Threefry-4x32-20 (Salmon et al. 2011), keyed by seed and path.

Streams are independent of the order of construction: a stream depends on the seed, on the path in the first
initialization code that contains the parameter, and on the ordinal of the random leaf in the initial value.

    key       the seed, 64 bits; a digest of the path, 64 bits
    counter   the block of four words in the stream, 64 bits; the ordinal; the call, which is 0 for initial values
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

from ocannl.base.errors import CodeError, DtypeError, UninitializedError
from ocannl.ir.precision import Precision
from ocannl.ir.threefry import threefry4x32
from ocannl.lang.core.operation import Operation

UInt32Array = NDArray[np.uint32]
BLOCK_CELLS = 1 << 17  # drawn at a time: arrays of a few hundred KB stay in the caches


def stream_key(seed: int, path: str) -> UInt32Array:
    """The 128-bit key of a stream."""
    digest = hashlib.blake2b(path.encode(), digest_size=8).digest()
    return np.array([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF, *np.frombuffer(digest, "<u4")], np.uint32)


def uniform_bits(seed: int, path: str, ordinal: int, number: int, start: int = 0) -> UInt32Array:
    """`number` uint32 values of a stream, from position `start`, a multiple of 4."""
    blocks = np.arange(start // 4, (start + number + 3) // 4, dtype=np.uint64)
    counter = (blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32), ordinal, 0)
    lanes = np.broadcast_arrays(*threefry4x32([*stream_key(seed, path)], counter))
    return np.stack(lanes, -1).reshape(-1)[:number]


def significand_bits(precision: Precision) -> int:
    """Random bits of a uniform number of a float type: the bits of its significand."""
    return int(finfo(precision.numpy).nmant) + 1  # type: ignore[no-untyped-call]


def unit_uniform(
    seed: int, path: str, ordinal: int, number: int, bits: int = 24, start: int = 0
) -> NDArray[np.floating]:
    """Uniform numbers in [0, 1) from position `start`, a multiple of 4: up to 32 bits from one uint32 as float32, up to
    53 from two as float64."""
    if bits <= 32:
        raw = uniform_bits(seed, path, ordinal, number, start)
        return (raw >> np.uint32(32 - bits)).astype(np.float32) * np.float32(2.0**-bits)
    halves = uniform_bits(seed, path, ordinal, 2 * number, 2 * start).astype(np.uint64)
    wide = (halves[0::2] << np.uint64(32)) | halves[1::2]
    return (wide >> np.uint64(64 - bits)).astype(np.float64) * 2.0**-bits


Scale = Callable[[], float]


class Keyed:
    """Random contents of a node, drawn from the stream (path, ordinal)."""

    __slots__ = ("ordinal", "path")

    def __init__(self, key: str | None) -> None:
        self.path = key
        self.ordinal = 0

    def set_stream(self, path: str, ordinal: int) -> None:
        """Sets the stream, unless it is set already."""
        if self.path is None:
            self.path, self.ordinal = path, ordinal

    def stream(self) -> tuple[str, int]:
        if self.path is None:
            raise UninitializedError(
                "a random leaf outside any parameter has no stream of its own: give it one with `key=`"
            )
        return self.path, self.ordinal


class RandomInitializer(Keyed):
    """Random contents drawn on the host, for initial values."""

    __slots__ = ("distribution",)

    def __init__(self, distribution: Distribution, key: str | None = None) -> None:
        super().__init__(key)
        self.distribution = distribution

    def copy(self) -> RandomInitializer:
        """The same distribution, for another parameter."""
        return RandomInitializer(self.distribution, self.path)

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> NDArray[np.generic]:
        refuse_integers(precision)
        drawn = self.distribution(*self.stream(), math.prod(dims), significand_bits(precision), seed)
        return drawn.astype(precision.numpy).reshape(dims)


class Stream(Keyed):
    """The key and the ordinal of a stream as uint32 values, for numbers drawn by code.

    `block` is the default stream of numbers drawn in a block (see `assign_streams`).
    """

    __slots__ = ("block",)

    def __init__(self, key: str | None, block: tuple[str, int] | None) -> None:
        super().__init__(key)
        self.block = block

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> NDArray[np.generic]:
        assign_streams([self])
        path, ordinal = self.stream()
        return np.array([*stream_key(seed, path), ordinal], np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class Sampling(Operation):
    """Draws numbers in code; `contents`, if given, draws the initial values of a parameter on the host instead."""

    contents: RandomInitializer | None = None


class CallCounter:
    """The number of previous runs of the code that draws from a stream; -1, in 32 bits, before the first."""

    __slots__ = ("stream",)

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> NDArray[np.generic]:
        return np.full(dims, 2**32 - 1, np.uint32)


def assign_streams(streams: Iterable[Stream]) -> None:
    """Sets the streams of draws in blocks; equal paths are made unique by a suffix, in order."""
    streams = list(streams)
    used = {(s.path, s.ordinal) for s in streams}
    for s in streams:
        if s.path is None and s.block is not None:
            path, ordinal = s.block
            s.set_stream(next(p for p in numbered(path) if (p, ordinal) not in used), ordinal)
            used.add((s.path, s.ordinal))


def numbered(path: str) -> Iterator[str]:
    """The path, then the path with the suffixes `_2`, `_3`, ..."""
    yield path
    yield from (f"{path}_{n}" for n in count(2))


def refuse_integers(precision: Precision) -> None:
    if not precision.is_float:
        raise DtypeError(f"random numbers are drawn as floats, not as {precision}")


class Distribution:
    """A distribution: uniform in [low, high), or normal with mean `low` and standard deviation `high - low`.

    Both are scaled by `factor`, evaluated late since it may depend on inferred sizes. Normal numbers are
    computed by the Box-Muller transform (Box and Muller 1958).
    """

    __slots__ = ("factor", "low", "normal", "span")

    def __init__(self, low: float, high: float, normal: bool = False, factor: Scale | None = None) -> None:
        self.low = low
        self.span = high - low
        self.normal = normal
        self.factor = factor

    def __call__(self, path: str, ordinal: int, number: int, bits: int, seed: int) -> NDArray[np.floating]:
        factor = 1.0 if self.factor is None else self.factor()
        blocks = [
            self._block(factor, path, ordinal, min(BLOCK_CELLS, number - start), bits, seed, start)
            for start in range(0, max(1, number), BLOCK_CELLS)
        ]
        return np.concatenate(blocks) if len(blocks) > 1 else blocks[0]

    def _block(
        self, factor: float, path: str, ordinal: int, number: int, bits: int, seed: int, start: int
    ) -> NDArray[np.floating]:
        if not self.normal:
            unit = unit_uniform(seed, path, ordinal, number, bits, start)
            return np.asarray(unit * unit.dtype.type(self.span * factor) + unit.dtype.type(self.low * factor))
        unit = unit_uniform(seed, path, ordinal, 2 * number, max(bits, 24), 2 * start)
        first, second = unit[0::2].astype(np.float64), unit[1::2].astype(np.float64)
        radius = np.sqrt(-2.0 * np.log1p(-first))  # first < 1, so the logarithm is finite
        out = radius * np.cos(2.0 * math.pi * second) * (self.span * factor) + self.low * factor
        return np.asarray(out, unit.dtype)


class Fans(Protocol):
    """The fans of a parameter."""

    def total(self, names: Sequence[str]) -> int: ...


class FanScaled(Distribution):
    """A centered distribution scaled by the fan of the parameter (Glorot and Bengio 2010; He et al. 2015)."""

    __slots__ = ("fans", "gain")

    def __init__(self, normal: bool, gain: float, fans: Mapping[str, int | None]) -> None:
        """`fans` names the fans that are added; None: inferred from the uses of the parameter."""
        super().__init__(0.0 if normal else -1.0, 1.0, normal)
        self.gain = gain
        self.fans = fans

    def __call__(self, path: str, ordinal: int, number: int, bits: int, seed: int) -> NDArray[np.floating]:
        if self.factor is None:
            raise CodeError("oc.kaiming and oc.xavier scale by the sizes of a parameter: use them as its initial value")
        return super().__call__(path, ordinal, number, bits, seed)

    def bound(self, inferred: Fans) -> FanScaled:
        """This distribution, scaled by the given fans, and otherwise by those of a parameter."""

        def factor() -> float:
            open_ = [name for name, size in self.fans.items() if size is None]
            fan = sum(size or 0 for size in self.fans.values()) + (inferred.total(open_) if open_ else 0)
            spread = math.sqrt(self.gain / max(fan, 1))
            return spread if self.normal else spread * math.sqrt(3.0)

        scaled = FanScaled(self.normal, self.gain, self.fans)
        scaled.factor = factor
        return scaled
