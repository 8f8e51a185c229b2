"""A node with the values of its inputs, as the functions of the rows receive it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

import ocannl as oc
from ocannl_onnx.element_types import element_type_of_array, precision_of
from ocannl_onnx.errors import UnsupportedModel
from ocannl_onnx.graph import Node, OnnxGraph
from ocannl_onnx.values import Array, Initializer, StaticArray, Value, as_tensor, check_type, shape_of, static_array

_REQUIRED: Any = object()


class Importer(Protocol):
    """The importer of the graph around a node."""

    def constant(self, call: NodeCall, position: int) -> Array: ...

    def subgraph(self, call: NodeCall, graph: OnnxGraph, arguments: Sequence[Value]) -> list[Value]: ...

    def needs_constant(self, call: NodeCall, reason: str) -> NoReturn: ...


class NodeCall:
    """One application of an operator: inputs by position, attributes by name, the version of the operator set."""

    def __init__(self, node: Node, version: int, values: Sequence[Value], importer: Importer) -> None:
        self.node = node
        self.version = version
        self.values = values
        self.importer = importer

    def __len__(self) -> int:
        return len(self.values)

    @property
    def outputs(self) -> int:
        """The number of outputs that the node declares."""
        return len(self.node.outputs)

    def uses(self, output: int) -> bool:
        """Whether the node names an output."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output])

    def has(self, position: int) -> bool:
        return position < len(self.values) and self.values[position] is not None

    def value(self, position: int) -> Value:
        """An input; None when it is omitted."""
        return self.values[position] if position < len(self.values) else None

    def tensor(self, position: int) -> oc.Tensor:
        """An input as a tensor. Raises: UnsupportedModel when it is omitted or no tensor."""
        value = self.value(position)
        if value is None or isinstance(value, list):
            self.refuse(f"input {position} is {'omitted' if value is None else 'a sequence'}")
        return as_tensor(value)

    def optional(self, position: int) -> oc.Tensor | None:
        return self.tensor(position) if self.has(position) else None

    def tensors(self) -> list[oc.Tensor]:
        return [self.tensor(position) for position in range(len(self.values))]

    def shape(self, position: int) -> tuple[int, ...]:
        return shape_of(self.value(position)) if self.has(position) else self.tensor(position).dims

    def dtype(self, position: int) -> Any:
        """The data type of an input. Raises: UnsupportedModel for types that tensors cannot have."""
        array = static_array(self.value(position))
        if array is None:
            return self.tensor(position).dtype
        element_type = element_type_of_array(array)
        check_type(element_type, self.node.inputs[position])
        return precision_of(element_type)

    def static(self, position: int) -> Array | None:
        """The values of an input that is known while importing, or None."""
        return static_array(self.value(position))

    def constant(self, position: int) -> Array:
        """The values of an input that decides sizes. Raises: NeedsConstant when it depends on inputs of the model."""
        value = self.value(position)
        if isinstance(value, StaticArray | Initializer):
            return value.array
        if value is None or isinstance(value, list):
            self.refuse(f"input {position} is {'omitted' if value is None else 'a sequence'}")
        return self.importer.constant(self, position)

    def integers(self, position: int) -> list[int]:
        """A constant input as a flat list of integers."""
        return [int(number) for number in np.atleast_1d(self.constant(position)).ravel()]

    def attribute(self, name: str, default: Any = _REQUIRED) -> Any:
        value = self.node.attributes.get(name, default)
        if value is _REQUIRED:
            self.refuse(f"attribute `{name}` is missing")
        return value

    def graph(self, name: str) -> OnnxGraph:
        graph = self.attribute(name)
        if not isinstance(graph, OnnxGraph):
            self.refuse(f"attribute `{name}` is not a graph")
        return graph

    def subgraph(self, name: str, arguments: Sequence[Value] = ()) -> list[Value]:
        """The outputs of the subgraph that an attribute holds, for values of its inputs."""
        return self.importer.subgraph(self, self.graph(name), arguments)

    def needs_constant(self, reason: str) -> NoReturn:
        """Raises: NeedsConstant for the inputs of the model that the node depends on, or UnsupportedModel."""
        self.importer.needs_constant(self, reason)

    def axis(self, default: int | None = None, *, rank: int | None = None, name: str = "axis") -> int:
        """The attribute `axis` as a position from the left."""
        axis = self.attribute(name, default) if default is not None else self.attribute(name)
        return self.position(axis, len(self.shape(0)) if rank is None else rank)

    def position(self, axis: int, rank: int) -> int:
        """An axis from the left. Raises: UnsupportedModel when it is out of range."""
        if not -rank <= axis < max(rank, 1):
            self.refuse(f"axis {axis} is out of range for {rank} axes")
        return axis + rank if axis < 0 else axis

    def axes(self, position: int = 1, default: Sequence[int] | None = None) -> list[int] | None:
        """Axes as an attribute (older versions) or as a constant input, from the left; None when absent."""
        rank = len(self.shape(0))
        if "axes" in self.node.attributes:
            axes = list(self.attribute("axes"))
        elif self.has(position):
            axes = self.integers(position)
        elif default is None:
            return None
        else:
            axes = list(default)
        return [self.position(axis, rank) for axis in axes]

    def require(self, condition: bool, reason: str) -> None:
        if not condition:
            self.refuse(reason)

    def refuse(self, reason: str) -> NoReturn:
        raise UnsupportedModel(reason)
