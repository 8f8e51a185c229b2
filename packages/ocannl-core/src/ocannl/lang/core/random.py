"""Random contents: Threefry-4x32 with 20 rounds, keyed by the seed and the path of a parameter.

Building something else first changes nothing: a stream depends on the seed, on the path in the first initialization
code that contains the parameter, and on the ordinal of the random leaf inside the parameter's initial value.

    key       the seed, 64 bits; a digest of the path, 64 bits
    counter   which four words of the stream, 64 bits; the ordinal; the call, which is 0 for initial values
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

from ocannl.base.errors import CodeError, DtypeError, UninitializedError
from ocannl.ir.precision import Precision
from ocannl.ir.threefry import threefry4x32
from ocannl.lang.core.operation import Operation

if TYPE_CHECKING:
    from ocannl.lang.core.tensor import Tensor

Words = NDArray[np.uint32]


def key_words(seed: int, path: str) -> Words:
    """The key of a stream."""
    digest = hashlib.blake2b(path.encode(), digest_size=8).digest()
    return np.array([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF, *np.frombuffer(digest, "<u4")], np.uint32)


def uniform_bits(seed: int, path: str, ordinal: int, number: int) -> Words:
    """`number` uint32 words of the stream."""
    blocks = np.arange((number + 3) // 4, dtype=np.uint64)
    counter = (blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32), ordinal, 0)
    lanes = np.broadcast_arrays(*threefry4x32([*key_words(seed, path)], counter))
    return np.stack(lanes, -1).reshape(-1)[:number]


def digits(precision: Precision) -> int:
    """How many random bits a number in [0, 1) of a float type has: as many as the type tells apart below 1."""
    return int(finfo(precision.numpy).nmant) + 1  # type: ignore[no-untyped-call]


def unit_uniform(seed: int, path: str, ordinal: int, number: int, bits: int = 24) -> NDArray[np.floating]:
    """Numbers in [0, 1): the top 24 bits of a word or less as float32, or the top 53 bits of two as float64."""
    if bits <= 32:
        words = uniform_bits(seed, path, ordinal, number)
        return (words >> np.uint32(32 - bits)).astype(np.float32) * np.float32(2.0**-bits)
    words = uniform_bits(seed, path, ordinal, 2 * number).astype(np.uint64)
    both = (words[0::2] << np.uint64(32)) | words[1::2]
    return (both >> np.uint64(64 - bits)).astype(np.float64) * 2.0**-bits


Scale = Callable[[], float]


class Keyed:
    """Random contents of a node: which stream they are from."""

    __slots__ = ("ordinal", "path")

    def __init__(self, key: str | None) -> None:
        self.path = key
        self.ordinal = 0

    def key_by(self, path: str, ordinal: int) -> None:
        """Settles the stream; the first to say so wins."""
        if self.path is None:
            self.path, self.ordinal = path, ordinal

    def stream(self) -> tuple[str, int]:
        if self.path is None:
            raise UninitializedError(
                "a random leaf outside any parameter has no stream of its own: give it one with `key=`"
            )
        return self.path, self.ordinal


class Draw(Keyed):
    """Random contents drawn on the host: those of initial values."""

    __slots__ = ("distribution",)

    def __init__(self, distribution: Distribution, key: str | None = None) -> None:
        super().__init__(key)
        self.distribution = distribution

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> NDArray[np.generic]:
        refuse_integers(precision)
        drawn = self.distribution(*self.stream(), math.prod(dims), digits(precision), seed)
        return drawn.astype(precision.numpy).reshape(dims)


class Stream(Keyed):
    """The four words of the key and the ordinal, for numbers that are drawn in code. `block` is what those drawn in a
    block are keyed by, when nothing else says so."""

    __slots__ = ("block",)

    def __init__(self, key: str | None, block: tuple[str, int] | None) -> None:
        super().__init__(key)
        self.block = block

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> NDArray[np.generic]:
        part([self])
        path, ordinal = self.stream()
        return np.array([*key_words(seed, path), ordinal], np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class Sampling(Operation):
    """Draws numbers in code; the initial values of a parameter are those of the host's `contents`, if there are any."""

    contents: Draw | None = None


def part(streams: Iterable[Stream]) -> None:
    """Settles the streams of blocks; where several have one path they draw apart, by their order here."""
    streams = list(streams)
    taken = {(s.path, s.ordinal) for s in streams}
    for s in streams:
        if s.path is None and s.block is not None:
            path, ordinal = s.block
            s.key_by(next(p for p in _numbered(path) if (p, ordinal) not in taken), ordinal)
            taken.add((s.path, s.ordinal))


def _numbered(path: str) -> Iterator[str]:
    yield path
    yield from (f"{path}_{n}" for n in count(2))


def refuse_integers(precision: Precision) -> None:
    if not precision.is_float:
        raise DtypeError(f"random numbers are drawn as floats, not as {precision}")


class Distribution:
    """Turns unit uniform numbers into those of a distribution: uniform in [low, high), or normal with mean `low` and
    standard deviation `high - low`; both times `factor`, asked late since it may depend on inferred sizes."""

    __slots__ = ("factor", "low", "normal", "span")

    def __init__(self, low: float, high: float, normal: bool = False, factor: Scale | None = None) -> None:
        self.low = low
        self.span = high - low
        self.normal = normal
        self.factor = factor

    def __call__(self, path: str, ordinal: int, number: int, bits: int, seed: int) -> NDArray[np.floating]:
        factor = 1.0 if self.factor is None else self.factor()
        if not self.normal:
            unit = unit_uniform(seed, path, ordinal, number, bits)
            return np.asarray(unit * unit.dtype.type(self.span * factor) + unit.dtype.type(self.low * factor))
        unit = unit_uniform(seed, path, ordinal, 2 * number, max(bits, 24))
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

    def __call__(self, path: str, ordinal: int, number: int, bits: int, seed: int) -> NDArray[np.floating]:
        if self.factor is None:
            raise CodeError("oc.kaiming and oc.xavier scale by the sizes of a parameter: use them as its initial value")
        return super().__call__(path, ordinal, number, bits, seed)

    def bind(self, t: Tensor) -> None:
        """Takes the sizes from `t`: fan in is the product of its input axes, fan out of its output axes."""

        def factor() -> float:
            fan = sum(math.prod(axis.size for axis in getattr(t.shape, row)) for row in self.fans)
            spread = math.sqrt(self.gain / max(fan, 1))
            return spread if self.normal else spread * math.sqrt(3.0)

        self.factor = factor
