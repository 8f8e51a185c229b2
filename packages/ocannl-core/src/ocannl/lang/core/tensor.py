"""Tensors: a value node, an optional gradient node, an inferred shape, and the code that computes both nodes.

Expressions are lazy: `forward`, `backprop`, `zero_grads` and `init_params` are code, which a `Context` compiles and
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ocannl.base import spelling
from ocannl.base.errors import ArgumentError, CodeError, DataError
from ocannl.base.traceback_filtering import public_class
from ocannl.infer.logic import Logic, pointwise
from ocannl.infer.shape import Shape
from ocannl.infer.shape_view import TensorShape
from ocannl.infer.spec import reads_outside
from ocannl.infer.tensor_description import Provenance
from ocannl.ir.assign import Assign, Comp, Index, Number, Origin
from ocannl.ir.precision import Precision, int32, precision
from ocannl.ir.projections import Projections
from ocannl.ir.tnode import Role, TNode, set_tensor
from ocannl.lang.core import dtype_inference, graph
from ocannl.lang.core.applied_operation import Application, describe
from ocannl.lang.core.assignment_operators import AssignmentOperators
from ocannl.lang.core.context_vars import block_path, checked_label, enclosing_call, gradients_enabled, site
from ocannl.lang.core.dtype_inference import DtypeInference
from ocannl.lang.core.fans import Weight, record_uses
from ocannl.lang.core.fill import fill
from ocannl.lang.core.operation import Operation, contraction
from ocannl.lang.core.operation_call import OperationCall, operation_call
from ocannl.lang.core.operators import Operators
from ocannl.lang.core.tensor_html import tensor_html
from ocannl.lang.record.code import recorder

if TYPE_CHECKING:
    from ocannl.lang.record.code import Code


class StateAccess(NamedTuple):
    """A read or an update of a state; accesses are numbered in the order in which they were written."""

    state: Tensor
    number: int
    is_update: bool = False


@spelling.with_answers(spelling.TENSOR)
@public_class(exclude=("__init__", "emit", "handle", "is_parameter", "label", "origin", "value"))
class Tensor(AssignmentOperators, Operators["Tensor"]):
    """A node of the lazy expression graph. `==` between tensors is identity; `oc.eq` compares values.

    `application` is the operation with its operands, None for a leaf; `literal` the value of a constant; `initial` the
    initial value of a parameter without contents; `stream` the name of its random stream, its label if None; `typing`
    its data type as far as inferred; `counted` holds masks of the cells that count in a mean, all of them if there is
    none; `weights` are the parameters that the tensor is, or rearranges, if their initial values depend on fans;
    `effects` are the updates of states that run with the code of the tensor; `scope` is the path of the block that
    builds the tensor, and `block_results` are the paths of the blocks that return it, inner blocks first.
    """

    __slots__ = (
        "__weakref__", "_emit", "_gradient", "_projections", "_shape", "application", "block_results", "counted",
        "effects", "has_gradient", "initial", "literal", "is_named", "node", "provenance", "scope", "stream", "typing",
        "weights",
    )  # fmt: skip

    def __new__(cls, *args: object, **_: object) -> Self:
        if cls is Tensor and not (len(args) == 3 and isinstance(args[2], DtypeInference)):
            raise ArgumentError("tensors come from functions and operators: write oc.tensor(data), or oc.param()")
        return super().__new__(cls)

    def __init__(
        self,
        node: TNode,
        emit: Callable[[Tensor], Shape],
        typing: DtypeInference,
        *,
        is_named: bool = True,
        application: Application[Tensor] | None = None,
        literal: Callable[[], Number | Index] | None = None,
        initial: Tensor | float | None = None,
        has_gradient: bool = False,
    ) -> None:
        self.node = node
        self.typing = typing
        self.application = application
        self.literal = literal
        self.initial = initial
        self.is_named = is_named
        self.has_gradient = has_gradient
        self.stream: str | None = None
        self.counted: tuple[Tensor, ...] = ()
        self.weights: tuple[Weight, ...] = ()
        self.effects: tuple[Tensor, ...] = ()
        self.scope = block_path.get()
        self.block_results: tuple[str, ...] = ()
        text = None if application is None else enclosing_call.get() or (lambda: describe(self))
        self.provenance = Provenance(lambda: self.label, node.role.value, text, node.where)
        self._gradient: Tensor | None = None
        self._projections: Projections | None = None
        self._shape: Shape | None = None
        self._emit = emit
        set_tensor(node, self)
        active = recorder.get()
        if application is not None and active is not None:
            active.note(self)
        else:
            self.emit()

    # --- shape -------------------------------------------------------------------------------------------------------

    def emit(self) -> Shape:
        """Emits the shape constraints of this tensor once.

        Called when the expression is built; inside a recorder, when the shape is first needed.
        """
        if self._shape is None:
            self._shape = self._emit(self)
        return self._shape

    @property
    def handle(self) -> Shape:
        """The shape as inferred so far; reading it solves nothing."""
        return self.emit()

    @property
    def shape(self) -> TensorShape:
        """Rows, sizes and units. Reading them finishes inference of everything connected."""
        return TensorShape(self.emit())

    @property
    def dims(self) -> tuple[int, ...]:
        """Sizes in memory order: batch, output, input. Finishes inference of everything connected."""
        return self.emit().dims

    @property
    def known_shape(self) -> str:
        """The shape inferred so far, with variables for unsolved parts; changes nothing."""
        return self.emit().known

    @property
    def projections(self) -> Projections:
        """The loops of the operation and the indices of its operands."""
        if self._projections is None:
            if self.application is None:
                raise CodeError(f"`{self.label}` is a leaf: it has no operation, and so no projections")
            self._projections = self.application.projections(self)
        return self._projections

    # --- nodes and names ---------------------------------------------------------------------------------------------

    @property
    def operation(self) -> OperationCall[Tensor] | None:
        """The call that computes the tensor, with its operands and settings; None for a leaf."""
        return None if self.application is None else operation_call(self.application, self.provenance.text)

    @property
    def value(self) -> TNode:
        """The node that holds the value."""
        return self.node

    @property
    def grad(self) -> Tensor | None:
        """The gradient tensor, to be read and assigned in code; None if the tensor has no gradient."""
        if not self.has_gradient:
            if recorder.get() is not None:
                reason = "it was" if self.is_parameter else "it depends on no parameter, or was"
                raise CodeError(f"`{self.label}` has no gradient: {reason} built inside oc.no_grad()")
            return None
        if self._gradient is None:
            typing = dtype_inference.gradient_dtype(self.typing)
            attributes = Role.GRADIENT, lambda: self.dims, lambda: typing.settle(use_site)
            node = TNode("", *attributes, gradient_of=self.node, where=self.node.where)
            self._gradient = Tensor(node, lambda _: self.emit(), typing.bind(node))
            node.path = self.path
        return self._gradient

    @grad.setter
    def grad(self, updated: object) -> None:
        if updated is None or updated is not self._gradient:
            raise CodeError(
                f"`{self.label}.grad` can be updated in place, not replaced: write `+=` or `{self.label}.grad[...] = `"
            )

    @property
    def merge(self) -> Tensor:
        """The merge buffer of the node: a copy from another context, filled by `oc.transfer` and read by code."""
        return MergeBuffer(self)

    @property
    def label(self) -> str:
        return self.node.label

    @property
    def path(self) -> str | None:
        """The path of a parameter or state with its blocks; None outside of blocks."""
        return self.node.path

    @property
    def dtype(self) -> Precision:
        """The data type. Reading it settles the type."""
        return self.node.precision

    def with_dtype(self, dtype: object) -> Tensor:
        """Sets the storage type and returns the tensor; only before its first use. `t.astype` converts values."""
        self.typing.require(precision(dtype), f"with_dtype ({site().where})")
        return self

    def with_label(self, label: str) -> Tensor:
        """Sets the label and returns the tensor."""
        self.node.label = checked_label(label)
        self.is_named = True
        return self

    def rename_if_unnamed(self, label: str) -> None:
        if not self.is_named:
            self.with_label(label)

    @property
    def is_merged(self) -> bool:
        """Whether the tensor reads the merge buffer of its node."""
        return False

    @property
    def is_parameter(self) -> bool:
        return self.node.role is Role.PARAMETER

    @property
    def state_access(self) -> StateAccess | None:
        """The state that the tensor is, reads or updates; None for all others."""
        return None

    @property
    def accesses(self) -> tuple[StateAccess, ...]:
        """The reads and updates of states in the code of the tensor."""
        return () if self.state_access is None or self.application is None else (self.state_access,)

    def as_operand(self, operation: Operation | None = None) -> Tensor:
        """The tensor that an expression of this one reads: for a state, its value at this point."""
        return self

    # --- code --------------------------------------------------------------------------------------------------------

    @property
    def active_operands(self) -> tuple[Tensor, ...]:
        """The operands that code of the current training mode reads."""
        return () if self.application is None else self.application.operands

    @property
    def origin(self) -> Origin:
        return Origin(self.label, self.node.where)

    def value_code(self) -> Iterable[Comp]:
        """The code that computes the value from the operands; none for a leaf set from outside."""
        if self.application is not None:
            return self.application.code(self, self.application.operation.forward)
        if self.literal is not None:
            return (fill(self.node, self.dims, self.literal(), self.origin),)
        return ()

    def gradient_code(self) -> Iterable[Comp]:
        """The code that accumulates the gradients of the operands from the gradient of this tensor."""
        app = self.application
        if app is None or not self.has_gradient or app.operation.gradient is None:
            return ()
        return app.code(self, app.operation.gradient)

    def value_step(self, reached: Set[Tensor]) -> Callable[[], Iterable[Comp]]:
        """`value_code` in the code of the tensors `reached`."""
        return self.value_code

    def repeated_step(self, reached: Set[Tensor]) -> Callable[[], Iterable[Comp]]:
        """`value_step` where the value is computed once more: states are neither read nor updated again."""
        return tuple if self.accesses else self.value_step(reached)

    def gradient_step(self, reached: Set[Tensor]) -> Callable[[], Iterable[Comp]]:
        """`gradient_code` in the code of the tensors `reached`."""
        return self.gradient_code

    def zero_gradient(self) -> Iterable[Assign]:
        return () if self.grad is None else (fill(self.grad.node, self.dims, Number(0), self.origin),)

    @property
    def params(self) -> Mapping[str, Tensor]:
        """The parameters that gradients of this tensor reach, by path, in order of creation.

        Those behind `oc.stop_gradient`, and in what was built inside `oc.no_grad()`, are not among them; `all_params`,
        `init_params` and `find` include these.
        """
        return graph.differentiable_parameters(self)

    @property
    def all_params(self) -> Mapping[str, Tensor]:
        """All parameters this tensor depends on, by path, in order of creation."""
        return graph.parameters(self)

    @property
    def states(self) -> Mapping[str, Tensor]:
        """All states of blocks that this tensor reads or updates, by path, in order of creation."""
        return graph.states(self)

    @property
    def forward(self) -> Code:
        """Code that computes the value and all tensors it depends on, each once; does not initialize parameters."""
        return graph.forward(self)

    @property
    def backprop(self) -> Code:
        """Code that accumulates the gradients of all tensors this one depends on; does not seed or clear gradients."""
        return graph.backprop(self)

    @property
    def zero_grads(self) -> Code:
        """Code that zeroes the gradients of this tensor and of all tensors it depends on."""
        return graph.zero_grads(self)

    @property
    def init_params(self) -> Code:
        """Code that computes the initial values of the parameters this tensor depends on."""
        return graph.init_params(self)

    def inputs(self) -> list[Tensor]:
        """The leaves this tensor depends on that are neither parameters nor numbers, in order of creation."""
        leaves = (t for t in graph.everything([self]) if t.application is None and t.literal is None)
        return sorted((t for t in leaves if not t.is_parameter and t.state_access is None), key=lambda t: t.node.id)

    def find(self, path: str) -> Tensor:
        """The parameter at a path such as `layers.0.w`, or the tensor with this label in the graph."""
        if not isinstance(path, str):
            raise ArgumentError(f"a path is a string such as 'layers.0.w', not {path!r}"[:200])
        params = self.all_params
        if path in params:
            return params[path]
        labelled = [t for t in graph.everything([self]) if t.label == path]
        if not labelled:
            raise CodeError(f"`{self.label}` has no dependency named {path!r}; the parameters are {list(params)}")
        return labelled[-1]

    if TYPE_CHECKING:  # attached by `ocannl`, since they need contexts

        def numpy(self, ctx: Any = None) -> np.ndarray[Any, Any]: ...
        def eval(self, ctx: Any = None) -> np.ndarray[Any, Any]: ...
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]: ...

    def __repr__(self) -> str:
        shape = "pending" if self._shape is None else self._shape.known
        return f"<{self.label}: {shape or 'scalar'} {self.typing.current}>"

    def _repr_html_(self) -> str:
        shape = None if self._shape is None else self._shape.known
        return tensor_html(shape, self.typing.current, self.provenance, self.node)


class MergeBuffer(Tensor):
    """A leaf with the node and shape of its tensor; reads the merge buffer of the node."""

    __slots__ = ()

    def __init__(self, owner: Tensor) -> None:
        if owner.literal is not None or isinstance(owner, MergeBuffer):
            raise CodeError(f"`{owner.label}` has no merge buffer: it is not a node")
        super().__init__(owner.node, lambda _: owner.emit(), owner.typing)

    @property
    def is_merged(self) -> bool:
        return True

    @property
    def label(self) -> str:
        return f"{self.node.label}.merge"

    @property
    def value(self) -> TNode:
        raise CodeError(f"`{self.label}` cannot be read from Python: it is only available in code")


def apply(
    operation: Operation,
    operands: Iterable[Tensor],
    *,
    captures: Mapping[str, Any] | None = None,
    label: str | None = None,
    kind: type[Tensor] = Tensor,
) -> Tensor:
    """Applies an operation: emits the shape constraints of the result; its values are computed when code is run."""
    inputs = tuple(t.as_operand(operation) for t in operands)
    inputs = with_cells_in_windows(inputs, operation.logic)
    call_site = site()
    result: Tensor
    typing = dtype_inference.result_dtype(operation, inputs, recorder.get() is not None)
    is_differentiable = operation.gradient is not None and typing.is_float and any(t.has_gradient for t in inputs)

    if not typing.is_float and operation.name not in COMPARISONS:
        check_literal_range(inputs, typing.current)

    name = call_site.name if label is None else checked_label(label)
    attributes = Role.RESULT, lambda: result.dims, lambda: typing.settle(use_site)
    node = TNode(name or operation.name, *attributes, where=call_site.where)
    application = Application(operation, inputs, captures or EMPTY_MAPPING)
    result = kind(
        node,
        application.emit_constraints,
        typing.bind(node),
        is_named=bool(name),
        application=application,
        has_gradient=is_differentiable and gradients_enabled.get() and recorder.get() is None,
    )
    if any(t.weights for t in inputs) and recorder.get() is None:
        record_uses(result, operation, inputs)
    if operation.logic.name == "pointwise" and any(t.counted for t in inputs):
        result.counted = tuple(dict.fromkeys(mask for t in inputs for mask in t.counted))
    return result


def with_cells_in_windows(operands: tuple[Tensor, ...], logic: Logic) -> tuple[Tensor, ...]:
    """The operands, with copies of literals where windows reach beyond their cells: a constant has no outside."""
    if all(t.literal is None for t in operands):
        return operands
    return tuple(
        apply(_COPY, [t]) if t.literal is not None and any(map(reads_outside, shape.axes)) else t
        for t, shape in zip(operands, logic.spec.operands, strict=True)
    )


_COPY = contraction("copy", pointwise(1), lambda v: v, None, text="{0}")


def use_site() -> str:
    """The current call site, as the origin of a type that is settled by being read."""
    where = site().where
    return f"its use ({where})" if where else "its use"


EMPTY_MAPPING: Mapping[str, Any] = {}
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


def check_literal_range(operands: tuple[Tensor, ...], precision: Precision) -> None:
    """Checks that literals beside integer tensors fit the type of these. Raises: DataError."""
    limits = np.iinfo(precision.numpy) if precision.name != "bool" else None
    for t in operands:
        number = t.literal() if t.literal is not None and t.typing.current is int32 else None
        if limits and isinstance(number, Number) and not limits.min <= number.value <= limits.max:
            raise DataError(f"{number.value} does not fit {precision}, the type it takes beside tensors of that type")
