"""Masks of attention: which keys a query sees, 1 or 0 at `..b..|h, t, s`. They are combined by `&` and `|`."""

from __future__ import annotations

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor


def causal_mask(positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
    """Keys at the position of the query and before it.

    Shapes: positions `..b.., t|; ..b.., s| => ..b..|0, t, s`; the positions of keys are those of queries by default.
            Those of a sequence `x` are `nn.positions_of(x)`.
    """
    return _compared(positions, positions if key_positions is None else key_positions, "ge")


def window_mask(positions: Tensor, key_positions: Tensor | None = None, *, width: int) -> Tensor:
    """Keys at most `width - 1` positions before the query; with a causal mask, `width` keys (a sliding window).

    Shapes: positions `..b.., t|; ..b.., s| => ..b..|0, t, s`; the positions of keys are those of queries by default.
    """
    return _compared(positions, (positions if key_positions is None else key_positions) + width, "lt")


def padding_mask(lengths: Tensor, count: int) -> Tensor:
    """Keys within the length of their sequence, of `count` positions.

    Shapes: `..b..| => ..b..|0, 0, count`.
    """
    return oc.einsum("...|; s => ...|0, 0, s", lengths, oc.iota(count), combine="gt")


def _compared(queries: Tensor, keys: Tensor, comparison: str) -> Tensor:
    return oc.einsum("..., t|; ..., s| => ...|0, t, s", queries, keys, combine=comparison)
