"""Interface of tensors for the traversals of the graph and for the operations applied to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Any, Protocol

from ocannl.infer.shape import Shape
from ocannl.infer.shape_view import TensorShape
from ocannl.infer.tensor_description import Provenance
from ocannl.ir.assign import Assign, Comp, Index, Number, Origin
from ocannl.ir.precision import Precision
from ocannl.ir.projections import Projections
from ocannl.lang.core.dtype_inference import TypedTensor
from ocannl.lang.core.operation import Operation


class OperationLike(Protocol):
    """An operation with the tensors that it is applied to."""

    @property
    def operation(self) -> Operation: ...

    @property
    def operands(self) -> tuple[TensorLike, ...]: ...


class TensorLike(TypedTensor, Protocol):
    """A node of the expression graph: `lang.core.tensor.Tensor`, as seen by the modules that it imports."""

    weights: tuple[Any, ...]
    effects: tuple[Any, ...]

    @property
    def application(self) -> OperationLike | None: ...

    @property
    def literal(self) -> Callable[[], Number | Index] | None: ...

    @property
    def initial(self) -> TensorLike | float | None: ...

    @property
    def grad(self) -> TensorLike | None: ...

    @property
    def is_parameter(self) -> bool: ...

    @property
    def is_merged(self) -> bool: ...

    @property
    def is_named(self) -> bool: ...

    @property
    def label(self) -> str: ...

    @property
    def path(self) -> str | None: ...

    @property
    def stream(self) -> str | None: ...

    @property
    def state_access(self) -> Any: ...

    @property
    def accesses(self) -> tuple[Any, ...]: ...

    @property
    def active_operands(self) -> tuple[TensorLike, ...]: ...

    @property
    def origin(self) -> Origin: ...

    @property
    def provenance(self) -> Provenance: ...

    @property
    def shape(self) -> TensorShape: ...

    @property
    def dims(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Precision: ...

    @property
    def handle(self) -> Shape: ...

    @property
    def projections(self) -> Projections: ...

    def value_code(self) -> Iterable[Comp]: ...
    def gradient_code(self) -> Iterable[Comp]: ...
    def value_step(self, reached: Set[Any]) -> Callable[[], Iterable[Comp]]: ...
    def gradient_step(self, reached: Set[Any]) -> Callable[[], Iterable[Comp]]: ...
    def zero_gradient(self) -> Iterable[Assign]: ...
