"""Windows along spatial axes, as parts of einsum specs: strides, dilations and paddings.

    stride*oh<+dilation*kh          padding="none"
    stride*oh=+dilation*kh          padding="same"
    stride*oh[1,1]+dilation*kh      padding=1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor

Sizes = int | Sequence[int]
Padding = str | int | Sequence[int] | Sequence[Sequence[int]]
Pair = tuple[int, int]

SPATIAL_AXES = (("w",), ("h", "w"), ("d", "h", "w"))
MARKS = {"none": "<", "same": "="}


def per_axis(axes: Sequence[str], name: str, setting: Sizes, least: int = 1) -> list[int]:
    """The value of a setting for each spatial axis, from one integer or a sequence."""
    sizes: list[Any] = list(setting) if isinstance(setting, list | tuple) else [setting] * len(axes)
    if len(sizes) != len(axes) or not all(_is_count(n) and n >= least for n in sizes):
        kind = "positive" if least else "nonnegative"
        raise CodeError(f"`{name}` is a {kind} integer, or one for each of {len(axes)} axes, and not {setting!r}")
    return sizes


def margins(axes: Sequence[str], padding: object) -> list[Pair]:
    """The cells before and after each spatial axis, from a padding in numbers. Raises: CodeError."""
    widths: list[Any] = list(padding) if isinstance(padding, list | tuple) else [padding] * len(axes)
    pairs = [tuple(width) if isinstance(width, list | tuple) else (width, width) for width in widths]
    if len(pairs) != len(axes) or not all(len(pair) == 2 and all(map(_is_count, pair)) for pair in pairs):
        forms = f'"none", "same", a number of cells, or a number or a pair (before, after) for each of {len(axes)} axes'
        raise CodeError(f"`padding` is {forms}, and not {padding!r}"[:250])
    return [(int(before), int(after)) for before, after in pairs]


def spatial_windows(
    axes: Sequence[str], stride: Sizes, dilation: Sizes, padding: Padding, more: Sequence[int] = ()
) -> tuple[str, str]:
    """The specs of the spatial axes: of the windowed operand, and of the window positions. `more` cells are added after
    the axes, besides a padding in numbers."""
    steps = zip(axes, per_axis(axes, "stride", stride), per_axis(axes, "dilation", dilation), strict=True)
    marks = _marks(axes, padding, more or [0] * len(axes))
    windowed = (f"{step}*o{a}{mark}+{gap}*k{a}" for (a, step, gap), mark in zip(steps, marks, strict=True))
    return ", ".join(windowed), ", ".join(f"o{a}" for a in axes)


def _marks(axes: Sequence[str], padding: Padding, more: Sequence[int]) -> list[str]:
    if isinstance(padding, str) and padding in MARKS:
        return [MARKS[padding]] * len(axes)
    pairs = zip(margins(axes, padding), more, strict=True)
    return [f"[{before},{after + extra}]" for (before, after), extra in pairs]


def require_numbers(padding: Padding, name: str) -> None:
    """Raises CodeError for a padding that determines the sizes, so that a setting that changes them has no meaning."""
    if isinstance(padding, str):
        raise CodeError(f"`{name}` belongs to a padding in numbers, such as padding=0, and not to padding={padding!r}")


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not is_bool(value) and bool(value >= 0)


def register(
    name: str, axes: Sequence[str], function: Callable[..., Tensor], text: str, **descriptions: str
) -> Callable[..., Tensor]:
    """Names, documents and registers a public function."""
    rows = {"windowed": axes, "positions": [f"o{a}" for a in axes], "taps": [f"k{a}" for a in axes]}
    function.__name__ = function.__qualname__ = f"{name}{len(axes)}d"
    joined = {row: ", ".join(names) for row, names in rows.items()}
    function.__doc__ = text.format(name=function.__name__, **joined, **descriptions)
    REGISTRY[function.__name__] = composite(function)
    return REGISTRY[function.__name__]
