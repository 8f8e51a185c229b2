"""The operations, as methods. Generated from the table of operations; do not edit."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from ocannl.lang.core.tensor import Tensor

class Methods:
    """The operations, as methods."""

    __slots__ = ()

    def abs(self, *, label: str | None = None) -> Tensor:
        """The absolute value."""

    def all(self, spec: str | None = None, **names: Any) -> Tensor:
        """1 where all cells are nonzero, else 0, over the axes that a one-operand spec removes, or over all axes.
        NaN is nonzero.
        """

    def any(self, spec: str | None = None, **names: Any) -> Tensor:
        """1 where any cell is nonzero, else 0, over the axes that a one-operand spec removes, or over all axes. NaN
        is nonzero.
        """

    def argmax(self, spec: str | None = None, **names: Any) -> Tensor:
        """The int32 index of the largest value along one axis: the axis that the spec removes, or the only output
        axis. Of several equal values the first; the first NaN, if there is one.
        """

    def argmin(self, spec: str | None = None, **names: Any) -> Tensor:
        """The int32 index of the smallest value along one axis: the axis that the spec removes, or the only output
        axis. Of several equal values the first; the first NaN, if there is one.
        """

    def astype(self, dtype: object, *, label: str | None = None) -> Tensor:
        """Converts values to another data type."""

    def ceil(self, *, label: str | None = None) -> Tensor:
        """The smallest integer that is not less than the value."""

    def clip(self, low: object = None, high: object = None) -> Tensor:
        """The value limited to the range from `low` to `high`; NaN is preserved."""

    def cos(self, *, label: str | None = None) -> Tensor:
        """The cosine, of radians."""

    def count_nonzero(self, spec: str | None = None, **names: Any) -> Tensor:
        """The int32 number of nonzero cells over the axes that a one-operand spec removes, or over all axes."""

    def cumprod(self, spec: str | None = None, **names: Any) -> Tensor:
        """The cumulative product along one axis: the axis that the spec removes, or the only output axis."""

    def cumsum(self, spec: str | None = None, **names: Any) -> Tensor:
        """The cumulative sum along one axis: the axis that the spec removes, or the only output axis."""

    def exp(self, *, label: str | None = None) -> Tensor:
        """Euler's number to the power of the value."""

    def exp2(self, *, label: str | None = None) -> Tensor:
        """2 to the power of the value."""

    def floor(self, *, label: str | None = None) -> Tensor:
        """The largest integer that is not greater than the value."""

    def gelu(self, *, approximate: Literal['tanh', 'none'] = "tanh") -> Tensor:
        """`x` times the probability that a standard normal variable is less than `x`."""

    def log(self, *, label: str | None = None) -> Tensor:
        """The natural logarithm."""

    def log2(self, *, label: str | None = None) -> Tensor:
        """The logarithm to base 2."""

    def log_softmax(self, spec: str | None = None, **names: Any) -> Tensor:
        """The logarithm of `softmax`, exact where probabilities underflow."""

    def logsumexp(self, spec: str | None = None, **names: Any) -> Tensor:
        """`log(sum(exp(x)))` over the output row, or over the axes that `spec` removes."""

    def max(self, spec: str | None = None, **names: Any) -> Tensor:
        """The maximum over the axes that a one-operand spec removes, or over all axes."""

    def mean(self, spec: str | None = None, **names: Any) -> Tensor:
        """The mean over the axes that a one-operand spec removes, or over all axes; of integers, as float32."""

    def min(self, spec: str | None = None, **names: Any) -> Tensor:
        """The minimum over the axes that a one-operand spec removes, or over all axes."""

    def norm(self, spec: str | None = None, *, ord: float = 2, **names: Any) -> Tensor:
        """The vector norm over the axes that a one-operand spec removes, or over all axes."""

    def prod(self, spec: str | None = None, **names: Any) -> Tensor:
        """The product over the axes that a one-operand spec removes, or over all axes; an empty product is 1."""

    def recip(self, *, label: str | None = None) -> Tensor:
        """1 divided by the value."""

    def recip_sqrt(self, *, label: str | None = None) -> Tensor:
        """1 divided by the square root."""

    def relu(self, *, label: str | None = None) -> Tensor:
        """The larger of the value and 0; NaN stays."""

    def round(self, *, label: str | None = None) -> Tensor:
        """The nearest integer; ties round to even."""

    def sat01(self, *, label: str | None = None) -> Tensor:
        """The value clipped to [0, 1]; NaN stays."""

    def sigmoid(self, *, label: str | None = None) -> Tensor:
        """`1 / (1 + exp(-x))`, exact at both infinities, without premature underflow for very negative `x`."""

    def sign(self, *, label: str | None = None) -> Tensor:
        """1, 0 or -1 for a positive, zero or negative value; NaN is preserved."""

    def silu(self, *, label: str | None = None) -> Tensor:
        """`x * sigmoid(x)`."""

    def sin(self, *, label: str | None = None) -> Tensor:
        """The sine, of radians."""

    def softmax(self, spec: str | None = None, **names: Any) -> Tensor:
        """`exp(x) / sum(exp(x))` over the output row, or over the axes that `spec` removes."""

    def sqrt(self, *, label: str | None = None) -> Tensor:
        """The square root."""

    def std(self, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
        """The standard deviation: the square root of `var`."""

    def stop_gradient(self, *, label: str | None = None) -> Tensor:
        """The values of `x`, treated as constants by differentiation."""

    def sum(self, spec: str | None = None, **names: Any) -> Tensor:
        """The sum over the axes that a one-operand spec removes, or over all axes."""

    def take(self, ids: object, *, label: str | None = None) -> Tensor:
        """Gathers rows along the leading output axis of `t` at the integers `ids`."""

    def tanh(self, *, label: str | None = None) -> Tensor:
        """The hyperbolic tangent."""

    def trunc(self, *, label: str | None = None) -> Tensor:
        """The integral part, towards 0."""

    def var(self, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
        """The variance over the axes that a one-operand spec removes, or over all axes; of integers, as float32."""

METHODS: dict[str, str]

def attach(registry: Mapping[str, Callable[..., Any]]) -> None: ...
