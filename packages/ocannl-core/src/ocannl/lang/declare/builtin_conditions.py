"""Data types of inputs, and conditions on calls, of the built-in operations.

The operations check them on their own, with messages of their own; here they are data, for descriptions and generated
checks.
"""

from __future__ import annotations

from ocannl.lang.declare.conditions import Condition
from ocannl.lang.declare.inputs import Count, Input, at_least
from ocannl.lang.declare.quantities import each, value

_INTEGERS = Input("int | bool", differentiable=False)
_WORDS = Input("uint32", differentiable=False)

_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")

INPUTS: dict[str, dict[str, Input]] = {
    **{name: {"x": _INTEGERS, "y": _INTEGERS} for name in _BITS},
    **{f"threefry4x32_{rounds}": {f"x{n}": _INTEGERS for n in range(1, 10)} for rounds in (12, 20)},
    "threefry4x32": {"key": _WORDS, "counter": _WORDS},
    **{name: {"ids": _INTEGERS} for name in ("one_hot", "take", "pick")},
}
"""Inputs of restricted types, by operation."""

LISTS: dict[str, Count] = {"tensors": at_least(1), "nested": at_least(1)}
"""Inputs that are lists of tensors, by name."""

_WINDOWS = (each("stride") >= 1, each("dilation") >= 1)

CONDITIONS: dict[str, tuple[Condition, ...]] = {
    **{f"conv{n}d": (*_WINDOWS, value("groups") >= 1) for n in (1, 2, 3)},
    **{f"depthwise_conv{n}d": (*_WINDOWS, value("multiplier") >= 1) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": (*_WINDOWS, value("groups") >= 1) for n in (1, 2, 3)},
    **{f"{kind}_pool{n}d": (each("window") >= 1, *_WINDOWS[1:]) for kind in ("max", "avg") for n in (1, 2, 3)},
    "dropout": (value("rate") >= 0, value("rate") < 1),
    "iota": (value("n") >= 0,),
    "one_hot": (value("n") >= 0,),
    "threefry4x32": ((value("rounds") == 12) | (value("rounds") == 20),),
}
"""Conditions on the settings, by operation."""
