"""Positions in sequences: rotary embeddings, sinusoids, tables, and biases that grow with the distance."""

from __future__ import annotations

import math

import numpy as np

from ocannl.base.errors import ArgumentError
from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.layer import layer
from ocannl.nn.operand_axes import HEADS, check_sequence, feature_count, position_count

MAX_FEATURES = 2**24  # whose rates are constants of the program

def positions_of(x: Tensor) -> Tensor:
    """0, 1, ... along the last batch axis of `x`: integers of the shape `t|`."""
    return oc.einsum("t => t|", oc.iota(position_count(x, "positions_of")))


def sinusoids(positions: Tensor, *, width: int, base: float = 10000.0) -> Tensor:
    """Sines and cosines of the positions at geometric wavelengths, in turn: `sin(p / base**(2 i / width))`, `cos(...)`.

    Shapes: `..b..| => ..b..|width`.
    Raises: ArgumentError for an odd `width`.
    Source: Vaswani et al. 2017.
    """
    angles = _angles(positions, width, base)
    pairs = oc.stack([oc.sin(angles), oc.cos(angles)])
    return oc.einsum("...|p, i => ...|(i p)", pairs)


@layer
def position_embedding(x: Tensor, positions: Tensor | None = None, *, count: int, init: object = None) -> Tensor:
    """`x` plus the rows of a learned table at its positions: by default 0, 1, ... along the last batch axis.

    Shapes: `..b.., t|c => ..b.., t|c`; positions are `t|` or `..b.., t|`, and `table` is `count, c`.
    Init:   `table` by `init`, `oc.normal(std=0.02)` by default.
    """
    check_sequence(x, "position_embedding")
    table = oc.param(oc.normal(std=0.02) if init is None else init, o=[count, feature_count(x, "position_embedding")])
    return x + table.take(positions_of(x) if positions is None else positions)


def rotary(x: Tensor, positions: Tensor | None = None, *, base: float = 10000.0, interleaved: bool = False) -> Tensor:
    """Rotates pairs of features by angles in proportion to the position: products of queries and keys then depend on
    distances only (RoPE).

    A pair is a feature of the first half and its counterpart in the second, as in Llama; if `interleaved`, two
    neighbours, as in GPT-J. The angle of the pair `i` of `d / 2` is `p / base**(2 i / d)`.

    Shapes: `..b.., t|h,d => ..b.., t|h,d`; positions are `t|` or `..b.., t|`.
    Raises: ArgumentError for an odd `d`.
    Source: Su, Lu, Pan, Murtadha, Wen, Liu 2021.
    """
    size = feature_count(x, "rotary", HEADS)
    angles = oc.einsum("...|i => ...|0, i", _angles(positions_of(x) if positions is None else positions, size, base))
    sin, cos = oc.sin(angles), oc.cos(angles)
    pair = "(i p)" if interleaved else "(p i)"
    pairs = oc.einsum(f"...|h, {pair} => ...|p, h, i", x, p=2)
    a, b = (oc.einsum(f"...|{n}, h, i => ...|h, i", pairs) for n in range(2))
    turned = oc.stack([a * cos - b * sin, a * sin + b * cos])
    return oc.einsum(f"...|p, h, i => ...|h, {pair}", turned)


def _angles(positions: Tensor, width: int, base: float) -> Tensor:
    """The angles of `width / 2` pairs: `...| => ...|width / 2`."""
    if width % 2 or width > MAX_FEATURES:
        limit = "even" if width % 2 else f"at most {MAX_FEATURES:,}"
        raise ArgumentError(f"positions rotate pairs of features: their number is {limit}, not {width}")
    rates = oc.tensor((base ** (-2.0 * np.arange(width // 2) / width)).tolist(), label="rates")
    return positions * rates


def alibi(heads: int, queries: Tensor, keys: Tensor) -> Tensor:
    """Biases of scores: minus the distance of the positions of queries and keys, times a slope that falls from head to
    head (ALiBi).

    Shapes: `..b.., t|; ..b.., s| => ..b..|heads, t, s`.
    Source: Press, Smith, Lewis 2022.
    """
    slopes = oc.tensor(_slopes(heads), label="slopes")
    distances = oc.einsum("..., t|; ..., s| => ...|t, s", queries, keys, combine="sub")
    return oc.einsum("h; ...|t, s => ...|h, t, s", slopes, -oc.abs(distances))


def _slopes(heads: int) -> list[float]:
    """`2**(-8 n / heads)` for the heads 1, 2, ...; between powers of two, those of the next one at every other head."""
    power = 1 << int(math.log2(heads))
    slopes = [2.0 ** (-8.0 * (n + 1) / power) for n in range(power)]
    return slopes if power == heads else slopes + _slopes(2 * power)[::2][: heads - power]
