"""Graphs of ONNX in construction: nodes in order, equal nodes once, and constants by content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]


@dataclass(slots=True, eq=False)
class OnnxNode:
    """An operator with its inputs and outputs by name; an attribute may be a `Body`."""

    operator: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]


@dataclass(slots=True, eq=False)
class Body:
    """The graph of a loop or of a branch. Values of enclosing graphs are visible in it."""

    name: str
    nodes: list[OnnxNode]
    inputs: Sequence[tuple[str, int, tuple[int, ...]]]
    outputs: Sequence[tuple[str, int, tuple[int, ...]]]


@dataclass(slots=True)
class Constants:
    """The arrays of a model by name, shared by all its graphs."""

    arrays: dict[str, Array] = field(default_factory=dict)
    _names: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def name_of(self, array: Array, name: str) -> str:
        """The name of a constant with these elements."""
        content = (str(array.dtype), array.shape, array.tobytes())
        if content not in self._names:
            self._names[content] = name
            self.arrays[name] = array
        return self._names[content]


class OnnxBuilder:
    """Appends nodes to a graph. A builder of a body shares names and constants with that of the enclosing graph."""

    def __init__(self, parent: OnnxBuilder | None = None) -> None:
        self.nodes: list[OnnxNode] = []
        self.parent = parent
        self.constants: Constants = Constants() if parent is None else parent.constants
        self.labels: dict[str, str] = {} if parent is None else parent.labels
        self.widened: dict[tuple[str, Any], str] = {} if parent is None else dict(parent.widened)
        """Of the values that are converted from a narrower type: the values in this type."""
        self.dims: dict[str, tuple[int, ...]] = {} if parent is None else dict(parent.dims)
        """The sizes of values, as far as known."""
        self.terms: dict[str, int] = {} if parent is None else parent.terms
        """The number of terms of sums."""
        self.reshaped_from: dict[str, str] = {} if parent is None else dict(parent.reshaped_from)
        self._numbers: Iterator[int] = count() if parent is None else parent._numbers
        self._values: dict[tuple[Any, ...], str] = {}

    def fresh(self, name: str) -> str:
        """A name of a value that no other value has; labels replace these names in the end."""
        return f"#{name}{next(self._numbers)}"

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Appends a node with one output, and returns the name of this; an equal node is used again."""
        key = (operator, inputs, tuple(sorted((name, repr(value)) for name, value in attributes.items())))
        value_name = self._lookup(key)
        if value_name is None:
            value_name = self._values[key] = self.fresh(operator)
            self.nodes.append(OnnxNode(operator, list(inputs), [value_name], attributes))
        return value_name

    def nodes_of(self, operator: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """Appends a node with several outputs."""
        names = [self.fresh(operator) for _ in range(outputs)]
        self.nodes.append(OnnxNode(operator, list(inputs), names, attributes))
        return names

    def constant(self, array: Any) -> str:
        content = np.ascontiguousarray(array).reshape(np.shape(array))
        return self.constants.name_of(content, self.fresh("constant"))

    def integers(self, *values: int) -> str:
        """A vector of sizes, axes or positions."""
        return self.constant(np.array(values, np.int64))

    def array_of(self, name: str) -> Array | None:
        """The elements of a constant, None for values that are computed."""
        return self.constants.arrays.get(name)

    def label(self, value: str, name: str) -> None:
        """Names a value after a tensor, unless it has a name."""
        if value.startswith("#"):
            self.labels.setdefault(value, name)

    def _lookup(self, key: tuple[Any, ...]) -> str | None:
        if key in self._values:
            return self._values[key]
        return None if self.parent is None else self.parent._lookup(key)


def used_names(nodes: Sequence[OnnxNode]) -> set[str]:
    """All values that nodes read, also in bodies."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.inputs)
        for value in node.attributes.values():
            if isinstance(value, Body):
                names |= used_names(value.nodes) | {name for name, _, _ in value.outputs}
    return names


def live_nodes(nodes: Sequence[OnnxNode], outputs: Sequence[str]) -> list[OnnxNode]:
    """The nodes that compute outputs, in order; in bodies as well."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.isdisjoint(node.outputs):
            continue
        for value in node.attributes.values():
            if isinstance(value, Body):
                value.nodes = live_nodes(value.nodes, [name for name, _, _ in value.outputs])
        wanted |= used_names([node])
        kept.append(node)
    return kept[::-1]


def graph_proto(
    name: str,
    nodes: Sequence[OnnxNode],
    inputs: Sequence[tuple[str, int, tuple[int, ...]]],
    outputs: Sequence[tuple[str, int, tuple[int, ...]]],
    arrays: Mapping[str, Array],
) -> onnx.GraphProto:
    """The graph as a message."""
    return helper.make_graph(
        [_node_proto(node) for node in nodes],
        name,
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        [numpy_helper.from_array(array, key) for key, array in arrays.items()],
    )


def _node_proto(node: OnnxNode) -> onnx.NodeProto:
    attributes = {
        key: graph_proto(value.name, value.nodes, value.inputs, value.outputs, {}) if isinstance(value, Body) else value
        for key, value in node.attributes.items()
    }
    return helper.make_node(node.operator, node.inputs, node.outputs, name=node.outputs[0], **attributes)


def rename(nodes: Sequence[OnnxNode], names: Mapping[str, str]) -> None:
    """Replaces names of values, also in bodies."""
    for node in nodes:
        node.inputs = [names.get(name, name) for name in node.inputs]
        node.outputs = [names.get(name, name) for name in node.outputs]
        for body in node.attributes.values():
            if isinstance(body, Body):
                rename(body.nodes, names)
                body.inputs = [(names.get(name, name), *declaration) for name, *declaration in body.inputs]  # type: ignore[misc]
                body.outputs = [(names.get(name, name), *declaration) for name, *declaration in body.outputs]  # type: ignore[misc]
