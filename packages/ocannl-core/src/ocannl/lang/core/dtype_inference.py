"""Data type inference.

An explicit type takes precedence. The type of a result follows from its operands. A leaf without an explicit type is a
float and open: its type is the promotion of the types of all expressions that read it, or the default; it determines
the type of an expression only if all operands are such leaves. The type of a result that is computed from numbers and
constants of open type only is open as well.

A type settles at its first use: the type of a result when the result becomes an operand, the type of an open leaf when
code is generated for it or the type is read. A contradicting type after that is an error that names both origins.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from ocannl.base.config import GRADIENT_PRECISION, PRECISION, overrides
from ocannl.base.errors import DtypeError
from ocannl.base.write_once import WriteOnce
from ocannl.ir.precision import Precision, precision, promote
from ocannl.ir.tnode import Role, TNode

if TYPE_CHECKING:
    from ocannl.lang.core.operation import Operation

LazyText = Callable[[], str]


class DtypeInference:
    """The data type of one tensor, as far as inferred.

    `as_operand` is the type in promotions; the default for an open type. `is_default`: the type follows from defaults
    alone. `gradient` is the type of the gradient, if it differs.
    """

    __slots__ = ("_consumers", "_decision", "_node", "_where", "as_operand", "gradient", "is_default", "is_open")

    def __init__(
        self, offered: Precision, *, is_open: bool = False, is_default: bool = False, gradient: Precision | None = None
    ) -> None:
        self.as_operand = offered
        self.is_open = is_open
        self.is_default = is_default
        self.gradient = gradient
        self._decision: WriteOnce[Precision] = WriteOnce(self.owner_text, DtypeError)
        self._consumers: list[DtypeInference] = []
        self._node: weakref.ref[TNode] | None = None
        self._where = ""

    def bind(self, node: TNode) -> DtypeInference:
        """Binds the type to its node by a weak reference, since a leaf refers to the types of all its consumers."""
        self._node, self._where = weakref.ref(node), node.where
        return self

    def owner_text(self) -> str:
        """The tensor that the type belongs to, and its call site."""
        node = self._node and self._node()
        name = f"`{node.label}`" if node else "an expression"
        return f"{name} ({self._where})" if self._where else name

    @property
    def is_float(self) -> bool:
        """Whether the type is a float, as every open type is."""
        return self.as_operand.is_float

    @property
    def current(self) -> Precision:
        """The type inferred so far; the type of an open leaf may still change."""
        if self._decision.value is not None:
            return self._decision.value
        return reduce(promote, (user.current for user in self._consumers)) if self._consumers else self.as_operand

    def settle(self, author: str | LazyText) -> Precision:
        """Fixes the type: the promotion over the consumers, or else the current type, with `author` as the origin."""
        if not self._decision:
            users = {user.settle(self.owner_text): user for user in reversed(self._consumers)}
            self._decision.set(self.current, (lambda: _consumers_text(users)) if users else author)
            self._consumers.clear()
        assert self._decision.value is not None
        return self._decision.value

    def require(self, kind: Precision, author: str | LazyText) -> None:
        """Sets the type explicitly. Raises: DtypeError if settled as another type, or for a non-float."""
        if kind.is_float != self.is_float:
            raise DtypeError(f"{author} cannot make {kind} of {self.current}: x.astype(oc.{kind}) converts")
        self._decision.set(kind, author)
        self.as_operand, self.is_open, self.is_default = kind, False, False

    def add_consumer(self, consumer: DtypeInference) -> None:
        """Adds an expression that reads the leaf; no effect on a settled type."""
        if not self._decision:
            self._consumers.append(consumer)

    def __str__(self) -> str:
        """For example `bfloat16, settled by `h` (mlp.py:12)`."""
        return str(self._decision) if self._decision else str(self.current)


def _consumers_text(consumers: dict[Precision, DtypeInference]) -> str:
    """The consumers that determined a type, with their types if these differ."""
    if len(consumers) == 1:
        return next(iter(consumers.values())).owner_text()
    return " and ".join(f"{user.owner_text()}, {kind}" for kind, user in reversed(consumers.items()))


def leaf_dtype(kind: Precision | None, *, gradient: object = None, has_gradient: bool = False) -> DtypeInference:
    """The type of a leaf: explicit, or open if `kind` is None."""
    requested = gradient if gradient is not None or not has_gradient else GRADIENT_PRECISION.get()
    gradient_kind = None if requested is None else precision(requested)
    if gradient_kind is not None and not gradient_kind.is_float:
        raise DtypeError(f"gradients are floats, not {gradient_kind}")
    if kind is None:
        return DtypeInference(default_precision(), is_open=True, is_default=True, gradient=gradient_kind)
    explicit = DtypeInference(kind, gradient=gradient_kind)
    explicit.settle("its creation")
    return explicit


def gradient_dtype(value: DtypeInference) -> DtypeInference:
    """The type of a gradient: explicit, or inferred as the type of the value."""
    if value.gradient is not None:
        return leaf_dtype(value.gradient)
    open_ = DtypeInference(value.as_operand, is_open=True, is_default=value.is_default)
    open_.add_consumer(value)
    return open_


def default_precision() -> Precision:
    """The precision of tensors whose type nothing determines (setting `precision`)."""
    return precision(PRECISION.get())


class TypedTensor(Protocol):
    """What type inference reads of a tensor."""

    @property
    def node(self) -> TNode: ...

    @property
    def literal(self) -> object | None: ...

    @property
    def typing(self) -> DtypeInference: ...

    @property
    def has_gradient(self) -> bool: ...


def is_constant(t: TypedTensor) -> bool:
    """Whether code never writes the leaf, so that its type stays open until all code is recorded."""
    return t.literal is not None or t.node.role is Role.DATA


def is_open_constant(t: TypedTensor) -> bool:
    """Whether the tensor is a number, a constant leaf of open type, or computed from such tensors only."""
    return t.literal is not None or (t.typing.is_open and (is_constant(t) or t.node.role is Role.RESULT))


def result_dtype(operation: Operation, operands: Sequence[TypedTensor], in_code: bool) -> DtypeInference:
    """The type of the result of an operation.

    Settles the types of its operands and becomes a consumer of the open leaves among them. Recorded code settles leaves
    too, except constants.
    """
    kinds, weak, open_ = [], [], []
    for number, t in enumerate(operands):
        settles = not t.typing.is_open or (in_code and not is_constant(t))
        kinds.append(t.typing.settle(lambda: result.owner_text()) if settles else t.typing.as_operand)
        weak.append(t.literal is not None or not settles)
        if not settles:
            open_.append((number, t))
    fallback = reduce(promote, (t.typing.as_operand for _, t in open_)) if open_ else None
    rule = operation.result_type
    if rule.follows_consumers:
        kind = fallback or default_precision()
    else:
        kind = operation.precision(kinds, weak, fallback)
    promoted = [t for number, t in enumerate(operands) if number not in rule.weak_operands]
    is_constant_formula = rule.is_promoted and kind.is_float and bool(promoted) and all(map(is_open_constant, promoted))
    is_open = rule.follows_consumers or is_constant_formula
    gradients = [t.typing.gradient for t in operands if t.has_gradient and t.typing.gradient is not None]
    result = DtypeInference(
        kind,
        is_open=is_open,
        is_default=is_open
        or (rule.kind is None and all(t.typing.is_default for t in operands if t.literal is None)),
        gradient=reduce(promote, gradients) if gradients else None,
    )
    if rule.is_promoted and kind.is_float:
        for number, t in open_:
            if number not in rule.weak_operands:
                t.typing.add_consumer(result)
    return result


def use_precision(values: object, gradients: object = None) -> AbstractContextManager[None]:
    """Default data types of leaves built inside.

    Leaves without an explicit type hold `values`, unless the expressions that read them need another type. Gradients of
    parameters, and the gradients computed from these, hold `gradients`; None: the type of the values.

        with oc.use_precision("bfloat16", gradients="float32"):
            loss = model(x)
    """
    kinds = [None if kind is None else precision(kind) for kind in (values, gradients)]
    for kind in kinds:
        if kind is not None and not kind.is_float:
            raise DtypeError(f"values and gradients of parameters are floats, not {kind}")
    names = [None if kind is None else kind.name for kind in kinds]
    call = f"oc.use_precision({names[0]!r}{f', gradients={names[1]!r}' if names[1] else ''})"
    return overrides({"precision": names[0], "gradient_precision": names[1]}, call)
