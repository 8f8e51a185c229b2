"""The operations, as methods. Made from the table of operations; not to be edited."""

from collections.abc import Callable, Mapping
from typing import Any

from ocannl.lang.core.tensor import Tensor

class Methods:
    """The operations, as methods."""

    __slots__ = ()

    def abs(self, *, label: str | None = None) -> Tensor:
        """The absolute value."""

    def all(self, spec: str | None = None, **names: Any) -> Tensor:
        """1 where no cell is 0, else 0, by a spec of one operand, or over all axes. NaN is not 0."""

    def any(self, spec: str | None = None, **names: Any) -> Tensor:
        """1 where some cell is not 0, else 0, by a spec of one operand, or over all axes. NaN is not 0."""

    def argmax(self, spec: str | None = None, **names: Any) -> Tensor:
        """Where the largest value is along one axis, as int32: the axis that the spec takes away, or the one output
        axis. The first of equals; the first NaN, if there is one.
        """

    def argmin(self, spec: str | None = None, **names: Any) -> Tensor:
        """Where the smallest value is along one axis, as int32: the axis that the spec takes away, or the one output
        axis. The first of equals; the first NaN, if there is one.
        """

    def astype(self, dtype: object, *, label: str | None = None) -> Tensor:
        """The values in another type: to a float the nearest there is, from a float to an integer the integral part,
        to bool whether they are not 0. Between integers they wrap; a float that has no place in an integer type
        gives any.
        """

    def ceil(self, *, label: str | None = None) -> Tensor:
        """The smallest integer that is not smaller."""

    def clip(self, low: object = None, high: object = None) -> Tensor:
        """The value, but not less than `low` and not more than `high`; NaN stays."""

    def cos(self, *, label: str | None = None) -> Tensor:
        """The cosine, of radians."""

    def count_nonzero(self, spec: str | None = None, **names: Any) -> Tensor:
        """How many cells are not 0, as int32, by a spec of one operand, or over all axes."""

    def cumprod(self, spec: str | None = None, **names: Any) -> Tensor:
        """The product up to each place of one axis: the axis that the spec takes away, or the one output axis."""

    def cumsum(self, spec: str | None = None, **names: Any) -> Tensor:
        """The sum up to each place of one axis: the axis that the spec takes away, or the one output axis."""

    def exp(self, *, label: str | None = None) -> Tensor:
        """Euler's number to the power of the value."""

    def exp2(self, *, label: str | None = None) -> Tensor:
        """2 to the power of the value."""

    def floor(self, *, label: str | None = None) -> Tensor:
        """The largest integer that is not larger."""

    def gelu(self) -> Tensor:
        """`0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3)))`."""

    def log(self, *, label: str | None = None) -> Tensor:
        """The natural logarithm."""

    def log2(self, *, label: str | None = None) -> Tensor:
        """The logarithm to base 2."""

    def log_softmax(self, spec: str | None = None, **names: Any) -> Tensor:
        """The logarithm of `softmax`, exact where probabilities vanish."""

    def logsumexp(self, spec: str | None = None, **names: Any) -> Tensor:
        """`log(sum(exp(x)))`: over the output row, or over the axes that `spec` takes away."""

    def max(self, spec: str | None = None, **names: Any) -> Tensor:
        """The largest value by a spec of one operand, or over all axes."""

    def mean(self, spec: str | None = None, **names: Any) -> Tensor:
        """The mean by a spec of one operand, or over all axes; of integers, as float32."""

    def min(self, spec: str | None = None, **names: Any) -> Tensor:
        """The smallest value by a spec of one operand, or over all axes."""

    def norm(self, spec: str | None = None, *, ord: float = 2, **names: Any) -> Tensor:
        """The length by a spec of one operand, or over all axes: `ord` is 1, 2 (Euclid's) or `math.inf`, the
        largest.
        """

    def prod(self, spec: str | None = None, **names: Any) -> Tensor:
        """The product by a spec of one operand, or over all axes; of nothing, 1."""

    def recip(self, *, label: str | None = None) -> Tensor:
        """1 divided by the value."""

    def recip_sqrt(self, *, label: str | None = None) -> Tensor:
        """1 divided by the square root."""

    def relu(self, *, label: str | None = None) -> Tensor:
        """The larger of the value and 0; NaN stays."""

    def round(self, *, label: str | None = None) -> Tensor:
        """The nearest integer; of two, the even one."""

    def sat01(self, *, label: str | None = None) -> Tensor:
        """The value clipped to [0, 1]; NaN stays."""

    def sigmoid(self, *, label: str | None = None) -> Tensor:
        """`1 / (1 + exp(-x))`: exact at both infinities, and small where `x` is far below zero, not zero."""

    def sign(self, *, label: str | None = None) -> Tensor:
        """1, 0 or -1, as the value is positive, zero or negative; NaN stays."""

    def silu(self, *, label: str | None = None) -> Tensor:
        """`x * sigmoid(x)`."""

    def sin(self, *, label: str | None = None) -> Tensor:
        """The sine, of radians."""

    def softmax(self, spec: str | None = None, **names: Any) -> Tensor:
        """`exp(x) / sum(exp(x))`: over the output row, or over the axes that `spec` takes away."""

    def sqrt(self, *, label: str | None = None) -> Tensor:
        """The square root."""

    def std(self, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
        """The standard deviation: the square root of `var`."""

    def stop_gradient(self, *, label: str | None = None) -> Tensor:
        """The same values, with no gradient through them."""

    def sum(self, spec: str | None = None, **names: Any) -> Tensor:
        """The sum by a spec of one operand, or over all axes, giving a tensor of no axes."""

    def take(self, ids: object, *, label: str | None = None) -> Tensor:
        """Rows of the leading output axis of `t`, at the integers `ids`: the axes of `ids`, then the rest of `t`."""

    def tanh(self, *, label: str | None = None) -> Tensor:
        """The hyperbolic tangent."""

    def trunc(self, *, label: str | None = None) -> Tensor:
        """The integral part, towards 0."""

    def var(self, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
        """The variance by a spec of one operand, or over all axes; of integers, as float32."""

METHODS: dict[str, str]

def attach(registry: Mapping[str, Callable[..., Any]]) -> None: ...
