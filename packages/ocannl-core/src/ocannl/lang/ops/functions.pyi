"""The operations, as functions. Generated from the table of operations; do not edit."""

from collections.abc import Sequence
from typing import Any, Literal

from ocannl.lang.core.tensor import Tensor

__all__ = [
    "abs", "absolute_error", "acos", "acosh", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "add", "affine_grid", "and_", "argmax",
    "argmin", "argsort", "asin", "asinh", "atan", "atan2", "atanh", "average", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "batch_to_space", "bernoulli", "beta", "binary_cross_entropy", "bincount", "bitwise_and",
    "bitwise_or", "bitwise_xor", "block", "cast", "categorical", "cbrt", "cdist", "ceil", "celu", "center_crop",
    "channel_shuffle", "choice", "chunk", "clip", "concat", "contrastive_loss", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "copysign", "corrcoef", "cos", "cosh",
    "cosine_embedding_loss", "cosine_similarity", "count_nonzero", "cov", "cross", "cross_entropy", "ctc_loss",
    "cummax", "cummin", "cumprod", "cumsum", "degrees", "depth_to_space", "depthwise_conv1d", "depthwise_conv2d",
    "depthwise_conv3d", "diag", "diagonal", "dice_loss", "digamma", "digitize", "div", "dot", "dropout", "einsum",
    "elu", "eq", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "exponential", "flip", "floor", "fma", "fmod",
    "fold", "fst", "gamma", "gather_nd", "gaussian_nll_loss", "ge", "gelu", "glu", "grid_sample", "gt", "gumbel",
    "hard_sigmoid", "hard_swish", "hard_tanh", "hardshrink", "heaviside", "hinge_embedding_loss", "hinge_loss",
    "histogram", "huber", "hypot", "id", "index_update", "interpolate", "iota", "iou_loss", "isclose", "isfinite",
    "isinf", "isnan", "kl_div", "kron", "kthvalue", "laplace", "le", "leaky_relu", "left_shift", "lerp", "lgamma",
    "local_response_norm", "log", "log10", "log1p", "log2", "log_cosh", "log_sigmoid", "log_softmax", "logaddexp",
    "logical_xor", "logistic", "logit", "logsumexp", "lp_pool1d", "lp_pool2d", "lp_pool3d", "lt",
    "margin_ranking_loss", "matmul", "matrix_norm", "max_pool1d", "max_pool2d", "max_pool3d", "maximum", "median",
    "meshgrid", "minimum", "mish", "mod", "moments", "mul", "multi_margin_loss", "multinomial", "nan_to_num", "nanmax",
    "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "ne", "neg", "nonzero", "norm", "normal",
    "normalize", "not_", "one_hot", "or_", "outer", "pad", "pairwise_distance", "permutation", "pick", "pixel_shuffle",
    "pixel_unshuffle", "poisson", "poisson_nll_loss", "pow", "prelu", "prod", "ptp", "put_along_axis", "quantile",
    "rademacher", "radians", "randint", "random_crop", "recip", "recip_sqrt", "relu", "relu6", "relu_gate", "repeat",
    "resize", "right_shift", "roll", "rot90", "sat01", "sat01_gate", "scaled_dot_product_attention", "scatter_nd",
    "searchsorted", "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum", "selu", "sigmoid",
    "sigmoid_focal_loss", "sign", "signbit", "silu", "sin", "sinc", "sinh", "smooth_l1_loss", "snd",
    "soft_margin_loss", "softmax", "softmax_focal_loss", "softplus", "softshrink", "softsign", "sort",
    "space_to_batch", "space_to_depth", "split", "sqrt", "square", "squared_error", "stack", "std", "stop_gradient",
    "sub", "take", "take_along_axis", "tan", "tanh", "tanhshrink", "threefry4x32", "threefry4x32_12",
    "threefry4x32_20", "threshold", "tile", "topk", "trace", "tril", "triplet_margin_loss", "triu", "trunc",
    "truncated_normal", "unfold", "uniform", "unique", "var", "where",
]  # fmt: skip

def abs(x: object, /, *, label: str | None = None) -> Tensor:
    """The absolute value."""

def absolute_error(x: object, target: object, *, label: str | None = None) -> Tensor:
    """`abs(x - target)`."""

def acos(x: object, *, label: str | None = None) -> Tensor:
    """The inverse cosine, in radians; NaN outside [-1, 1]."""

def acosh(x: object, *, label: str | None = None) -> Tensor:
    """The inverse hyperbolic cosine; NaN below 1."""

def adaptive_avg_pool1d(x: object, size: int | Sequence[int]) -> Tensor:
    """The mean over each of `size` windows along each spatial axis, which together cover `x`."""

def adaptive_avg_pool2d(x: object, size: int | Sequence[int]) -> Tensor:
    """The mean over each of `size` windows along each spatial axis, which together cover `x`."""

def adaptive_avg_pool3d(x: object, size: int | Sequence[int]) -> Tensor:
    """The mean over each of `size` windows along each spatial axis, which together cover `x`."""

def adaptive_max_pool1d(x: object, size: int | Sequence[int]) -> Tensor:
    """The maximum over each of `size` windows along each spatial axis, which together cover `x`."""

def adaptive_max_pool2d(x: object, size: int | Sequence[int]) -> Tensor:
    """The maximum over each of `size` windows along each spatial axis, which together cover `x`."""

def adaptive_max_pool3d(x: object, size: int | Sequence[int]) -> Tensor:
    """The maximum over each of `size` windows along each spatial axis, which together cover `x`."""

def add(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The sum."""

def affine_grid(transform: object, size: Sequence[int], *, align_corners: bool = False) -> Tensor:
    """The positions of the cells of an image of some size after an affine transformation, for `grid_sample`."""

def and_(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """1 where both are nonzero, else 0."""

def argmax(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The int32 index of the largest value along one axis: the axis that the spec removes, or the only output axis.
    Of several equal values the first; the first NaN, if there is one.
    """

def argmin(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The int32 index of the smallest value along one axis: the axis that the spec removes, or the only output axis.
    Of several equal values the first; the first NaN, if there is one.
    """

def argsort(x: object, spec: str | None = None, *, descending: bool = False, **names: Any) -> Tensor:
    """The int32 indices that sort one axis: the axis that the spec removes, or the only output axis."""

def asin(x: object, *, label: str | None = None) -> Tensor:
    """The inverse sine, in radians; NaN outside [-1, 1]."""

def asinh(x: object, *, label: str | None = None) -> Tensor:
    """The inverse hyperbolic sine."""

def atan(x: object, /, *, label: str | None = None) -> Tensor:
    """The inverse tangent, in radians."""

def atan2(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The angle of the point with the second as abscissa and the first as ordinate, in radians."""

def atanh(x: object, *, label: str | None = None) -> Tensor:
    """The inverse hyperbolic tangent; NaN outside [-1, 1], infinite at the ends."""

def average(x: object, weights: object, spec: str = "...|...->...; ...|...->... => ", **names: Any) -> Tensor:
    """The weighted mean `sum(x * weights) / sum(weights)`, over the axes that a spec of both operands removes, or
    over all axes of operands of equal shape.
    """

def avg_pool1d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *,
    dilation: int | Sequence[int] = 1, padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none",
    ceil_mode: bool = False, count_include_pad: bool = True
) -> Tensor:
    """The mean of each window of `x`; `stride` is the window size by default."""

def avg_pool2d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *,
    dilation: int | Sequence[int] = 1, padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none",
    ceil_mode: bool = False, count_include_pad: bool = True
) -> Tensor:
    """The mean of each window of `x`; `stride` is the window size by default."""

def avg_pool3d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *,
    dilation: int | Sequence[int] = 1, padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none",
    ceil_mode: bool = False, count_include_pad: bool = True
) -> Tensor:
    """The mean of each window of `x`; `stride` is the window size by default."""

def batch_to_space(
    x: object, block: int | Sequence[int], *, crops: int | Sequence[int] | Sequence[Sequence[int]] = 0
) -> Tensor:
    """Moves the positions inside blocks from the batch axis to the spatial axes, and then removes `crops` cells: the
    inverse of `space_to_batch`.
    """

def bernoulli(p: object, *, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """1 with probability `p`, a number or a tensor, else 0: new values at each call, or those of `counter`."""

def beta(alpha: object, beta: object, *, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """Random numbers of the beta distribution, of the density `x**(alpha - 1) * (1 - x)**(beta - 1)` up to a factor:
    new numbers at each call, or those of `counter`. Both parameters are positive numbers, or tensors of them.
    """

def binary_cross_entropy(
    logits: object, target: object, *, weight: object = None, positive_weight: object = None, label: str | None = None
) -> Tensor:
    """`-target * log(p) - (1 - target) * log(1 - p)` with `p = sigmoid(logits)`, without overflow."""

def bincount(ids: object, n: int, weights: object = None) -> Tensor:
    """The number of cells of each integer below `n`, or the sum of their `weights`, over the output row."""

def bitwise_and(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The bits that are set in both."""

def bitwise_or(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The bits that are set in one."""

def bitwise_xor(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The bits that are set in exactly one."""

def block(nested: Any) -> Tensor:
    """Stacks tensors of the same shape in nested lists (output axes), tuples (input axes) and `oc.batch` (batch
    axes).
    """

def cast(x: object, dtype: object, *, label: str | None = None) -> Tensor:
    """Converts values to another data type."""

def categorical(
    logits: object, *, samples: int | None = None, key: str | None = None, counter: object = None
) -> Tensor:
    """Random classes with the probabilities `softmax(logits)`, as int32: new ones at each call, or those of
    `counter`. With `samples`, this number of classes for each cell of the batch row, along an output axis.
    """

def cbrt(x: object, *, label: str | None = None) -> Tensor:
    """The cube root, also of negative numbers."""

def cdist(x: object, y: object, *, p: float = 2) -> Tensor:
    """The distance of the order `p` between each row of `x` and each row of `y`: the norm of their difference."""

def ceil(x: object, *, label: str | None = None) -> Tensor:
    """The smallest integer that is not less than the value."""

def celu(x: object, *, alpha: float = 1.0, label: str | None = None) -> Tensor:
    """The value where it is positive, else `alpha * (exp(x / alpha) - 1)`."""

def center_crop(x: object, size: int | Sequence[int]) -> Tensor:
    """The window of `size` cells at the center of the spatial axes, which are the first output axes."""

def channel_shuffle(x: object, groups: int) -> Tensor:
    """Interleaves groups of channels, which are the last output axis."""

def choice(
    x: object, samples: int, *, replace: bool = True, p: object = None, key: str | None = None, counter: object = None
) -> Tensor:
    """`samples` random rows along the leading output axis of `x`, or random integers from 0 to `x` - 1 for an
    integer: new ones at each call, or those of `counter`.
    """

def chunk(x: object, count: int, spec: str | None = None) -> list[Tensor]:
    """At most `count` parts of equal size, the last of which may be smaller, of the axis that the spec removes, or
    of the only output axis, as a list.
    """

def clip(x: object, low: object = None, high: object = None) -> Tensor:
    """The value limited to the range from `low` to `high`; NaN is preserved."""

def concat(spec: str, *xs: object, label: str | None = None, **names: Any) -> Tensor:
    """Concatenates axes, splits or pads them: `"a; b => a^b"`, `"a^b => b"`, `"a => 3^a"` (zeros before `a`)."""

def contrastive_loss(distance: object, target: object, *, margin: float = 1.0, label: str | None = None) -> Tensor:
    """`distance**2` of pairs of the same class, whose target is 1, and `max(margin - distance, 0)**2` of pairs of
    different classes, whose target is 0.
    """

def conv1d(
    x: object, kernel: object, *, stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none", groups: int = 1,
    window: int | Sequence[int] | None = None, channels: int | None = None
) -> Tensor:
    """The sum over each window of `x` times a kernel; `groups` splits channels into separate convolutions."""

def conv2d(
    x: object, kernel: object, *, stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none", groups: int = 1,
    window: int | Sequence[int] | None = None, channels: int | None = None
) -> Tensor:
    """The sum over each window of `x` times a kernel; `groups` splits channels into separate convolutions."""

def conv3d(
    x: object, kernel: object, *, stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none", groups: int = 1,
    window: int | Sequence[int] | None = None, channels: int | None = None
) -> Tensor:
    """The sum over each window of `x` times a kernel; `groups` splits channels into separate convolutions."""

def conv_transpose1d(
    x: object, kernel: object, *, stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none", output_padding: int | Sequence[int] = 0,
    groups: int = 1, window: int | Sequence[int] | None = None, channels: int | None = None
) -> Tensor:
    """The transposed convolution: the kernel times each cell of `x`, summed where these windows overlap."""

def conv_transpose2d(
    x: object, kernel: object, *, stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none", output_padding: int | Sequence[int] = 0,
    groups: int = 1, window: int | Sequence[int] | None = None, channels: int | None = None
) -> Tensor:
    """The transposed convolution: the kernel times each cell of `x`, summed where these windows overlap."""

def conv_transpose3d(
    x: object, kernel: object, *, stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none", output_padding: int | Sequence[int] = 0,
    groups: int = 1, window: int | Sequence[int] | None = None, channels: int | None = None
) -> Tensor:
    """The transposed convolution: the kernel times each cell of `x`, summed where these windows overlap."""

def copysign(x: object, y: object, *, label: str | None = None) -> Tensor:
    """The absolute value of `x`, with the sign of `y`, which may be a zero."""

def corrcoef(x: object) -> Tensor:
    """The correlation coefficients of variables, the rows of a matrix, from observations, its columns: the
    covariances divided by both standard deviations, and limited to the range from -1 to 1.
    """

def cos(x: object, /, *, label: str | None = None) -> Tensor:
    """The cosine, of radians."""

def cosh(x: object, *, label: str | None = None) -> Tensor:
    """The hyperbolic cosine."""

def cosine_embedding_loss(x: object, y: object, target: object, *, margin: float = 0.0) -> Tensor:
    """`1 - c` where the target is 1, and `max(c - margin, 0)` where the target is -1, for each cell of the batch
    row; `c` is the cosine of the angle between the output rows.
    """

def cosine_similarity(x: object, y: object, *, eps: float = 1e-08) -> Tensor:
    """The cosine of the angle between two output rows: the inner product of `x / max(norm(x), eps)` and `y /
    max(norm(y), eps)`.
    """

def count_nonzero(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The int32 number of nonzero cells over the axes that a one-operand spec removes, or over all axes."""

def cov(x: object, *, sample: bool = True) -> Tensor:
    """The covariance matrix of variables, the rows of a matrix, from observations, its columns; the divisor is the
    number of observations minus 1, or without `sample` the number of observations.
    """

def cross(x: object, y: object) -> Tensor:
    """The cross product of vectors of three components, along the last output axis."""

def cross_entropy(
    logits: object, target: object, *, ignore: int | None = None, weight: object = None, label_smoothing: float = 0.0
) -> Tensor:
    """`-log(softmax(logits))` of the class `target`, for each cell of the batch row."""

def ctc_loss(
    log_probabilities: object, targets: object, input_lengths: object = None, target_lengths: object = None, *,
    blank: int = 0, zero_infinity: bool = False
) -> Tensor:
    """The negative logarithm of the probability of a sequence of labels, for each cell of the batch row: the sum
    over all alignments of labels and blanks with the frames `t`, where repeated labels without a blank between
    them are one.
    """

def cummax(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The cumulative maximum along one axis: the axis that the spec removes, or the only output axis."""

def cummin(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The cumulative minimum along one axis: the axis that the spec removes, or the only output axis."""

def cumprod(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The cumulative product along one axis: the axis that the spec removes, or the only output axis."""

def cumsum(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The cumulative sum along one axis: the axis that the spec removes, or the only output axis."""

def degrees(x: object, *, label: str | None = None) -> Tensor:
    """An angle in degrees, from radians."""

def depth_to_space(x: object, block: int | Sequence[int], *, mode: str = "DCR") -> Tensor:
    """Moves blocks of channels to the spatial axes, which are all output axes but the last."""

def depthwise_conv1d(
    x: object, kernel: object, *, multiplier: int = 1, stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1, padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none",
    window: int | Sequence[int] | None = None
) -> Tensor:
    """The convolution of each channel of `x` alone, by `multiplier` kernels."""

def depthwise_conv2d(
    x: object, kernel: object, *, multiplier: int = 1, stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1, padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none",
    window: int | Sequence[int] | None = None
) -> Tensor:
    """The convolution of each channel of `x` alone, by `multiplier` kernels."""

def depthwise_conv3d(
    x: object, kernel: object, *, multiplier: int = 1, stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1, padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none",
    window: int | Sequence[int] | None = None
) -> Tensor:
    """The convolution of each channel of `x` alone, by `multiplier` kernels."""

def diag(x: object) -> Tensor:
    """The diagonal matrix of a vector."""

def diagonal(x: object) -> Tensor:
    """The diagonal of a square matrix."""

def dice_loss(x: object, target: object, *, smooth: float = 1.0) -> Tensor:
    """`1 - (2 * sum(x * target) + smooth) / (sum(x) + sum(target) + smooth)`, over the output row: 1 minus the Dice
    coefficient of probabilities `x` and a mask.
    """

def digamma(x: object, *, label: str | None = None) -> Tensor:
    """The derivative of `lgamma`, computed in float64; NaN at negative integers."""

def digitize(x: object, bins: object, right: bool = False) -> Tensor:
    """The int32 number of the interval of each cell of `x`: `i` where `bins[i-1] <= x < bins[i]`; with `right`,
    where `bins[i-1] < x <= bins[i]`.
    """

def div(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The quotient; of integers, as float32."""

def dot(x: object, y: object) -> Tensor:
    """The inner product over the output row."""

def dropout(x: object, rate: float = 0.5, *, key: str | None = None, counter: object = None) -> Tensor:
    """In training, sets each cell of `x` to zero with probability `rate`, and divides the others by `1 - rate`."""

def einsum(
    spec: str, *xs: object, reduce: str = "add", combine: str = "mul", label: str | None = None, **names: Any
) -> Tensor:
    """Generalized einsum of one or more operands."""

def elu(x: object, *, alpha: float = 1.0, label: str | None = None) -> Tensor:
    """The value where it is positive, else `alpha * (exp(x) - 1)`."""

def eq(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """1 where both are equal, else 0."""

def erf(x: object, /, *, label: str | None = None) -> Tensor:
    """The error function."""

def erfc(x: object, /, *, label: str | None = None) -> Tensor:
    """1 minus the error function, accurate where that is close to 1."""

def erfinv(x: object, *, label: str | None = None) -> Tensor:
    """The inverse of the error function; NaN outside [-1, 1], infinite at the ends."""

def exp(x: object, /, *, label: str | None = None) -> Tensor:
    """Euler's number to the power of the value."""

def exp2(x: object, /, *, label: str | None = None) -> Tensor:
    """2 to the power of the value."""

def expm1(x: object, *, label: str | None = None) -> Tensor:
    """`exp(x) - 1`, accurate where `x` is small."""

def exponential(scale: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """Exponentially distributed random numbers of the mean `scale`: new numbers at each call, or those of `counter`."""

def flip(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """Reverses the axes that the spec removes, or the only output axis."""

def floor(x: object, *, label: str | None = None) -> Tensor:
    """The largest integer that is not greater than the value."""

def fma(x: object, y: object, z: object, /, *, label: str | None = None) -> Tensor:
    """The first times the second, plus the third."""

def fmod(x: object, y: object, *, label: str | None = None) -> Tensor:
    """The remainder of the quotient that is rounded towards 0: it has the sign of `x`, unlike that of `x % y`."""

def fold(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] = 1, *, dilation: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none"
) -> Tensor:
    """The sum of overlapping windows, in the axes that `unfold` returns."""

def fst(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The first."""

def gamma(
    concentration: object, scale: object = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Random numbers of the gamma distribution, of the mean `concentration * scale`: new numbers at each call, or
    those of `counter`. Both parameters are positive numbers, or tensors of them.
    """

def gather_nd(x: object, ids: object) -> Tensor:
    """The rows of `x` at the index tuples along the last output axis of `ids`."""

def gaussian_nll_loss(
    x: object, target: object, variance: object, *, full: bool = False, eps: float = 1e-06, label: str | None = None
) -> Tensor:
    """`(log(variance) + (x - target)**2 / variance) / 2`, the negative log-likelihood under a normal distribution,
    up to the constant `log(2 * pi) / 2`, which `full` adds. Variances are at least `eps`.
    """

def ge(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """1 where the first is at least the second, else 0."""

def gelu(x: object, *, approximate: Literal['tanh', 'none'] = "tanh") -> Tensor:
    """`x` times the probability that a standard normal variable is less than `x`."""

def glu(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The gated linear unit: the first half of an axis, times the sigmoid of its second half. The axis is the one
    that the spec removes, or the only output axis.
    """

def grid_sample(
    x: object, grid: object, *, mode: str = "bilinear", padding: str = "zeros", align_corners: bool = False
) -> Tensor:
    """The values of images at positions between their cells."""

def gt(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """1 where the first is greater than the second, else 0."""

def gumbel(
    loc: float = 0.0, scale: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Random numbers of the Gumbel distribution, of the distribution function `exp(-exp((loc - x) / scale))`: new
    numbers at each call, or those of `counter`.
    """

def hard_sigmoid(x: object, *, label: str | None = None) -> Tensor:
    """`x / 6 + 1 / 2`, limited to [0, 1]; NaN is preserved."""

def hard_swish(x: object, *, label: str | None = None) -> Tensor:
    """`x * hard_sigmoid(x)`."""

def hard_tanh(x: object, *, low: float = -1.0, high: float = 1.0, label: str | None = None) -> Tensor:
    """The value limited to [low, high]; NaN is preserved."""

def hardshrink(x: object, *, width: float = 0.5, label: str | None = None) -> Tensor:
    """0 in [-width, width], elsewhere the value; NaN is preserved."""

def heaviside(x: object, value: object, *, label: str | None = None) -> Tensor:
    """0 where `x` is negative, 1 where it is positive, and `value` where it is 0; NaN is preserved."""

def hinge_embedding_loss(x: object, target: object, *, margin: float = 1.0, label: str | None = None) -> Tensor:
    """The distance `x` where the target is 1, and `max(margin - x, 0)` where the target is -1."""

def hinge_loss(
    x: object, target: object, *, margin: float = 1.0, squared: bool = False, label: str | None = None
) -> Tensor:
    """`max(margin - target * x, 0)` for targets 1 and -1, or with `squared` its square."""

def histogram(x: object, bins: int = 10, range: tuple[float, float] | None = None) -> Tensor:
    """The int32 number of cells in each of `bins` intervals of equal width, over the output row."""

def huber(x: object, target: object, *, delta: float = 1.0, label: str | None = None) -> Tensor:
    """`(x - target)**2 / 2` where the difference is at most `delta`, else `delta * (abs(x - target) - delta / 2)`."""

def hypot(x: object, y: object, *, label: str | None = None) -> Tensor:
    """`sqrt(x**2 + y**2)`, computed without overflow; infinite if either is."""

def id(x: object, /, *, label: str | None = None) -> Tensor:
    """The value itself."""

def index_update(
    x: object, ids: object, values: object, *, mode: Literal['set', 'add', 'mul', 'min', 'max'] = "set"
) -> Tensor:
    """`x` with the rows at the integers `ids` along the leading output axis updated by `values`."""

def interpolate(
    x: object, size: int | Sequence[int] | None = None, *, scale: float | Sequence[float] | None = None,
    mode: str = "nearest", align_corners: bool = False, antialias: bool = False
) -> Tensor:
    """`resize` with the settings of PyTorch."""

def iota(n: int, *, dtype: object = None, label: str | None = None) -> Tensor:
    """0, 1, 2, ..., n-1 along one output axis, as int32: an expression without operands and without storage."""

def iou_loss(x: object, target: object, *, smooth: float = 1.0) -> Tensor:
    """`1 - (c + smooth) / (sum(x) + sum(target) - c + smooth)` with `c = sum(x * target)`, over the output row: 1
    minus the intersection over the union of probabilities `x` and a mask, their Jaccard index.
    """

def isclose(
    x: object, y: object, *, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False, label: str | None = None
) -> Tensor:
    """1 where `abs(x - y) <= atol + rtol * abs(y)` or both are equal, else 0. With `equal_nan`, NaN equals NaN."""

def isfinite(x: object, *, label: str | None = None) -> Tensor:
    """1 where the value is finite, else 0."""

def isinf(x: object, *, label: str | None = None) -> Tensor:
    """1 where the value is an infinity, else 0."""

def isnan(x: object, *, label: str | None = None) -> Tensor:
    """1 where the value is not a number, else 0."""

def kl_div(x: object, target: object, *, log_target: bool = False) -> Tensor:
    """The Kullback-Leibler divergence `sum(target * (log(target) - x))` of a distribution `target` from the log-
    probabilities `x`, over the output row; with `log_target`, `target` has log-probabilities, too. Terms whose
    target is 0 are 0.
    """

def kron(x: object, y: object) -> Tensor:
    """The Kronecker product: each cell of `x` times all of `y`, along equally many output axes, whose sizes
    multiply.
    """

def kthvalue(x: object, k: int, spec: str | None = None, **names: Any) -> Tensor:
    """The `k`-th smallest cell along one axis, counted from 1: the axis that the spec removes, or the only output
    axis.
    """

def laplace(
    loc: float = 0.0, scale: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Random numbers of the Laplace distribution, of the density `exp(-abs(x - loc) / scale) / (2 * scale)`: new
    numbers at each call, or those of `counter`.
    """

def le(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """1 where the first is at most the second, else 0."""

def leaky_relu(x: object, *, slope: float = 0.01, label: str | None = None) -> Tensor:
    """The value where it is positive, else `slope` times the value."""

def left_shift(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The first, shifted left by the second."""

def lerp(x: object, y: object, weight: object, *, label: str | None = None) -> Tensor:
    """Linear interpolation: `x + weight * (y - x)`, which is exactly `y` where `weight` is 1."""

def lgamma(x: object, /, *, label: str | None = None) -> Tensor:
    """The logarithm of the absolute value of the gamma function."""

def local_response_norm(
    x: object, size: int = 5, *, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """`x / (k + alpha * mean)**beta`, with the mean of the squares in a window of `size` channels."""

def log(x: object, /, *, label: str | None = None) -> Tensor:
    """The natural logarithm."""

def log10(x: object, *, label: str | None = None) -> Tensor:
    """The logarithm to base 10."""

def log1p(x: object, *, label: str | None = None) -> Tensor:
    """`log(1 + x)`, accurate where `x` is small."""

def log2(x: object, /, *, label: str | None = None) -> Tensor:
    """The logarithm to base 2."""

def log_cosh(x: object, target: object, *, label: str | None = None) -> Tensor:
    """`log(cosh(x - target))`, without overflow and accurate for small differences."""

def log_sigmoid(x: object, *, label: str | None = None) -> Tensor:
    """The logarithm of the sigmoid, computed without overflow."""

def log_softmax(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The logarithm of `softmax`, exact where probabilities underflow."""

def logaddexp(x: object, y: object, *, label: str | None = None) -> Tensor:
    """`log(exp(x) + exp(y))`, computed without overflow."""

def logical_xor(x: object, y: object, *, label: str | None = None) -> Tensor:
    """1 where exactly one of the two is nonzero, else 0."""

def logistic(
    loc: float = 0.0, scale: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Random numbers of the logistic distribution, of the distribution function `sigmoid((x - loc) / scale)`: new
    numbers at each call, or those of `counter`.
    """

def logit(x: object, *, eps: float | None = None, label: str | None = None) -> Tensor:
    """`log(x / (1 - x))`, the inverse of the sigmoid; `eps` limits the argument to [eps, 1 - eps]."""

def logsumexp(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """`log(sum(exp(x)))` over the output row, or over the axes that `spec` removes."""

def lp_pool1d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *, p: float = 2,
    dilation: int | Sequence[int] = 1, padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none"
) -> Tensor:
    """The p-norm of each window of `x`, `sum(abs(x)**p)**(1/p)`; `stride` is the window size by default."""

def lp_pool2d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *, p: float = 2,
    dilation: int | Sequence[int] = 1, padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none"
) -> Tensor:
    """The p-norm of each window of `x`, `sum(abs(x)**p)**(1/p)`; `stride` is the window size by default."""

def lp_pool3d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *, p: float = 2,
    dilation: int | Sequence[int] = 1, padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none"
) -> Tensor:
    """The p-norm of each window of `x`, `sum(abs(x)**p)**(1/p)`; `stride` is the window size by default."""

def lt(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """1 where the first is less than the second, else 0."""

def margin_ranking_loss(
    x: object, y: object, target: object, *, margin: float = 0.0, label: str | None = None
) -> Tensor:
    """`max(margin - target * (x - y), 0)`: `x` should be larger than `y` where the target is 1, and smaller where
    the target is -1.
    """

def matmul(left: object, right: object, *, label: str | None = None) -> Tensor:
    """`left @ right`: the input row of `left` contracts with the output row of `right`."""

def matrix_norm(x: object, *, ord: str | float = "fro") -> Tensor:
    """The norm of a matrix: the Frobenius norm `"fro"`, the largest sum of magnitudes in a column, 1, or in a row,
    `math.inf`; -1 and `-math.inf` are the smallest of these sums.
    """

def max_pool1d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *,
    dilation: int | Sequence[int] = 1, padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none",
    ceil_mode: bool = False
) -> Tensor:
    """The maximum of each window of `x`; `stride` is the window size by default."""

def max_pool2d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *,
    dilation: int | Sequence[int] = 1, padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none",
    ceil_mode: bool = False
) -> Tensor:
    """The maximum of each window of `x`; `stride` is the window size by default."""

def max_pool3d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *,
    dilation: int | Sequence[int] = 1, padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none",
    ceil_mode: bool = False
) -> Tensor:
    """The maximum of each window of `x`; `stride` is the window size by default."""

def maximum(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The larger of two; NaN if one is."""

def median(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The median along one axis, the mean of the two middle cells of an axis of even size: the axis that the spec
    removes, or the only output axis.
    """

def meshgrid(*xs: object, indexing: str = "xy") -> list[Tensor]:
    """The coordinates of a grid: each vector as a tensor with one axis per vector, along which it varies."""

def minimum(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The smaller of two; NaN if one is."""

def mish(x: object, *, label: str | None = None) -> Tensor:
    """`x * tanh(softplus(x))`, computed from a single exponential."""

def mod(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The remainder, with the sign of the second."""

def moments(x: object, spec: str | None = None, *, sample: bool = False, **names: Any) -> tuple[Tensor, Tensor]:
    """The mean and the variance over the axes that a one-operand spec removes, or over all axes: `mean` and `var`."""

def mul(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The product."""

def multi_margin_loss(
    scores: object, target: object, *, p: int = 1, margin: float = 1.0, weight: object = None
) -> Tensor:
    """`sum(max(margin - scores[target] + scores[i], 0)**p) / v`, over the classes `i` other than the class `target`,
    for each cell of the batch row. `p` is 1 or 2; `weight` has one factor for each class, by which the losses of
    the examples of the class are multiplied.
    """

def multinomial(n: int, p: object, *, key: str | None = None, counter: object = None) -> Tensor:
    """How often each class occurs among `n` draws with the probabilities `p`, as int32: new numbers at each call, or
    those of `counter`. Only the ratios of the probabilities matter.
    """

def nan_to_num(
    x: object, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None, label: str | None = None
) -> Tensor:
    """The value with NaN replaced by `nan`, and the infinities by `posinf` and `neginf`: by default, the largest and
    the smallest finite number of the type. Integers have neither, and are not replaced.
    """

def nanmax(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The largest cell that is not NaN, over the axes that a one-operand spec removes, or over all axes."""

def nanmean(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The mean of the cells that are not NaN, over the axes that a one-operand spec removes, or over all axes."""

def nanmin(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The smallest cell that is not NaN, over the axes that a one-operand spec removes, or over all axes."""

def nanprod(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The product of the cells that are not NaN, over the axes that a one-operand spec removes, or over all axes."""

def nanstd(x: object, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
    """The standard deviation of the cells that are not NaN: the square root of `nanvar`."""

def nansum(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The sum of the cells that are not NaN, over the axes that a one-operand spec removes, or over all axes."""

def nanvar(x: object, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
    """The variance of the cells that are not NaN, over the axes that a one-operand spec removes, or over all axes."""

def ne(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """1 where both differ, else 0."""

def neg(x: object, /, *, label: str | None = None) -> Tensor:
    """The value with the other sign."""

def nonzero(x: object, size: int, fill: int = -1) -> Tensor:
    """The int32 index tuples of the first `size` nonzero cells of the output row, in row-major order."""

def norm(x: object, spec: str | None = None, *, ord: float = 2, **names: Any) -> Tensor:
    """The vector norm over the axes that a one-operand spec removes, or over all axes."""

def normal(
    mean: float = 0.0, std: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Normally distributed random numbers: new numbers at each call, or those of `counter`."""

def normalize(x: object, spec: str | None = None, *, ord: float = 2, eps: float = 1e-12, **names: Any) -> Tensor:
    """`x / max(norm(x), eps)`, with the norm over the output row, or over the axes that the spec removes."""

def not_(x: object, /, *, label: str | None = None) -> Tensor:
    """1 where the value is 0, else 0."""

def one_hot(ids: object, n: int, *, dtype: object = None, label: str | None = None) -> Tensor:
    """1 at the integer `ids`, else 0, along a new last output axis of size `n`."""

def or_(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """1 where one is nonzero, else 0."""

def outer(x: object, y: object) -> Tensor:
    """The outer product of two vectors."""

def pad(
    x: object, widths: int | Sequence[int] | Sequence[Sequence[int]], spec: str | None = None, *,
    mode: str = "constant", value: float = 0.0
) -> Tensor:
    """Adds cells before and after the axes that the spec removes, or the only output axis."""

def pairwise_distance(x: object, y: object, *, p: float = 2, eps: float = 1e-06) -> Tensor:
    """The norm of the order `p` of `x - y + eps`, over the output row."""

def permutation(n: int, *, key: str | None = None, counter: object = None) -> Tensor:
    """The integers from 0 to n - 1 in random order, as int32: a new order at each call, or that of `counter`.
    `x.take(oc.permutation(n))` shuffles the rows of `x`.
    """

def pick(x: object, ids: object, *, label: str | None = None) -> Tensor:
    """The cell at the integer `ids` along the only output axis of `x`, for each cell of the batch row."""

def pixel_shuffle(x: object, block: int | Sequence[int]) -> Tensor:
    """`depth_to_space` with `mode="CRD"`, the order of channels in PyTorch."""

def pixel_unshuffle(x: object, block: int | Sequence[int]) -> Tensor:
    """`space_to_depth` with `mode="CRD"`, the order of channels in PyTorch."""

def poisson(
    rate: object, *, bound: int | None = None, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Random integers of the Poisson distribution of the mean `rate`, of type int32: new numbers at each call, or
    those of `counter`.
    """

def poisson_nll_loss(
    x: object, target: object, *, log_input: bool = True, full: bool = False, eps: float = 1e-08,
    label: str | None = None
) -> Tensor:
    """`exp(x) - target * x`, or without `log_input` `x - target * log(x + eps)`: the negative log-likelihood of a
    count under a Poisson distribution of the rate `exp(x)` or `x`, up to a constant.
    """

def pow(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The first to the power of the second."""

def prelu(x: object, slope: object, *, label: str | None = None) -> Tensor:
    """The value where it is positive, else `slope` times the value; `slope` is usually a parameter of the last axis."""

def prod(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The product over the axes that a one-operand spec removes, or over all axes; an empty product is 1."""

def ptp(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The range of values, `max(x) - min(x)`, over the axes that a one-operand spec removes, or over all axes."""

def put_along_axis(
    x: object, ids: object, values: object, spec: str | None = None, *,
    mode: Literal['set', 'add', 'mul', 'min', 'max'] = "set", **names: Any
) -> Tensor:
    """`x` with the cells at the integers `ids` along one axis updated by `values`: the axis that the spec removes,
    or the only output axis.
    """

def quantile(
    x: object, q: float | Sequence[float], spec: str | None = None, *,
    method: Literal['linear', 'lower', 'higher', 'nearest', 'midpoint'] = "linear", **names: Any
) -> Tensor:
    """The quantile `q`, from 0 to 1, along one axis: the axis that the spec removes, or the only output axis."""

def rademacher(*, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """1 or -1, with equal probabilities: new values at each call, or those of `counter`."""

def radians(x: object, *, label: str | None = None) -> Tensor:
    """An angle in radians, from degrees."""

def randint(low: int, high: int, *, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """Random integers `low <= n < high`, of type int32 or `dtype`: new numbers at each call, or those of `counter`."""

def random_crop(x: object, size: int | Sequence[int], *, key: str | None = None, counter: object = None) -> Tensor:
    """A window of `size` cells at random positions of the spatial axes, drawn for each element of the batch row."""

def recip(x: object, /, *, label: str | None = None) -> Tensor:
    """1 divided by the value."""

def recip_sqrt(x: object, /, *, label: str | None = None) -> Tensor:
    """1 divided by the square root."""

def relu(x: object, /, *, label: str | None = None) -> Tensor:
    """The larger of the value and 0; NaN stays."""

def relu6(x: object, *, label: str | None = None) -> Tensor:
    """The value limited to [0, 6]; NaN is preserved."""

def relu_gate(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The second where the first is positive, else 0."""

def repeat(x: object, times: int | Sequence[int], spec: str | None = None) -> Tensor:
    """Repeats each cell of the axis that the spec removes, or of the only output axis: `a, b` becomes `a, a, b, b`."""

def resize(
    x: object, size: int | Sequence[int] | None = None, *, scale: float | Sequence[float] | None = None,
    mode: str = "linear", coordinates: str = "half_pixel", rounding: str = "round_prefer_floor",
    antialias: bool = False, cubic_coeff_a: float | None = None
) -> Tensor:
    """Resizes the spatial axes, which are the first output axes, to `size` cells, or to `scale` times their size."""

def right_shift(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The first, shifted right by the second; copies of the sign bit fill it up."""

def roll(x: object, shift: int | Sequence[int], spec: str | None = None, **names: Any) -> Tensor:
    """Rotates axes by `shift` cells towards their end: the axes that the spec removes, or the only output axis."""

def rot90(x: object, k: int = 1, spec: str | None = None) -> Tensor:
    """Rotates by `k` quarter turns in the plane of the two axes that the spec removes, or of the only two output
    axes, from the first axis to the second.
    """

def sat01(x: object, /, *, label: str | None = None) -> Tensor:
    """The value clipped to [0, 1]; NaN stays."""

def sat01_gate(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The second where the first lies between 0 and 1, else 0."""

def scaled_dot_product_attention(
    q: object, k: object, v: object, mask: object = None, *, bias: object = None, causal: bool = False,
    scale: float | None = None, rate: float = 0.0
) -> Tensor:
    """`softmax(scale * q @ k.T + bias) @ v` for each head, over the positions `s` of keys that a query `t` may see."""

def scatter_nd(
    x: object, ids: object, values: object, *, mode: Literal['set', 'add', 'mul', 'min', 'max'] = "set"
) -> Tensor:
    """`x` with the rows at the index tuples along the last output axis of `ids` updated by `values`."""

def searchsorted(sequence: object, x: object, side: Literal['left', 'right'] = "left") -> Tensor:
    """The int32 number of elements of the sorted vector `sequence` that are less than each cell of `x`; with
    `side="right"`, not greater.
    """

def segment_max(x: object, ids: object, n: int) -> Tensor:
    """The maximum of the rows of each of `n` segments; row `s` belongs to the segment `ids[s]`."""

def segment_mean(x: object, ids: object, n: int) -> Tensor:
    """The mean of the rows of each of `n` segments; row `s` belongs to the segment `ids[s]`."""

def segment_min(x: object, ids: object, n: int) -> Tensor:
    """The minimum of the rows of each of `n` segments; row `s` belongs to the segment `ids[s]`."""

def segment_prod(x: object, ids: object, n: int) -> Tensor:
    """The product of the rows of each of `n` segments; row `s` belongs to the segment `ids[s]`."""

def segment_sum(x: object, ids: object, n: int) -> Tensor:
    """The sum of the rows of each of `n` segments; row `s` belongs to the segment `ids[s]`."""

def selu(x: object, *, label: str | None = None) -> Tensor:
    """`scale * x` where the value is positive, else `scale * alpha * (exp(x) - 1)`, with fixed constants."""

def sigmoid(x: object, *, label: str | None = None) -> Tensor:
    """`1 / (1 + exp(-x))`, exact at both infinities, without premature underflow for very negative `x`."""

def sigmoid_focal_loss(logits: object, target: object, *, alpha: float | None = 0.25, gamma: float = 2.0) -> Tensor:
    """`binary_cross_entropy(logits, target) * (1 - q)**gamma`, where `q` is the probability of the target:
    `sigmoid(logits)` for 1 and `sigmoid(-logits)` for 0.
    """

def sign(x: object, *, label: str | None = None) -> Tensor:
    """1, 0 or -1 for a positive, zero or negative value; NaN is preserved."""

def signbit(x: object, *, label: str | None = None) -> Tensor:
    """1 where the value is negative, also for negative zero, else 0; 0 for NaN."""

def silu(x: object, *, label: str | None = None) -> Tensor:
    """`x * sigmoid(x)`."""

def sin(x: object, /, *, label: str | None = None) -> Tensor:
    """The sine, of radians."""

def sinc(x: object, *, label: str | None = None) -> Tensor:
    """`sin(pi x) / (pi x)`, and 1 at zero. Zero at all other integers."""

def sinh(x: object, *, label: str | None = None) -> Tensor:
    """The hyperbolic sine."""

def smooth_l1_loss(x: object, target: object, *, beta: float = 1.0, label: str | None = None) -> Tensor:
    """`(x - target)**2 / (2 * beta)` where the difference is less than `beta`, else `abs(x - target) - beta / 2`:
    the Huber loss divided by its `delta`.
    """

def snd(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The second."""

def soft_margin_loss(x: object, target: object, *, label: str | None = None) -> Tensor:
    """`log(1 + exp(-target * x))` for targets 1 and -1, without overflow."""

def softmax(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """`exp(x) / sum(exp(x))` over the output row, or over the axes that `spec` removes."""

def softmax_focal_loss(
    logits: object, target: object, *, gamma: float = 2.0, weight: object = None, ignore: int | None = None
) -> Tensor:
    """`-(1 - p)**gamma * log(p)` for the probability `p = softmax(logits)` of the class `target`, for each cell of
    the batch row. `weight` has one factor for each class; ids count as in `cross_entropy`.
    """

def softplus(x: object, *, label: str | None = None) -> Tensor:
    """`log(1 + exp(x))`, computed without overflow."""

def softshrink(x: object, *, width: float = 0.5, label: str | None = None) -> Tensor:
    """0 in [-width, width], elsewhere the value moved by `width` towards 0; NaN is preserved."""

def softsign(x: object, *, label: str | None = None) -> Tensor:
    """`x / (1 + abs(x))`."""

def sort(x: object, spec: str | None = None, *, descending: bool = False, **names: Any) -> Tensor:
    """The cells in ascending or descending order along one axis: the axis that the spec removes, or the only output
    axis.
    """

def space_to_batch(
    x: object, block: int | Sequence[int], *, padding: int | Sequence[int] | Sequence[Sequence[int]] = 0
) -> Tensor:
    """Moves the positions inside blocks of the spatial axes to the batch axis, after padding with zeros."""

def space_to_depth(x: object, block: int | Sequence[int], *, mode: str = "DCR") -> Tensor:
    """Moves blocks of the spatial axes to the channels: the inverse of `depth_to_space`."""

def split(x: object, sizes: int | Sequence[int], spec: str | None = None) -> list[Tensor]:
    """The parts of the axis that the spec removes, or of the only output axis, as a list."""

def sqrt(x: object, /, *, label: str | None = None) -> Tensor:
    """The square root."""

def square(x: object, *, label: str | None = None) -> Tensor:
    """The value times itself."""

def squared_error(x: object, target: object, *, label: str | None = None) -> Tensor:
    """`(x - target)**2`."""

def stack(tensors: Any, axis: Literal['batch', 'input', 'output'] = "output") -> Tensor:
    """Stacks tensors of the same shape along a new leading axis."""

def std(x: object, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
    """The standard deviation: the square root of `var`."""

def stop_gradient(x: object, *, label: str | None = None) -> Tensor:
    """The values of `x`, treated as constants by differentiation."""

def sub(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The difference."""

def take(t: object, ids: object, *, label: str | None = None) -> Tensor:
    """Gathers rows along the leading output axis of `t` at the integers `ids`."""

def take_along_axis(x: object, ids: object, spec: str | None = None, **names: Any) -> Tensor:
    """The cells at the integers `ids` along one axis: the axis that the spec removes, or the only output axis."""

def tan(x: object, *, label: str | None = None) -> Tensor:
    """The tangent, of radians."""

def tanh(x: object, /, *, label: str | None = None) -> Tensor:
    """The hyperbolic tangent."""

def tanhshrink(x: object, *, label: str | None = None) -> Tensor:
    """`x - tanh(x)`, without cancellation where `x` is small: there it is a truncated continued fraction."""

def threefry4x32(key: object, counter: object, rounds: int = 20, *, label: str | None = None) -> Tensor:
    """Random bits: a bijection of the 128-bit counter that depends on the key."""

def threefry4x32_12(
    x1: object, x2: object, x3: object, x4: object, x5: object, x6: object, x7: object, x8: object, x9: object, /, *,
    label: str | None = None
) -> Tensor:
    """One word of Threefry-4x32, 12 rounds: four words of the key, four of the counter, and which word of the
    result.
    """

def threefry4x32_20(
    x1: object, x2: object, x3: object, x4: object, x5: object, x6: object, x7: object, x8: object, x9: object, /, *,
    label: str | None = None
) -> Tensor:
    """One word of Threefry-4x32, 20 rounds: four words of the key, four of the counter, and which word of the
    result.
    """

def threshold(x: object, *, threshold: float, value: float, label: str | None = None) -> Tensor:
    """The argument where it is greater than `threshold`, else `value`; NaN is preserved."""

def tile(x: object, times: int | Sequence[int], spec: str | None = None) -> Tensor:
    """Repeats the axes that the spec removes, or the only output axis, as blocks: `a, b` becomes `a, b, a, b`."""

def topk(x: object, k: int, spec: str | None = None, *, largest: bool = True, **names: Any) -> tuple[Tensor, Tensor]:
    """The `k` largest cells along one axis in descending order, or with `largest=False` the smallest in ascending
    order, and their int32 indices. The axis is the one that the spec removes, or the only output axis.
    """

def trace(x: object) -> Tensor:
    """The trace of a square matrix: the sum of its diagonal."""

def tril(x: object, k: int = 0) -> Tensor:
    """The lower triangle of a matrix: zeros above the diagonal, or above the diagonal `k` columns to its right."""

def triplet_margin_loss(
    anchor: object, positive: object, negative: object, *, margin: float = 1.0, p: float = 2.0, eps: float = 1e-06,
    swap: bool = False
) -> Tensor:
    """`max(d(anchor, positive) - d(anchor, negative) + margin, 0)`, for each cell of the batch row, where `d(x, y)`
    is the norm of the order `p` of `x - y + eps` over the output row. With `swap`, the distance to the negative
    example is the smaller of `d(anchor, negative)` and `d(positive, negative)`.
    """

def triu(x: object, k: int = 0) -> Tensor:
    """The upper triangle of a matrix: zeros below the diagonal, or below the diagonal `k` columns to its right."""

def trunc(x: object, /, *, label: str | None = None) -> Tensor:
    """The integral part, towards 0."""

def truncated_normal(
    mean: float = 0.0, std: float = 1.0, low: float = -2.0, high: float = 2.0, *, key: str | None = None,
    counter: object = None, **sizes: Any
) -> Tensor:
    """Random numbers of a normal distribution, under the condition that they are between `low` and `high`: new
    numbers at each call, or those of `counter`. Either bound may be infinite.
    """

def unfold(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] = 1, *, dilation: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] | Sequence[Sequence[int]] = "none"
) -> Tensor:
    """The windows of the spatial axes: a new axis for each of their axes, after the axes of their positions."""

def uniform(
    low: float = 0.0, high: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Uniform random numbers in [low, high): new numbers at each call, or those of `counter`."""

def unique(x: object, size: int, fill: float | None = None) -> Tensor:
    """The first `size` distinct values of the output row, in ascending order."""

def var(x: object, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
    """The variance over the axes that a one-operand spec removes, or over all axes; of integers, as float32."""

def where(condition: object, x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The second where the first is nonzero, else the third."""
