"""Elementwise functions beside those of PyTorch."""

from __future__ import annotations

from functools import partial

import numpy as np
from torch_row import BINARY, FLOATS, INFINITE, NUMBERS, TERNARY, UNARY, F, Row, torch

import ocannl as oc

NAN, INF = np.nan, np.inf
WITHOUT_FLOAT64 = "float32 float16 bfloat16"  # PyTorch computes these gradients less accurately
BELOW_ONE = (-INF, 0.0, -0.0, -1.0, 0.5, -2.5, 1e-9, -30.0)
HUGE = 1e15
OPEN = {"low": -0.95, "high": 0.95}
LINES = (((3, 4),), ((2, 2),), ((0, 6),), ((3, 0),))


ROWS = (
    # trigonometric and hyperbolic functions
    Row("tan", oc.tan, torch.tan, UNARY, low=-1.3, high=1.3),
    Row("asin", oc.asin, torch.asin, UNARY, **OPEN),
    Row("acos", oc.acos, torch.acos, UNARY, **OPEN),
    Row("atan", oc.atan, torch.atan, UNARY),
    Row("atan2", oc.atan2, torch.atan2, BINARY, but=(INF, -INF, -0.0)),
    Row("sinh", oc.sinh, torch.sinh, UNARY),
    Row("cosh", oc.cosh, torch.cosh, UNARY),
    Row("asinh", oc.asinh, torch.asinh, UNARY),
    Row("acosh", oc.acosh, torch.acosh, UNARY, low=1.1, high=4.0, but=BELOW_ONE),
    Row("atanh", oc.atanh, torch.atanh, UNARY, **OPEN),
    Row("hypot", oc.hypot, torch.hypot, BINARY, but=(0.0,)),
    Row("degrees", oc.degrees, torch.rad2deg, UNARY, but=(HUGE,)),
    Row("radians", oc.radians, torch.deg2rad, UNARY),
    Row("sinc", oc.sinc, torch.sinc, UNARY, "float32 float64 float16", but=(HUGE, -0.0)),
    # special functions
    Row("erf", oc.erf, torch.erf, UNARY),
    Row("erfc", oc.erfc, torch.erfc, UNARY),
    Row("erfinv", oc.erfinv, torch.erfinv, UNARY, **OPEN),
    Row("lgamma", oc.lgamma, torch.lgamma, UNARY, but=(HUGE,)),
    Row("digamma", oc.digamma, torch.digamma, UNARY, WITHOUT_FLOAT64, low=0.2, high=9.0, but=(-1.0, -30.0)),
    Row("log10", oc.log10, torch.log10, UNARY, low=0.3),
    Row("cbrt", oc.cbrt, lambda x: torch.sign(x) * torch.abs(x) ** (1 / 3), UNARY, "float32 float64", low=0.2,
        but=None),
    Row("logit", oc.logit, torch.logit, UNARY, low=0.05, high=0.95, but=(0.0, 1.0)),
    Row("logit with limits", partial(oc.logit, eps=0.2), partial(torch.logit, eps=0.2), UNARY,
        "float32 float64", low=0.05, high=0.95),
    # activations
    Row("gelu exactly", partial(oc.gelu, approximate="none"), F.gelu, UNARY, but=(INF,)),
    Row("relu6", oc.relu6, F.relu6, UNARY, low=-8.0, high=8.0),
    Row("selu", oc.selu, F.selu, UNARY),
    Row("celu", oc.celu, F.celu, UNARY),
    Row("celu of alpha", partial(oc.celu, alpha=0.4), partial(F.celu, alpha=0.4), UNARY, WITHOUT_FLOAT64),
    Row("mish", oc.mish, F.mish, UNARY, but=INFINITE),
    Row("log_sigmoid", oc.log_sigmoid, F.logsigmoid, UNARY),
    Row("prelu", oc.prelu, F.prelu, (((3, 4), (4,)), ((5, 1), (1,)), ((0, 3), (3,)))),
    Row("hard_tanh", oc.hard_tanh, F.hardtanh, UNARY),
    Row("hard_tanh of limits", partial(oc.hard_tanh, low=-0.3, high=1.2),
        partial(F.hardtanh, min_val=-0.3, max_val=1.2), UNARY),
    Row("hard_sigmoid", oc.hard_sigmoid, F.hardsigmoid, UNARY, WITHOUT_FLOAT64, low=-5.0, high=5.0),
    Row("hard_swish", oc.hard_swish, F.hardswish, UNARY, low=-5.0, high=5.0),
    Row("hardshrink", oc.hardshrink, F.hardshrink, UNARY),
    Row("softshrink", partial(oc.softshrink, width=0.7), partial(F.softshrink, lambd=0.7), UNARY),
    Row("tanhshrink", oc.tanhshrink, F.tanhshrink, UNARY),
    Row("softsign", oc.softsign, F.softsign, UNARY, but=INFINITE),
    Row("threshold", partial(oc.threshold, threshold=0.1, value=20.0), lambda x: F.threshold(x, 0.1, 20.0), UNARY),
    Row("glu", lambda x: oc.glu(x, "ij => i"), partial(F.glu, dim=1), LINES),
    # arithmetic and comparisons
    Row("square", oc.square, torch.square, UNARY, NUMBERS),
    Row("lerp", oc.lerp, torch.lerp, TERNARY, but=INFINITE),
    Row("fmod", oc.fmod, torch.fmod, BINARY, NUMBERS, low=0.3, but=INFINITE),
    Row("fmod of signs", lambda x, y: oc.fmod(x - 9, y), lambda x, y: torch.fmod(x - 9, y), BINARY,
        "float32 float64 int32 int64", low=0.3, but=INFINITE),
    Row("logical_xor", oc.logical_xor, torch.logical_xor, BINARY, NUMBERS, smooth=False),
    Row("isclose", lambda x, y: oc.isclose(x, y, rtol=0.2), lambda x, y: torch.isclose(x, y, rtol=0.2), BINARY, FLOATS,
        smooth=False),
    Row("isclose of NaN", partial(oc.isclose, equal_nan=True), partial(torch.isclose, equal_nan=True), BINARY, FLOATS,
        smooth=False),
    Row("copysign", oc.copysign, torch.copysign, BINARY, but=INFINITE),
    Row("signbit", oc.signbit, torch.signbit, UNARY, smooth=False),
    Row("heaviside", oc.heaviside, torch.heaviside, BINARY, but=(NAN,), smooth=False),
    Row("nan_to_num", oc.nan_to_num, torch.nan_to_num, UNARY),
    Row("nan_to_num by numbers", partial(oc.nan_to_num, nan=2.0, posinf=3.0, neginf=-4.0),
        partial(torch.nan_to_num, nan=2.0, posinf=3.0, neginf=-4.0), UNARY),
)  # fmt: skip
