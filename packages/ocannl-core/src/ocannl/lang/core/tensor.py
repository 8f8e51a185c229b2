"""A tensor: a value node, usually a gradient node, a shape that infers itself, and the code that computes both.

Nothing is computed when an expression is written. `forward`, `backprop`, `zero_grads` and `init_params` are code; a
`Context` compiles and runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ocannl.base.errors import CodeError, DataError
from ocannl.infer.shape import Shape
from ocannl.infer.tensor_shape import TensorShape
from ocannl.infer.terms import Provenance
from ocannl.ir.assign import Assign, Index, Number, Origin
from ocannl.ir.precision import Precision, int32, precision
from ocannl.ir.projections import Projections
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core import dtypes, graph
from ocannl.lang.core.application import Application, describe
from ocannl.lang.core.context_vars import checked_label, composed, differentiable, site
from ocannl.lang.core.dtypes import Typing
from ocannl.lang.core.fill import fill
from ocannl.lang.core.operation import Operation
from ocannl.lang.core.operators import Operators
from ocannl.lang.record.code import Recorder, recorder

if TYPE_CHECKING:
    from ocannl.lang.record.code import Code


class Tensor(Operators):
    """See the module. Tensors are identity objects: `==` between tensors is `is`; compare values with `oc.eq`.

    `application` is the operation that gives the value, None for a leaf; `literal` the number that a leaf stands for;
    `initial` what a parameter without contents starts as; `path` where a block keeps a parameter; `typing` what is
    known of its data type.
    """

    __slots__ = (
        "__weakref__", "_emit", "_gradient", "_projections", "_shape", "application", "has_gradient", "initial",
        "literal", "named", "node", "path", "provenance", "typing",
    )  # fmt: skip

    def __init__(
        self,
        node: TNode,
        emit: Callable[[Tensor], Shape],
        typing: Typing,
        *,
        named: bool = True,
        application: Application | None = None,
        literal: Callable[[], Number | Index] | None = None,
        initial: Tensor | float | None = None,
        has_gradient: bool = False,
    ) -> None:
        self.node = node
        self.typing = typing
        self.application = application
        self.literal = literal
        self.initial = initial
        self.named = named
        self.has_gradient = has_gradient
        self.path: str | None = None
        words = None if application is None else composed.get() or (lambda: describe(self))
        self.provenance = Provenance(lambda: self.label, node.role.value, words, node.where)
        self._gradient: Tensor | None = None
        self._projections: Projections | None = None
        self._shape: Shape | None = None
        self._emit = emit
        active = recorder.get()
        if application is not None and active is not None:
            active.note(self)
        else:
            self.emit()

    # --- shape -------------------------------------------------------------------------------------------------------

    def emit(self) -> Shape:
        """States the shape constraints of this tensor, if that has not been done: when the expression is written, or,
        inside a recorder, when it is first needed."""
        if self._shape is None:
            self._shape = self._emit(self)
        return self._shape

    @property
    def handle(self) -> Shape:
        """The shape as inference knows it, without solving anything."""
        return self.emit()

    @property
    def shape(self) -> TensorShape:
        """Rows, sizes and units; reading them finishes inference of everything connected."""
        return TensorShape(self.emit())

    @property
    def dims(self) -> tuple[int, ...]:
        """Sizes in memory order: batch, output, input. Finishes inference of everything connected."""
        return self.emit().dims

    @property
    def known_shape(self) -> str:
        """What is known so far, unsolved parts as variables; changes nothing."""
        return self.emit().known

    @property
    def projections(self) -> Projections:
        """How this tensor's operation walks its operands."""
        if self._projections is None:
            assert self.application is not None
            self._projections = self.application.projections(self)
        return self._projections

    # --- nodes and names ---------------------------------------------------------------------------------------------

    @property
    def value(self) -> TNode:
        """The node that holds the value."""
        return self.node

    @property
    def grad(self) -> Tensor | None:
        """The gradient, to be read and assigned in code; None when the tensor has none."""
        if not self.has_gradient:
            if recorder.get() is not None:
                reason = "it was" if self.is_parameter else "it depends on no parameter, or was"
                raise CodeError(f"`{self.label}` has no gradient: {reason} built inside oc.no_grad()")
            return None
        if self._gradient is None:
            typing = dtypes.gradient(self.typing)
            about = Role.GRADIENT, lambda: self.dims, lambda: typing.settle(relying)
            node = TNode("", *about, of=self.node, where=self.node.where)
            self._gradient = Tensor(node, lambda _: self.emit(), typing.given_to(node))
        return self._gradient

    @grad.setter
    def grad(self, updated: object) -> None:
        if updated is None or updated is not self._gradient:
            raise CodeError(
                f"`{self.label}.grad` can be updated in place, not replaced: write `+=` or `{self.label}.grad[...] = `"
            )

    @property
    def merge(self) -> Tensor:
        """The merge buffer of this tensor's node: another context's copy, put there by `oc.transfer`, read in code."""
        return MergeBuffer(self)

    @property
    def label(self) -> str:
        return self.node.label

    @property
    def dtype(self) -> Precision:
        """The type of the numbers; asking settles it."""
        return self.node.precision

    def with_dtype(self, dtype: object) -> Tensor:
        """This tensor, stored as `dtype`: say so before anything reads it. To convert it, there is `t.astype`."""
        self.typing.say(precision(dtype), f"with_dtype ({site().where})")
        return self

    def with_label(self, label: str) -> Tensor:
        """This tensor, called `label` from now on."""
        self.node.label = checked_label(label)
        self.named = True
        return self

    def rename_if_unnamed(self, label: str) -> None:
        if not self.named:
            self.with_label(label)

    @property
    def is_merged(self) -> bool:
        """Whether it reads what a transfer has put beside its node."""
        return False

    @property
    def is_parameter(self) -> bool:
        return self.node.role is Role.PARAMETER

    # --- code --------------------------------------------------------------------------------------------------------

    @property
    def origin(self) -> Origin:
        return Origin(self.label, self.node.where)

    def value_code(self) -> Iterable[Assign]:
        """The assignments that compute the value from the operands; none for a leaf that is given from outside."""
        if self.application is not None:
            return self.application.code(self, self.application.operation.forward)
        if self.literal is not None:
            return (fill(self.node, self.dims, self.literal(), self.origin),)
        return ()

    def gradient_code(self) -> Iterable[Assign]:
        """The assignments that hand this tensor's gradient on to its operands."""
        app = self.application
        if app is None or not self.has_gradient or app.operation.gradient is None:
            return ()
        return app.code(self, app.operation.gradient)

    def zero_gradient(self) -> Iterable[Assign]:
        return () if self.grad is None else (fill(self.grad.node, self.dims, Number(0), self.origin),)

    @property
    def params(self) -> Mapping[str, Tensor]:
        """The parameters this tensor depends on, in order of creation, by path."""
        return graph.parameters(self)

    @property
    def forward(self) -> Code:
        """Computes the value: each tensor it depends on once, operands first; parameters are not initialized by it."""
        return graph.forward(self)

    @property
    def backprop(self) -> Code:
        """Adds to the gradients of what this tensor depends on, given its own gradient; seeds and clears nothing."""
        return graph.backprop(self)

    @property
    def zero_grads(self) -> Code:
        """Sets the gradients of this tensor and of everything it depends on to zero."""
        return graph.zero_grads(self)

    @property
    def init_params(self) -> Code:
        """Computes the initial values of the parameters this tensor depends on."""
        return graph.init_params(self)

    def inputs(self) -> list[Tensor]:
        """The leaves this tensor depends on that are neither parameters nor numbers, in order of creation."""
        leaves = (t for t in graph.ancestors([self]) if t.application is None and t.literal is None)
        return sorted((t for t in leaves if not t.is_parameter), key=lambda t: t.node.id)

    def find(self, path: str) -> Tensor:
        """The parameter at a path such as `layers.0.w`, or the tensor of that label in this graph."""
        params = self.params
        if path in params:
            return params[path]
        found = [t for t in graph.ancestors([self]) if t.label == path]
        if not found:
            raise CodeError(f"`{self.label}` depends on nothing called {path!r}; parameters are {list(params)}")
        return found[-1]

    if TYPE_CHECKING:  # what needs a context is attached where contexts are known

        def numpy(self, ctx: Any = None) -> np.ndarray[Any, Any]: ...
        def eval(self, ctx: Any = None) -> np.ndarray[Any, Any]: ...
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]: ...

    # --- assignments, inside a recorder ------------------------------------------------------------------------------

    def __iadd__(self, value: object) -> Tensor:
        return in_place(self, "=+", value)

    def __isub__(self, value: object) -> Tensor:
        return in_place(self, "=-", value)

    def __imul__(self, value: object) -> Tensor:
        return in_place(self, "=*", value)

    def __itruediv__(self, value: object) -> Tensor:
        return in_place(self, "=/", value)

    def __ipow__(self, value: object) -> Tensor:
        return in_place(self, "=**", value)

    def __ior__(self, value: object) -> Tensor:
        return in_place(self, "=||", value)

    def __iand__(self, value: object) -> Tensor:
        return in_place(self, "=&&", value)

    def __imatmul__(self, value: object) -> NoReturn:
        raise _meaningless("@=")

    def __imod__(self, value: object) -> NoReturn:
        raise _meaningless("%=")

    def __ixor__(self, value: object) -> NoReturn:
        raise _meaningless("^=")

    def __ifloordiv__(self, value: object) -> NoReturn:
        raise _meaningless("//=")

    def __ilshift__(self, value: object) -> NoReturn:
        raise _meaningless("<<=")

    def __irshift__(self, value: object) -> NoReturn:
        raise _meaningless(">>=")

    def __setitem__(self, key: object, value: object) -> None:
        _recorded(f"{self.label}[...] = ...").assign_item(self, key, value)

    def __repr__(self) -> str:
        shape = "pending" if self._shape is None else self._shape.known
        return f"<{self.label}: {shape or 'scalar'} {self.typing.known}>"


class MergeBuffer(Tensor):
    """A leaf that shares node and shape with its tensor, and reads what a transfer has put beside it."""

    __slots__ = ()

    def __init__(self, owner: Tensor) -> None:
        if owner.literal is not None or isinstance(owner, MergeBuffer):
            raise CodeError(f"`{owner.label}` has no merge buffer: it is no node of its own")
        super().__init__(owner.node, lambda _: owner.emit(), owner.typing)

    @property
    def is_merged(self) -> bool:
        return True

    @property
    def label(self) -> str:
        return f"{self.node.label}.merge"

    @property
    def value(self) -> TNode:
        raise CodeError(f"`{self.label}` has no value of its own to look at: it is read in code")


def in_place(lhs: Tensor, spelling: str, value: object) -> Tensor:
    """`lhs += value` and its likes."""
    sign = {"=||": "|", "=&&": "&"}.get(spelling, spelling[1:])
    name = lhs.label
    is_result = lhs.application is not None and lhs.application.operation.name != "slice"
    instead = f"for a new tensor write `{name} = {name} {sign} ...`, else " if is_result else ""
    _recorded(f"{name} {sign}= ...", instead).assign_in_place(lhs, spelling, value)
    return lhs


def _meaningless(sign: str) -> CodeError:
    return CodeError(f"`{sign}` is no assignment of tensors; there are += -= *= /= **= |= &= and `lhs[...] = e`")


def _recorded(what: str, instead: str = "") -> Recorder:
    active = recorder.get()
    if active is None:
        raise CodeError(
            f"`{what}` assigns, and assignments are recorded: {instead}put it into a function decorated with @oc.cd, "
            f'or into `with oc.cd("title"):`, and run the code with ctx.run'
        )
    return active


def apply(
    operation: Operation,
    operands: Iterable[Tensor],
    *,
    captures: Mapping[str, Any] | None = None,
    label: str | None = None,
) -> Tensor:
    """The result of an operation: its shape constraints are stated now, its values come when code is run."""
    given = tuple(operands)
    at = site()
    result: Tensor
    typing = dtypes.result(operation, given, recorder.get() is not None)
    wants = operation.gradient is not None and typing.is_float and any(t.has_gradient for t in given)

    if not typing.is_float and operation.name not in COMPARISONS:
        refuse_wide(given, typing.known)

    name = at.name if label is None else checked_label(label)
    about = Role.RESULT, lambda: result.dims, lambda: typing.settle(relying)
    node = TNode(name or operation.name, *about, where=at.where)
    application = Application(operation, given, captures or NOTHING)
    result = Tensor(
        node,
        application.state,
        typing.given_to(node),
        named=bool(name),
        application=application,
        has_gradient=wants and differentiable.get() and recorder.get() is None,
    )
    return result


def relying() -> str:
    """Who settles a type by asking for it."""
    where = site().where
    return f"its use ({where})" if where else "its use"


NOTHING: Mapping[str, Any] = {}
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


def refuse_wide(operands: tuple[Tensor, ...], precision: Precision) -> None:
    """Numbers beside integers take their type, and must fit it."""
    limits = np.iinfo(precision.numpy) if precision.name != "bool" else None
    for t in operands:
        number = t.literal() if t.literal is not None and t.typing.known is int32 else None
        if limits and isinstance(number, Number) and not limits.min <= number.value <= limits.max:
            raise DataError(f"{number.value} does not fit {precision}, the type it takes beside tensors of that type")
