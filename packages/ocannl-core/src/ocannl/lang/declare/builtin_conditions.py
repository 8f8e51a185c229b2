"""Conditions on calls of the built-in operations.

The operations check them on their own, with messages of their own; here they are data, for descriptions and generated
checks.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from ocannl.lang.declare.conditions import Condition, any_of, given
from ocannl.lang.declare.quantities import each, value
from ocannl.lang.ops import grids, layout, padding, resize

Conditions = tuple[Condition, ...]


def _optional(name: str, condition: Condition) -> Condition:
    return ~given(name) | condition


def _choice(name: str, choices: Iterable[object]) -> Condition:
    return any_of(*(value(name) == choice for choice in choices))


def _spatial(names: Iterable[str], *conditions: Condition) -> dict[str, Conditions]:
    """The same conditions for the variants of operations by the number of spatial axes."""
    return {f"{name}{n}d": conditions for name in names for n in (1, 2, 3)}


_STRIDE, _DILATION, _WINDOW = each("stride") >= 1, each("dilation") >= 1, each("window") >= 1
_POOLED = (_WINDOW, _optional("stride", _STRIDE), _DILATION)
_BLOCK, _SIZE, _SCALE = each("block") >= 1, each("size") >= 1, value("scale") >= 0
_COUNT, _POSITIVE_EPS, _ORDERED = value("n") >= 0, value("eps") > 0, value("low") < value("high")
_RESIZED = (
    (given("size") & ~given("scale")) | (given("scale") & ~given("size")),
    _optional("size", _SIZE),
    _optional("scale", each("scale") > 0),
)

CONDITIONS: dict[str, Conditions] = {
    **_spatial(["conv", "conv_transpose"], _STRIDE, _DILATION, value("groups") >= 1),
    **_spatial(["depthwise_conv"], _STRIDE, _DILATION, value("multiplier") >= 1),
    **_spatial(["max_pool", "avg_pool"], *_POOLED),
    **_spatial(["lp_pool"], *_POOLED, value("p") >= 1),
    **_spatial(["adaptive_avg_pool", "adaptive_max_pool"], _SIZE),
    **dict.fromkeys(("fold", "unfold"), (_WINDOW, _STRIDE, _DILATION)),
    **dict.fromkeys(("batch_to_space", "pixel_shuffle", "pixel_unshuffle", "space_to_batch"), (_BLOCK,)),
    **dict.fromkeys(("depth_to_space", "space_to_depth"), (_BLOCK, _choice("mode", layout.DEPTH_ORDERS))),
    **dict.fromkeys(("affine_grid", "center_crop", "local_response_norm", "random_crop"), (_SIZE,)),
    **dict.fromkeys(("repeat", "tile"), (each("times") >= 0,)),
    **dict.fromkeys(("bincount", "iota", "multinomial", "one_hot", "permutation"), (_COUNT,)),
    **{f"segment_{name}": (_COUNT,) for name in ("max", "mean", "min", "prod", "sum")},
    **dict.fromkeys(("nonzero", "unique"), (value("size") >= 0,)),
    **dict.fromkeys(("exponential", "gumbel", "laplace", "logistic"), (_SCALE,)),
    **dict.fromkeys(("cosine_similarity", "gaussian_nll_loss", "normalize"), (_POSITIVE_EPS,)),
    **{f"fft.{name}": (value("n") >= 1,) for name in ("blackman", "hamming", "hann", "kaiser")},
    **{f"fft.{name}": (_optional("n", value("n") >= 1),) for name in ("irfft", "irfft2")},
    "categorical": (_optional("samples", value("samples") >= 0),),
    "cdist": (value("p") >= 0,),
    "celu": (value("alpha") > 0,),
    "channel_shuffle": (value("groups") >= 1,),
    "choice": (value("samples") >= 0,),
    "chunk": (value("count") >= 1,),
    "cross_entropy": (value("label_smoothing") >= 0, value("label_smoothing") <= 1),
    "ctc_loss": (value("blank") >= 0,),
    "dropout": (value("rate") >= 0, value("rate") < 1),
    "fft.stft": (value("n") >= 1, _optional("hop", value("hop") >= 1)),
    "grid_sample": (_choice("mode", grids.MODES), _choice("padding", grids.PADDINGS)),
    "histogram": (value("bins") >= 1,),
    "interpolate": (
        *_RESIZED,
        _choice("mode", resize.PYTORCH_MODES),
        _choice("align_corners", (False,)) | _choice("antialias", (False,)),
    ),
    "kthvalue": (value("k") >= 1,),
    "linalg.pinv": (_optional("rtol", value("rtol") >= 0),),
    "matrix_norm": (_choice("ord", ("fro", 1, -1, inf, -inf)),),
    "meshgrid": (_choice("indexing", ("xy", "ij")),),
    "multi_margin_loss": (_choice("p", (1, 2)),),
    "normal": (value("std") >= 0,),
    "pad": (_choice("mode", padding.MODES),),
    "quantile": (each("q") >= 0, each("q") <= 1),
    "randint": (_ORDERED,),
    "resize": (
        *_RESIZED,
        _choice("mode", resize.MODES),
        _choice("coordinates", resize.COORDINATES),
        _choice("rounding", resize.ROUNDING),
    ),
    "smooth_l1_loss": (value("beta") > 0,),
    "threefry4x32": (_choice("rounds", (12, 20)),),
    "topk": (value("k") >= 0,),
    "truncated_normal": (value("std") > 0, _ORDERED),
    "uniform": (value("low") <= value("high"),),
}
"""Conditions on the settings, by operation."""
