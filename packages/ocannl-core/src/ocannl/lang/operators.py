"""Python's operators on tensors and on what stands for a number in an expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from ocannl.base.errors import CodeError

if TYPE_CHECKING:
    from ocannl.lang.tensor import Tensor

REGISTRY: dict[str, Callable[..., Any]] = {}
"""Every declared operation by name; `operations` fills it, plugins may add to it."""


class Operators:
    """Operators build expressions; whatever would need a value now says where values come from."""

    __slots__ = ()
    __array_ufunc__ = None  # np.float64(2) * t builds a tensor
    __iter__ = None
    __contains__ = None

    def __add__(self, other: object) -> Tensor:
        return _binary("add", self, other)

    def __radd__(self, other: object) -> Tensor:
        return _binary("add", other, self)

    def __sub__(self, other: object) -> Tensor:
        return _binary("sub", self, other)

    def __rsub__(self, other: object) -> Tensor:
        return _binary("sub", other, self)

    def __mul__(self, other: object) -> Tensor:
        return _binary("mul", self, other)

    def __rmul__(self, other: object) -> Tensor:
        return _binary("mul", other, self)

    def __truediv__(self, other: object) -> Tensor:
        return _binary("div", self, other)

    def __rtruediv__(self, other: object) -> Tensor:
        return _binary("div", other, self)

    def __pow__(self, other: object) -> Tensor:
        return _binary("pow", self, other)

    def __rpow__(self, other: object) -> Tensor:
        return _binary("pow", other, self)

    def __mod__(self, other: object) -> Tensor:
        return _binary("mod", self, other)

    def __rmod__(self, other: object) -> Tensor:
        return _binary("mod", other, self)

    def __matmul__(self, other: object) -> Tensor:
        return _binary("matmul", self, other)

    def __rmatmul__(self, other: object) -> Tensor:
        return _binary("matmul", other, self)

    def __lt__(self, other: object) -> Tensor:
        return _binary("lt", self, other)

    def __le__(self, other: object) -> Tensor:
        return _binary("le", self, other)

    def __gt__(self, other: object) -> Tensor:
        return _binary("gt", self, other)

    def __ge__(self, other: object) -> Tensor:
        return _binary("ge", self, other)

    def __and__(self, other: object) -> Tensor:
        return _binary("and_", self, other)

    def __rand__(self, other: object) -> Tensor:
        return _binary("and_", other, self)

    def __or__(self, other: object) -> Tensor:
        return _binary("or_", self, other)

    def __ror__(self, other: object) -> Tensor:
        return _binary("or_", other, self)

    def __neg__(self) -> Tensor:
        return _unary("neg", self)

    def __pos__(self) -> Tensor:
        return _unary("id", self)

    def __abs__(self) -> Tensor:
        return _unary("abs", self)

    def __invert__(self) -> Tensor:
        return _unary("not_", self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Operators) or not is_number_like(other):
            return self is other
        raise CodeError("`==` between tensors is identity; to compare values write oc.eq(a, b)")

    def __ne__(self, other: object) -> bool:
        if isinstance(other, Operators) or not is_number_like(other):
            return self is not other
        raise CodeError("`!=` between tensors is identity; to compare values write oc.ne(a, b)")

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise CodeError("an expression has no truth value before it is run; use oc.where, or ctx.run and ctx[t]")

    def __len__(self) -> NoReturn:
        raise CodeError("a tensor has no length; its sizes are t.dims")

    def __float__(self) -> NoReturn:
        raise CodeError("an expression has no value before it is run; use t.numpy(), or ctx.run and ctx[t]")

    __int__ = __complex__ = __float__

    def __format__(self, spec: str) -> str:
        if spec:
            raise CodeError(f"an expression has no value to print as {spec!r}; use t.numpy(), or ctx.run and ctx[t]")
        return str(self)

    def __index__(self) -> NoReturn:
        raise CodeError("a tensor is no index; x[n] takes an int or a static symbol (oc.symbol)")

    def __copy__(self) -> NoReturn:
        raise CodeError("tensors cannot be copied; share them, or save values with oc.save")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise CodeError("tensors cannot be copied; share them, or save values with oc.save")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise CodeError("tensors cannot be pickled; save values with oc.save")

    def relu(self) -> Tensor:
        """The larger of the value and 0."""
        return _unary("relu", self)

    def sat01(self) -> Tensor:
        """The value clipped to [0, 1]."""
        return _unary("sat01", self)

    def exp(self) -> Tensor:
        """E to the power of the value."""
        return _unary("exp", self)

    def log(self) -> Tensor:
        """The natural logarithm."""
        return _unary("log", self)

    def exp2(self) -> Tensor:
        """2 to the power of the value."""
        return _unary("exp2", self)

    def log2(self) -> Tensor:
        """The logarithm to base 2."""
        return _unary("log2", self)

    def sin(self) -> Tensor:
        """The sine."""
        return _unary("sin", self)

    def cos(self) -> Tensor:
        """The cosine."""
        return _unary("cos", self)

    def sqrt(self) -> Tensor:
        """The square root."""
        return _unary("sqrt", self)

    def recip(self) -> Tensor:
        """One divided by the value."""
        return _unary("recip", self)

    def recip_sqrt(self) -> Tensor:
        """One divided by the square root."""
        return _unary("recip_sqrt", self)

    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
        return _unary("tanh", self)

    def abs(self) -> Tensor:
        """The absolute value."""
        return _unary("abs", self)

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x))."""
        return _unary("sigmoid", self)

    def silu(self) -> Tensor:
        """X * sigmoid(x)."""
        return _unary("silu", self)

    def gelu(self) -> Tensor:
        """The value times the normal distribution function, by its tanh form."""
        return _unary("gelu", self)

    def stop_gradient(self) -> Tensor:
        """The same values, with no gradient through them."""
        return _unary("stop_gradient", self)

    def sum(self, spec: str | None = None, **names: Any) -> Tensor:
        """The sum by a one-operand spec, or over all axes, giving a tensor of no axes."""
        return _along("sum", self, spec, names)

    def max(self, spec: str | None = None, **names: Any) -> Tensor:
        """The largest value by a one-operand spec, or over all axes."""
        return _along("largest", self, spec, names)

    def min(self, spec: str | None = None, **names: Any) -> Tensor:
        """The smallest value by a one-operand spec, or over all axes."""
        return _along("smallest", self, spec, names)

    def mean(self, spec: str | None = None, **names: Any) -> Tensor:
        """The mean by a one-operand spec, or over all axes."""
        return _along("mean", self, spec, names)

    def prod(self, spec: str | None = None, **names: Any) -> Tensor:
        """The product by a one-operand spec, or over all axes."""
        return _along("prod", self, spec, names)

    def any(self, spec: str | None = None, **names: Any) -> Tensor:
        """1 where some cell is not 0, by a one-operand spec, or over all axes."""
        return _along("any", self, spec, names)

    def all(self, spec: str | None = None, **names: Any) -> Tensor:
        """1 where no cell is 0, by a one-operand spec, or over all axes."""
        return _along("all", self, spec, names)

    def count_nonzero(self, spec: str | None = None, **names: Any) -> Tensor:
        """How many cells are not 0, by a one-operand spec, or over all axes."""
        return _along("count_nonzero", self, spec, names)

    def var(self, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
        """The variance by a one-operand spec, or over all axes; `sample` estimates it."""
        return _along("var", self, spec, {"sample": sample, **names})

    def std(self, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
        """The standard deviation by a one-operand spec, or over all axes."""
        return _along("std", self, spec, {"sample": sample, **names})

    def norm(self, spec: str | None = None, *, ord: float = 2, **names: Any) -> Tensor:
        """The length by a one-operand spec, or over all axes; `ord` is 1, 2 or inf."""
        return _along("norm", self, spec, {"ord": ord, **names})

    def argmax(self, spec: str | None = None, **names: Any) -> Tensor:
        """Where the largest value is along the axis that a spec takes away, or the one output axis."""
        return _along("argmax", self, spec, names)

    def argmin(self, spec: str | None = None, **names: Any) -> Tensor:
        """Where the smallest value is along the axis that a spec takes away, or the one output axis."""
        return _along("argmin", self, spec, names)

    def cumsum(self, spec: str | None = None, **names: Any) -> Tensor:
        """The sum up to each place of the axis that a spec takes away, or of the one output axis."""
        return _along("cumsum", self, spec, names)

    def cumprod(self, spec: str | None = None, **names: Any) -> Tensor:
        """The product up to each place of the axis that a spec takes away, or of the one output axis."""
        return _along("cumprod", self, spec, names)

    def softmax(self, spec: str | None = None, **names: Any) -> Tensor:
        """The share of each exponential in their sum, over the output row or what a spec takes away."""
        return _along("softmax", self, spec, names)

    def log_softmax(self, spec: str | None = None, **names: Any) -> Tensor:
        """The logarithm of `softmax`, exact where that vanishes."""
        return _along("log_softmax", self, spec, names)

    def logsumexp(self, spec: str | None = None, **names: Any) -> Tensor:
        """The logarithm of the sum of exponentials, over the output row or what a spec takes away."""
        return _along("logsumexp", self, spec, names)

    def take(self, ids: object) -> Tensor:
        """Rows of the leading output axis, at integers."""
        return _binary("take", self, ids)

    def astype(self, dtype: object) -> Tensor:
        """The values in another type."""
        return _binary("cast", self, dtype)

    def clip(self, low: object = None, high: object = None) -> Tensor:
        """The value, but not less than `low` and not more than `high`."""
        return cast("Tensor", REGISTRY["clip"](self, low, high))

    def sign(self) -> Tensor:
        """1, 0 or -1, as the value is positive, zero or negative."""
        return _unary("sign", self)

    def floor(self) -> Tensor:
        """The largest integer that is not larger."""
        return _unary("floor", self)

    def ceil(self) -> Tensor:
        """The smallest integer that is not smaller."""
        return _unary("ceil", self)

    def round(self) -> Tensor:
        """The nearest integer; of two, the even one."""
        return _unary("round", self)

    def trunc(self) -> Tensor:
        """The integral part, towards 0."""
        return _unary("trunc", self)

    @property
    def T(self) -> Tensor:
        """Input and output rows change places."""
        return _unary("transpose", self)

    def __getitem__(self, index: object) -> Tensor:
        """The leftmost batch axis at an int or a static symbol."""
        return _binary("slice", self, index)


def is_number_like(value: object) -> bool:
    return isinstance(value, int | float | complex | np.ndarray | np.generic)


def _binary(name: str, left: object, right: object) -> Tensor:
    return cast("Tensor", REGISTRY[name](left, right))


def _along(name: str, operand: object, spec: str | None, settings: dict[str, Any]) -> Tensor:
    return cast("Tensor", REGISTRY[name](operand, spec, **settings))


def _unary(name: str, operand: object) -> Tensor:
    return cast("Tensor", REGISTRY[name](operand))
