"""Documentation of the settings of the built-in operations, by name, and by operation where the meaning differs."""

from __future__ import annotations

_KERNEL = "the distance of neighbouring {}, an integer or one for each axis"
_STREAM = "the stream of random bits, of the enclosing block by default"

SETTINGS: dict[str, str] = {
    "align_corners": "whether the outermost cells, rather than their outer edges, coincide",
    "alpha": "the factor of the exponential part",
    "antialias": "whether to average over the cells that a smaller result merges",
    "approximate": '"tanh" for the approximation by tanh, "none" for the error function',
    "atol": "the absolute tolerance",
    "axis": "the row that receives the new axis",
    "beta": "where the square changes into an absolute value",
    "bins": "the number of intervals",
    "blank": "the class without a label",
    "block": "the size of a block, an integer or one for each axis",
    "bound": "the largest number of steps",
    "causal": "whether a query sees no later keys",
    "combine": "the primitive that combines the operands",
    "ceil_mode": "whether windows may end behind the padded operand",
    "channels": "the number of output channels of a kernel that is inferred",
    "coordinates": "how positions of the result map to positions of the operand",
    "count": "the number of parts",
    "counter": "the number of the draw, of the enclosing block by default",
    "count_include_pad": "whether the cells of the padding count",
    "crops": "the cells to remove at both ends of each axis",
    "cubic_coeff_a": "the parameter of the cubic kernel",
    "delta": "where the square changes into an absolute value",
    "descending": "whether the largest comes first",
    "dilation": _KERNEL.format("cells of a window"),
    "dtype": "the type of the result",
    "eps": "a small number that avoids a division by zero",
    "equal_nan": "whether two NaN are close",
    "fill": "the value of results that are not there",
    "full": "whether to add the constant term",
    "function": "the block, or another function of tensors",
    "gamma": "the exponent of the focus on hard examples",
    "groups": "the number of separate convolutions that channels are split into",
    "high": "the upper limit",
    "hop": "the distance of windows",
    "if_false": "the function for a condition that is 0",
    "if_true": "the function for all further conditions",
    "ignore": "the class whose cells have no loss",
    "indexing": '"ij" for rows first, "xy" for columns first',
    "init": "the initial state",
    "k": "the diagonal, positive above the main one",
    "key": _STREAM,
    "label_smoothing": "the part of the probability that is spread over all classes",
    "largest": "whether to take the largest, not the smallest",
    "length": "the number of steps, if no operand tells",
    "loc": "the location: the mean, or the mode",
    "log_input": "whether the operand is the logarithm of the rate",
    "log_target": "whether the target is a logarithm of probabilities",
    "low": "the lower limit",
    "lower": "whether the matrix is lower triangular",
    "margin": "the distance from which there is no loss",
    "mean": "the mean",
    "method": "how to compute a quantile between two values",
    "mode": "the variant of the operation",
    "multiplier": "the number of kernels of each channel",
    "n": "the number of results along the new axis",
    "names": "sizes of axes and coefficients that the spec names",
    "nan": "the number in place of NaN",
    "neginf": "the number in place of minus infinity, the least finite one by default",
    "norm": "where the transform is divided by the number of cells",
    "operands": "tensors that are passed to both functions",
    "ord": "the order of the norm",
    "p": "the order of the norm",
    "output_padding": "the cells to add at the end of each axis of the result",
    "padding": '"none" for windows that cover the operand exactly, "same" for one window for each `stride` cells, or '
    "the cells to add at both ends of each axis",
    "posinf": "the number in place of infinity, the largest finite one by default",
    "periodic": "whether the window is one period of a periodic function",
    "q": "the quantile, from 0 to 1, or a list",
    "range": "the limits of the intervals; the extremes by default",
    "rate": "the probability of zeros",
    "recompute": "whether the gradient computes states again instead of storing them",
    "reduce": "the accumulating primitive",
    "replace": "whether a row may be drawn several times",
    "reverse": "whether the steps run from the end",
    "rounds": "the number of rounds, 12 or 20",
    "right": "whether an interval includes its upper limit",
    "rounding": "which neighbour of a position is the nearest",
    "rtol": "the relative tolerance",
    "sample": "whether to divide by n - 1, for a sample",
    "samples": "the number of draws",
    "shift": "the number of cells by which values move",
    "scale": "the factor of the size, a number or one for each axis",
    "side": "the side of equal values",
    "size": "the size of the result, an integer or one for each axis",
    "sizes": "the sizes of the result: `batch`, `input`, `output` or `shape`",
    "slope": "the factor of negative values",
    "smooth": "a number added to numerator and denominator",
    "spec": "the axes of operands and result",
    "squared": "whether to square the loss",
    "std": "the standard deviation",
    "step": "the function of one step",
    "condition": "the function that tells whether to go on",
    "stride": _KERNEL.format("windows"),
    "swap": "whether to take the nearer of two distances to the negative example",
    "threshold": "the limit",
    "times": "the number of copies, an integer or one for each axis",
    "transpose": "whether to solve for the transposed matrix",
    "unit_diagonal": "whether the diagonal counts as ones",
    "value": "the number to fill with",
    "width": "half the width of the interval that maps to 0",
    "widths": "the cells to add at both ends of each axis",
    "window": "the size of a window, an integer or one for each axis",
    "xs": "tensors whose leading axis the steps run along",
    "zero_infinity": "whether targets without an alignment have the loss 0 instead of infinity",
}
"""By the name of the setting."""

_REDUCTION = "the axes to keep, as in `...|a,b => ...|a`; without a spec all axes are reduced"
_SCAN = "the axis to operate along, which the result of the spec omits, as in `...|a,b => ...|a`"
_ROW = "the axes to keep, as in `...|a,b => ...|a`; without a spec the output row is reduced"

SPECS: dict[str, str] = {
    **dict.fromkeys(
        ("sum", "max", "min", "mean", "prod", "var", "std", "norm", "any", "all", "count_nonzero"), _REDUCTION
    ),
    **dict.fromkeys(
        ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "ptp", "moments"), _REDUCTION
    ),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "flip", "roll", "argmax", "argmin"), _SCAN),
    **dict.fromkeys(("softmax", "log_softmax", "logsumexp", "normalize"), _ROW),
}
"""The settings `spec`, by the name of the operation."""

_DUPLICATES = "what happens to several values at the same position"

SPECIFIC: dict[str, str] = {
    **{f"{name}.mode": _DUPLICATES for name in ("index_update", "put_along_axis", "scatter_nd")},
    **{f"{kind}{n}d.window": "the size of the window of a kernel that is inferred, an integer or one for each axis"
       for kind in ("conv", "conv_transpose", "depthwise_conv") for n in (1, 2, 3)},
    **{f"{name}.scale": "the factor of the numbers" for name in ("exponential", "gumbel", "laplace", "logistic")},
    "scaled_dot_product_attention.scale": "the factor of the products, by default `1 / sqrt(d)`",
    "poisson.bound": "the largest count, for a tensor of rates",
    "sigmoid_focal_loss.alpha": "the weight of targets 1, and 1 minus that of targets 0",
    "gaussian_nll_loss.eps": "the least variance",
    "grid_sample.padding": "the values of positions outside the operand",
    "local_response_norm.size": "the number of neighbouring channels",
    "interpolate.mode": "the interpolation between cells",
    "resize.mode": "the interpolation between cells",
    "pad.mode": "the values of the added cells",
    "random_crop.size": "the size of the crop, an integer or one for each axis",
    "center_crop.size": "the size of the crop, an integer or one for each axis",
    "threshold.value": "the value below the limit",
    "fold.padding": "the cells around the result that the windows cover",
    "unfold.padding": "the cells to add around the operand",
    "space_to_batch.padding": "the cells to add at both ends of each axis",
}
"""Settings whose meaning differs from that of other operations."""


def setting_doc(operation: str, setting: str) -> str:
    """The documentation of one setting, empty if there is none."""
    specific = SPECS.get(operation) if setting == "spec" else SPECIFIC.get(f"{operation}.{setting}")
    return specific or SETTINGS.get(setting, "")
