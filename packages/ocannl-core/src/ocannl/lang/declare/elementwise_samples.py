"""Sample operands of elementwise functions whose domain is restricted, or which have kinks."""

from __future__ import annotations

import numpy as np

from ocannl.lang.declare.samples import Draw, Sample, sample

ANY, POSITIVE = Draw(), Draw(0.5, 2.0)
OPEN_INTERVAL, PROBABILITY, ABOVE_ONE = Draw(-0.9, 0.9), Draw(0.1, 0.9), Draw(1.2, 3.0)
SMOOTH, CENTRAL = Draw(avoid=(0.0,)), Draw(avoid=(-0.5, 0.5))
WIDE = Draw(-4.0, 7.0, avoid=(-3.0, -1.0, 0.0, 1.0, 3.0, 6.0))
MASKS = np.array([[1.0, 0.0, 2.0], [3.0, 0.0, 5.0]], "float32")
ODD = np.array([1.0, np.nan, np.inf, -np.inf], "float32")

ELEMENTWISE_SAMPLES: dict[str, tuple[Sample, ...]] = {
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), (sample(OPEN_INTERVAL),)),
    **dict.fromkeys(("lgamma", "digamma", "log10"), (sample(POSITIVE),)),
    **dict.fromkeys(("relu6", "hard_tanh", "hard_sigmoid", "hard_swish"), (sample(WIDE),)),
    **dict.fromkeys(("hardshrink", "softshrink"), (sample(CENTRAL), sample(SMOOTH, width=0.05))),
    **dict.fromkeys(("selu", "celu", "cbrt", "softsign"), (sample(SMOOTH),)),
    "acosh": (sample(ABOVE_ONE),),
    "atan2": (sample(ANY, POSITIVE),),
    "copysign": (sample(SMOOTH, SMOOTH),),
    "fmod": (sample(ANY, Draw(2.2, 3.0)),),
    "gelu": (sample(ANY), sample(ANY, approximate="none")),
    "glu": (sample(Draw(dims=(4,))), sample(Draw(dims=(2, 4)), "ij => i")),
    "heaviside": (sample(MASKS, 0.5),),
    "hypot": (sample(SMOOTH, SMOOTH),),
    "isclose": (sample(MASKS, 1.0, atol=1.0),),
    "lerp": (sample(ANY, ANY, PROBABILITY),),
    "logical_xor": (sample(MASKS, 1.0),),
    "logit": (sample(PROBABILITY), sample(PROBABILITY, eps=1e-3)),
    "nan_to_num": (sample(ANY), sample(ODD, nan=0.5, posinf=9.0)),
    "prelu": (sample(SMOOTH, Draw(0.1, 0.4, (3,))),),
    "tan": (sample(Draw(-1.2, 1.2)),),
    "threshold": (sample(CENTRAL, threshold=0.5, value=0.25),),
}  # fmt: skip
"""Samples by the name of the function."""
