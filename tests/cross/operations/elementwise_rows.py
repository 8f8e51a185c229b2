"""Elementwise functions beside those of PyTorch."""

from __future__ import annotations

from functools import partial

import numpy as np
from torch_row import FLOATS, INFINITE, NUMBERS, ONE, THREE, TWO, F, Row, torch

import ocannl as oc

NAN, INF = np.nan, np.inf
WITHOUT_FLOAT64 = "float32 float16 bfloat16"  # PyTorch computes these gradients less accurately
BELOW_ONE = (-INF, 0.0, -0.0, -1.0, 0.5, -2.5, 1e-9, -30.0)
HUGE = 1e15
OPEN = {"low": -0.95, "high": 0.95}
LINES = (((3, 4),), ((2, 2),), ((0, 6),), ((3, 0),))


ROWS = (
    # trigonometric and hyperbolic functions
    Row("tan", oc.tan, torch.tan, ONE, low=-1.3, high=1.3),
    Row("asin", oc.asin, torch.asin, ONE, **OPEN),
    Row("acos", oc.acos, torch.acos, ONE, **OPEN),
    Row("atan", oc.atan, torch.atan, ONE),
    Row("atan2", oc.atan2, torch.atan2, TWO, but=(INF, -INF, -0.0)),
    Row("sinh", oc.sinh, torch.sinh, ONE),
    Row("cosh", oc.cosh, torch.cosh, ONE),
    Row("asinh", oc.asinh, torch.asinh, ONE),
    Row("acosh", oc.acosh, torch.acosh, ONE, low=1.1, high=4.0, but=BELOW_ONE),
    Row("atanh", oc.atanh, torch.atanh, ONE, **OPEN),
    Row("hypot", oc.hypot, torch.hypot, TWO, but=(0.0,)),
    Row("degrees", oc.degrees, torch.rad2deg, ONE, but=(HUGE,)),
    Row("radians", oc.radians, torch.deg2rad, ONE),
    Row("sinc", oc.sinc, torch.sinc, ONE, "float32 float64 float16", but=(HUGE, -0.0)),
    # special functions
    Row("erf", oc.erf, torch.erf, ONE),
    Row("erfc", oc.erfc, torch.erfc, ONE),
    Row("erfinv", oc.erfinv, torch.erfinv, ONE, **OPEN),
    Row("lgamma", oc.lgamma, torch.lgamma, ONE, but=(HUGE,)),
    Row("digamma", oc.digamma, torch.digamma, ONE, WITHOUT_FLOAT64, low=0.2, high=9.0, but=(-1.0, -30.0)),
    Row("log10", oc.log10, torch.log10, ONE, low=0.3),
    Row("cbrt", oc.cbrt, lambda x: torch.sign(x) * torch.abs(x) ** (1 / 3), ONE, "float32 float64", low=0.2, but=None),
    Row("logit", oc.logit, torch.logit, ONE, low=0.05, high=0.95, but=(0.0, 1.0)),
    Row("logit with limits", partial(oc.logit, eps=0.2), partial(torch.logit, eps=0.2), ONE,
        "float32 float64", low=0.05, high=0.95),
    # activations
    Row("gelu exactly", partial(oc.gelu, approximate="none"), F.gelu, ONE, but=(INF,)),
    Row("relu6", oc.relu6, F.relu6, ONE, low=-8.0, high=8.0),
    Row("selu", oc.selu, F.selu, ONE),
    Row("celu", oc.celu, F.celu, ONE),
    Row("celu of alpha", partial(oc.celu, alpha=0.4), partial(F.celu, alpha=0.4), ONE, WITHOUT_FLOAT64),
    Row("mish", oc.mish, F.mish, ONE, but=INFINITE),
    Row("log_sigmoid", oc.log_sigmoid, F.logsigmoid, ONE),
    Row("prelu", oc.prelu, F.prelu, (((3, 4), (4,)), ((5, 1), (1,)), ((0, 3), (3,)))),
    Row("hard_tanh", oc.hard_tanh, F.hardtanh, ONE),
    Row("hard_tanh of limits", partial(oc.hard_tanh, low=-0.3, high=1.2),
        partial(F.hardtanh, min_val=-0.3, max_val=1.2), ONE),
    Row("hard_sigmoid", oc.hard_sigmoid, F.hardsigmoid, ONE, WITHOUT_FLOAT64, low=-5.0, high=5.0),
    Row("hard_swish", oc.hard_swish, F.hardswish, ONE, low=-5.0, high=5.0),
    Row("hardshrink", oc.hardshrink, F.hardshrink, ONE),
    Row("softshrink", partial(oc.softshrink, width=0.7), partial(F.softshrink, lambd=0.7), ONE),
    Row("tanhshrink", oc.tanhshrink, F.tanhshrink, ONE),
    Row("softsign", oc.softsign, F.softsign, ONE, but=INFINITE),
    Row("threshold", partial(oc.threshold, threshold=0.1, value=20.0), lambda x: F.threshold(x, 0.1, 20.0), ONE),
    Row("glu", lambda x: oc.glu(x, "ij => i"), partial(F.glu, dim=1), LINES),
    # arithmetic and comparisons
    Row("square", oc.square, torch.square, ONE, NUMBERS),
    Row("lerp", oc.lerp, torch.lerp, THREE, but=INFINITE),
    Row("fmod", oc.fmod, torch.fmod, TWO, NUMBERS, low=0.3, but=INFINITE),
    Row("fmod of signs", lambda x, y: oc.fmod(x - 9, y), lambda x, y: torch.fmod(x - 9, y), TWO,
        "float32 float64 int32 int64", low=0.3, but=INFINITE),
    Row("logical_xor", oc.logical_xor, torch.logical_xor, TWO, NUMBERS, smooth=False),
    Row("isclose", lambda x, y: oc.isclose(x, y, rtol=0.2), lambda x, y: torch.isclose(x, y, rtol=0.2), TWO, FLOATS,
        smooth=False),
    Row("isclose of NaN", partial(oc.isclose, equal_nan=True), partial(torch.isclose, equal_nan=True), TWO, FLOATS,
        smooth=False),
    Row("copysign", oc.copysign, torch.copysign, TWO, but=INFINITE),
    Row("signbit", oc.signbit, torch.signbit, ONE, smooth=False),
    Row("heaviside", oc.heaviside, torch.heaviside, TWO, but=(NAN,), smooth=False),
    Row("nan_to_num", oc.nan_to_num, torch.nan_to_num, ONE),
    Row("nan_to_num by numbers", partial(oc.nan_to_num, nan=2.0, posinf=3.0, neginf=-4.0),
        partial(torch.nan_to_num, nan=2.0, posinf=3.0, neginf=-4.0), ONE),
)  # fmt: skip
