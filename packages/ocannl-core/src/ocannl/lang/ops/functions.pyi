"""The operations, as functions. Generated from the table of operations; do not edit."""

from collections.abc import Sequence
from typing import Any, Literal

from ocannl.lang.core.tensor import Tensor

__all__ = [
    "abs", "absolute_error", "add", "and_", "argmax", "argmin", "atan", "atan2", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "bernoulli", "binary_cross_entropy", "bitwise_and", "bitwise_or", "bitwise_xor", "block", "cast",
    "cdist", "ceil", "clip", "concat", "contrastive_loss", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "cos", "cosine_embedding_loss", "cosine_similarity", "count_nonzero",
    "cross_entropy", "cummax", "cummin", "cumprod", "cumsum", "diag", "diagonal", "dice_loss", "div", "dot", "dropout",
    "einsum", "elu", "eq", "erf", "erfc", "exp", "exp2", "expm1", "flip", "floor", "fma", "fst", "gaussian_nll_loss",
    "ge", "gelu", "gt", "hinge_embedding_loss", "hinge_loss", "huber", "id", "iota", "iou_loss", "isfinite", "isinf",
    "isnan", "kl_div", "le", "leaky_relu", "left_shift", "lgamma", "log", "log1p", "log2", "log_cosh", "log_softmax",
    "logaddexp", "logsumexp", "lt", "margin_ranking_loss", "matmul", "matrix_norm", "max_pool1d", "max_pool2d",
    "max_pool3d", "maximum", "minimum", "mod", "mul", "multi_margin_loss", "ne", "neg", "norm", "normal", "normalize",
    "not_", "one_hot", "or_", "outer", "pairwise_distance", "pick", "poisson_nll_loss", "pow", "prod", "randint",
    "recip", "recip_sqrt", "relu", "relu_gate", "right_shift", "roll", "sat01", "sat01_gate", "sigmoid",
    "sigmoid_focal_loss", "sign", "silu", "sin", "smooth_l1_loss", "snd", "soft_margin_loss", "softmax",
    "softmax_focal_loss", "softplus", "sqrt", "squared_error", "stack", "std", "stop_gradient", "sub", "take", "tanh",
    "threefry4x32", "threefry4x32_12", "threefry4x32_20", "trace", "tril", "triplet_margin_loss", "triu", "trunc",
    "uniform", "var", "where",
]  # fmt: skip

def abs(x: object, /, *, label: str | None = None) -> Tensor:
    """The absolute value."""

def absolute_error(x: object, target: object, *, label: str | None = None) -> Tensor:
    """`abs(x - target)`."""

def add(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The sum."""

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

def atan(x: object, /, *, label: str | None = None) -> Tensor:
    """The inverse tangent, in radians."""

def atan2(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The angle of the point with the second as abscissa and the first as ordinate, in radians."""

def avg_pool1d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *,
    dilation: int | Sequence[int] = 1, padding: str = "none"
) -> Tensor:
    """The mean of each window of `x`; `stride` is the window size by default."""

def avg_pool2d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *,
    dilation: int | Sequence[int] = 1, padding: str = "none"
) -> Tensor:
    """The mean of each window of `x`; `stride` is the window size by default."""

def avg_pool3d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *,
    dilation: int | Sequence[int] = 1, padding: str = "none"
) -> Tensor:
    """The mean of each window of `x`; `stride` is the window size by default."""

def bernoulli(p: object, *, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """1 with probability `p`, a number or a tensor, else 0: new values at each call, or those of `counter`."""

def binary_cross_entropy(
    logits: object, target: object, *, weight: object = None, positive_weight: object = None, label: str | None = None
) -> Tensor:
    """`-target * log(p) - (1 - target) * log(1 - p)` with `p = sigmoid(logits)`, without overflow."""

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

def cdist(x: object, y: object, *, p: float = 2) -> Tensor:
    """The distance of the order `p` between each row of `x` and each row of `y`: the norm of their difference."""

def ceil(x: object, *, label: str | None = None) -> Tensor:
    """The smallest integer that is not less than the value."""

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
    padding: str = "none", groups: int = 1
) -> Tensor:
    """The sum over each window of `x` times a kernel; `groups` splits channels into separate convolutions."""

def conv2d(
    x: object, kernel: object, *, stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1,
    padding: str = "none", groups: int = 1
) -> Tensor:
    """The sum over each window of `x` times a kernel; `groups` splits channels into separate convolutions."""

def conv3d(
    x: object, kernel: object, *, stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1,
    padding: str = "none", groups: int = 1
) -> Tensor:
    """The sum over each window of `x` times a kernel; `groups` splits channels into separate convolutions."""

def conv_transpose1d(
    x: object, kernel: object, *, stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1,
    padding: str = "none", groups: int = 1
) -> Tensor:
    """The transposed convolution: the kernel times each cell of `x`, summed where these windows overlap."""

def conv_transpose2d(
    x: object, kernel: object, *, stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1,
    padding: str = "none", groups: int = 1
) -> Tensor:
    """The transposed convolution: the kernel times each cell of `x`, summed where these windows overlap."""

def conv_transpose3d(
    x: object, kernel: object, *, stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1,
    padding: str = "none", groups: int = 1
) -> Tensor:
    """The transposed convolution: the kernel times each cell of `x`, summed where these windows overlap."""

def cos(x: object, /, *, label: str | None = None) -> Tensor:
    """The cosine, of radians."""

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

def cross_entropy(
    logits: object, target: object, *, ignore: int | None = None, weight: object = None, label_smoothing: float = 0.0
) -> Tensor:
    """`-log(softmax(logits))` of the class `target`, for each cell of the batch row."""

def cummax(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The cumulative maximum along one axis: the axis that the spec removes, or the only output axis."""

def cummin(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The cumulative minimum along one axis: the axis that the spec removes, or the only output axis."""

def cumprod(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The cumulative product along one axis: the axis that the spec removes, or the only output axis."""

def cumsum(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The cumulative sum along one axis: the axis that the spec removes, or the only output axis."""

def diag(x: object) -> Tensor:
    """The diagonal matrix of a vector."""

def diagonal(x: object) -> Tensor:
    """The diagonal of a square matrix."""

def dice_loss(x: object, target: object, *, smooth: float = 1.0) -> Tensor:
    """`1 - (2 * sum(x * target) + smooth) / (sum(x) + sum(target) + smooth)`, over the output row: 1 minus the Dice
    coefficient of probabilities `x` and a mask.
    """

def div(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The quotient; of integers, as float32."""

def dot(x: object, y: object) -> Tensor:
    """The inner product over the output row."""

def dropout(x: object, rate: float = 0.5, *, key: str | None = None, counter: object = None) -> Tensor:
    """Sets each cell of `x` to zero with probability `rate`, and divides the remaining cells by `1 - rate`."""

def einsum(
    spec: str, *xs: object, reduce: str = "add", combine: str = "mul", label: str | None = None, **names: Any
) -> Tensor:
    """Generalized einsum of one to three operands."""

def elu(x: object, *, alpha: float = 1.0, label: str | None = None) -> Tensor:
    """The value where it is positive, else `alpha * (exp(x) - 1)`."""

def eq(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """1 where both are equal, else 0."""

def erf(x: object, /, *, label: str | None = None) -> Tensor:
    """The error function."""

def erfc(x: object, /, *, label: str | None = None) -> Tensor:
    """1 minus the error function, accurate where that is close to 1."""

def exp(x: object, /, *, label: str | None = None) -> Tensor:
    """Euler's number to the power of the value."""

def exp2(x: object, /, *, label: str | None = None) -> Tensor:
    """2 to the power of the value."""

def expm1(x: object, *, label: str | None = None) -> Tensor:
    """`exp(x) - 1`, accurate where `x` is small."""

def flip(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """Reverses one axis: the axis that the spec removes, or the only output axis."""

def floor(x: object, *, label: str | None = None) -> Tensor:
    """The largest integer that is not greater than the value."""

def fma(x: object, y: object, z: object, /, *, label: str | None = None) -> Tensor:
    """The first times the second, plus the third."""

def fst(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The first."""

def gaussian_nll_loss(
    x: object, target: object, variance: object, *, full: bool = False, eps: float = 1e-06, label: str | None = None
) -> Tensor:
    """`(log(variance) + (x - target)**2 / variance) / 2`, the negative log-likelihood under a normal distribution,
    up to the constant `log(2 * pi) / 2`, which `full` adds. Variances are at least `eps`.
    """

def ge(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """1 where the first is at least the second, else 0."""

def gelu(x: object) -> Tensor:
    """`0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3)))`."""

def gt(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """1 where the first is greater than the second, else 0."""

def hinge_embedding_loss(x: object, target: object, *, margin: float = 1.0, label: str | None = None) -> Tensor:
    """The distance `x` where the target is 1, and `max(margin - x, 0)` where the target is -1."""

def hinge_loss(
    x: object, target: object, *, margin: float = 1.0, squared: bool = False, label: str | None = None
) -> Tensor:
    """`max(margin - target * x, 0)` for targets 1 and -1, or with `squared` its square."""

def huber(x: object, target: object, *, delta: float = 1.0, label: str | None = None) -> Tensor:
    """`(x - target)**2 / 2` where the difference is at most `delta`, else `delta * (abs(x - target) - delta / 2)`."""

def id(x: object, /, *, label: str | None = None) -> Tensor:
    """The value itself."""

def iota(n: int, *, dtype: object = None, label: str | None = None) -> Tensor:
    """0, 1, 2, ..., n-1 along one output axis, as int32: an expression without operands and without storage."""

def iou_loss(x: object, target: object, *, smooth: float = 1.0) -> Tensor:
    """`1 - (c + smooth) / (sum(x) + sum(target) - c + smooth)` with `c = sum(x * target)`, over the output row: 1
    minus the intersection over the union of probabilities `x` and a mask, their Jaccard index.
    """

def isfinite(x: object, *, label: str | None = None) -> Tensor:
    """1 where the value is finite, else 0."""

def isinf(x: object, *, label: str | None = None) -> Tensor:
    """1 where the value is an infinity, else 0."""

def isnan(x: object, *, label: str | None = None) -> Tensor:
    """1 where the value is not a number, else 0."""

def kl_div(x: object, target: object, *, log_target: bool = False) -> Tensor:
    """The Kullback-Leibler divergence `sum(target * (log(target) - x))` of a distribution `target` from log-
    probabilities `x`, over the output row; with `log_target`, `target` are log-probabilities, too. Terms whose
    target is 0 are 0.
    """

def le(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """1 where the first is at most the second, else 0."""

def leaky_relu(x: object, *, slope: float = 0.01, label: str | None = None) -> Tensor:
    """The value where it is positive, else `slope` times the value."""

def left_shift(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The first, shifted left by the second."""

def lgamma(x: object, /, *, label: str | None = None) -> Tensor:
    """The logarithm of the absolute value of the gamma function."""

def log(x: object, /, *, label: str | None = None) -> Tensor:
    """The natural logarithm."""

def log1p(x: object, *, label: str | None = None) -> Tensor:
    """`log(1 + x)`, accurate where `x` is small."""

def log2(x: object, /, *, label: str | None = None) -> Tensor:
    """The logarithm to base 2."""

def log_cosh(x: object, target: object, *, label: str | None = None) -> Tensor:
    """`log(cosh(x - target))`, without overflow and accurate for small differences."""

def log_softmax(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The logarithm of `softmax`, exact where probabilities underflow."""

def logaddexp(x: object, y: object, *, label: str | None = None) -> Tensor:
    """`log(exp(x) + exp(y))`, computed without overflow."""

def logsumexp(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """`log(sum(exp(x)))` over the output row, or over the axes that `spec` removes."""

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
    dilation: int | Sequence[int] = 1, padding: str = "none"
) -> Tensor:
    """The maximum of each window of `x`; `stride` is the window size by default."""

def max_pool2d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *,
    dilation: int | Sequence[int] = 1, padding: str = "none"
) -> Tensor:
    """The maximum of each window of `x`; `stride` is the window size by default."""

def max_pool3d(
    x: object, window: int | Sequence[int], stride: int | Sequence[int] | None = None, *,
    dilation: int | Sequence[int] = 1, padding: str = "none"
) -> Tensor:
    """The maximum of each window of `x`; `stride` is the window size by default."""

def maximum(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The larger of two; NaN if one is."""

def minimum(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The smaller of two; NaN if one is."""

def mod(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The remainder, with the sign of the second."""

def mul(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The product."""

def multi_margin_loss(
    scores: object, target: object, *, p: int = 1, margin: float = 1.0, weight: object = None
) -> Tensor:
    """`sum(max(margin - scores[target] + scores[i], 0)**p) / v`, over the classes `i` other than the class `target`,
    for each cell of the batch row. `p` is 1 or 2; `weight` has one factor for each class, by which the losses of
    the examples of the class are multiplied.
    """

def ne(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """1 where both differ, else 0."""

def neg(x: object, /, *, label: str | None = None) -> Tensor:
    """The value with the other sign."""

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

def pairwise_distance(x: object, y: object, *, p: float = 2, eps: float = 1e-06) -> Tensor:
    """The norm of the order `p` of `x - y + eps`, over the output row."""

def pick(x: object, ids: object, *, label: str | None = None) -> Tensor:
    """The cell at the integer `ids` along the only output axis of `x`, for each cell of the batch row."""

def poisson_nll_loss(
    x: object, target: object, *, log_input: bool = True, full: bool = False, eps: float = 1e-08,
    label: str | None = None
) -> Tensor:
    """`exp(x) - target * x`, or without `log_input` `x - target * log(x + eps)`: the negative log-likelihood of a
    count under a Poisson distribution of the rate `exp(x)` or `x`, up to a constant.
    """

def pow(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The first to the power of the second."""

def prod(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The product over the axes that a one-operand spec removes, or over all axes; an empty product is 1."""

def randint(low: int, high: int, *, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """Random integers `low <= n < high`, of type int32 or `dtype`: new numbers at each call, or those of `counter`."""

def recip(x: object, /, *, label: str | None = None) -> Tensor:
    """1 divided by the value."""

def recip_sqrt(x: object, /, *, label: str | None = None) -> Tensor:
    """1 divided by the square root."""

def relu(x: object, /, *, label: str | None = None) -> Tensor:
    """The larger of the value and 0; NaN stays."""

def relu_gate(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The second where the first is positive, else 0."""

def right_shift(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The first, shifted right by the second; copies of the sign bit fill it up."""

def roll(x: object, shift: int, spec: str | None = None, **names: Any) -> Tensor:
    """Rotates one axis by `shift` cells towards its end: the axis that the spec removes, or the only output axis."""

def sat01(x: object, /, *, label: str | None = None) -> Tensor:
    """The value clipped to [0, 1]; NaN stays."""

def sat01_gate(x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The second where the first lies between 0 and 1, else 0."""

def sigmoid(x: object, *, label: str | None = None) -> Tensor:
    """`1 / (1 + exp(-x))`, exact at both infinities, without premature underflow for very negative `x`."""

def sigmoid_focal_loss(logits: object, target: object, *, alpha: float | None = 0.25, gamma: float = 2.0) -> Tensor:
    """`binary_cross_entropy(logits, target) * (1 - q)**gamma`, where `q` is the probability of the target:
    `sigmoid(logits)` for 1 and `sigmoid(-logits)` for 0.
    """

def sign(x: object, *, label: str | None = None) -> Tensor:
    """1, 0 or -1 for a positive, zero or negative value; NaN is preserved."""

def silu(x: object, *, label: str | None = None) -> Tensor:
    """`x * sigmoid(x)`."""

def sin(x: object, /, *, label: str | None = None) -> Tensor:
    """The sine, of radians."""

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

def sqrt(x: object, /, *, label: str | None = None) -> Tensor:
    """The square root."""

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

def tanh(x: object, /, *, label: str | None = None) -> Tensor:
    """The hyperbolic tangent."""

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

def uniform(
    low: float = 0.0, high: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Uniform random numbers in [low, high): new numbers at each call, or those of `counter`."""

def var(x: object, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
    """The variance over the axes that a one-operand spec removes, or over all axes; of integers, as float32."""

def where(condition: object, x: object, y: object, /, *, label: str | None = None) -> Tensor:
    """The second where the first is nonzero, else the third."""
