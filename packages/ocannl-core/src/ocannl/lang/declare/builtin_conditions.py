"""Conditions on calls of the built-in operations.

The operations check them on their own, with messages of their own; here they are data, for descriptions and generated
checks.
"""

from __future__ import annotations

from ocannl.lang.declare.conditions import Condition
from ocannl.lang.declare.quantities import each, value

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
