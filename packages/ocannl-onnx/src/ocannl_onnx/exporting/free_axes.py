"""Models with free axes: the model is exported at several sizes, and what differs becomes computed from the sizes of
inputs.

The graphs must be the same up to constants, and the constants must be those of `size_polynomials` at all sizes. A
model that is not uniform in the sizes is therefore refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from onnx import numpy_helper

import ocannl as oc
from ocannl.base.errors import OcannlError
from ocannl_onnx.errors import UnsupportedModel
from ocannl_onnx.exporting.graph_builder import Array, OnnxBuilder, graph_proto
from ocannl_onnx.exporting.size_polynomials import DependsOnSizes, SizePolynomials, Sizes, sample_sizes

FreeAxes = Mapping[str, Mapping[int, str]]
MAX_FREE_SIZES = 3
_SIZES = (61, 67, 68, 131)
"""Sizes of free axes: two primes, because sizes that are equal or divide each other are written in other ways; one near
and one far, where functions such as `n // 8` and `min(n, 100)` differ from polynomials."""


def declared_sizes(dynamic: Any, inputs: Mapping[str, oc.Tensor]) -> dict[str, tuple[str, int]]:
    """The input and the number of an axis, for each name of a size. Raises: ArgumentError."""
    fix = '\n  fix  name the free axes of inputs by their numbers: dynamic={"x": {0: "batch"}}'
    if not isinstance(dynamic, Mapping) or not all(isinstance(axes, Mapping) for axes in dynamic.values()):
        raise oc.ArgumentError(f"`dynamic` names the free axes of inputs, and is not {dynamic!r}"[:200] + fix)
    declared: dict[str, tuple[str, int]] = {}
    for name, axes in dynamic.items():
        if name not in inputs:
            listed = ", ".join(f"`{label}`" for label in inputs) or "none"
            raise oc.ArgumentError(f"{name!r} is not an input; inputs: {listed}"[:300] + fix)
        dims = inputs[name].dims
        for axis, size in axes.items():
            if isinstance(axis, bool) or not isinstance(axis, int) or not 0 <= axis < len(dims):
                raise oc.ArgumentError(f"the input {name!r} with sizes {list(dims)} has no axis {axis!r}"[:200] + fix)
            if not isinstance(size, str) or not size.isidentifier():
                raise oc.ArgumentError(f"{size!r} is not the name of a size"[:200] + fix)
            first, first_axis = declared.setdefault(size, (name, axis))
            if (size_before := inputs[first].dims[first_axis]) != dims[axis]:
                raise oc.ArgumentError(f"axes with the name {size!r} have sizes {size_before} and {dims[axis]}{fix}")
    if not 1 <= len(declared) <= MAX_FREE_SIZES:
        raise oc.ArgumentError(f"a model has from 1 to {MAX_FREE_SIZES} free sizes, not {len(declared)}{fix}")
    return declared


def resized(t: oc.Tensor, axes: Mapping[int, str], sizes: Sizes) -> oc.Tensor:
    """A placeholder like `t` with other sizes of some axes."""
    rows, number = [], 0
    for row in (t.shape.batch, t.shape.output, t.shape.input):
        rows.append([sizes[axes[n]] if n in axes else axis.size for n, axis in enumerate(row, number)])
        number += len(row)
    return oc.placeholder(t.label, batch=rows[0], output=rows[1], input=rows[2], dtype=t.dtype)


def with_free_axes(
    export: Callable[[Mapping[str, oc.Tensor]], onnx.ModelProto],
    inputs: Mapping[str, oc.Tensor],
    dynamic: FreeAxes,
) -> onnx.ModelProto:
    """The model that `export` returns for inputs of any size of the free axes. Raises: UnsupportedModel."""
    declared = declared_sizes(dynamic, inputs)
    smaller = {size: max(1, inputs[name].dims[axis] - 1) for size, (name, axis) in declared.items()}
    _sample(export, inputs, dynamic, smaller)  # an error if steps or windows were counted at the size of a placeholder
    samples = sample_sizes(list(declared), *_SIZES)
    models = [_sample(export, inputs, dynamic, sizes) for sizes in samples]
    try:
        return _Generalization(models, samples, declared).model()
    except DependsOnSizes as reason:
        free = ", ".join(f"`{name}`" for name in declared)
        raise UnsupportedModel(f"the model is not the same for all sizes {free}: {reason}", [str(reason)]) from None


def _sample(
    export: Callable[[Mapping[str, oc.Tensor]], onnx.ModelProto],
    inputs: Mapping[str, oc.Tensor],
    dynamic: FreeAxes,
    sizes: Sizes,
) -> onnx.ModelProto:
    placeholders = {
        name: resized(t, dynamic[name], sizes) if name in dynamic else t for name, t in inputs.items()
    }
    try:
        return export(placeholders)
    except (UnsupportedModel, oc.ArgumentError):
        raise
    except OcannlError as error:
        text = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise UnsupportedModel(f"the model does not exist for {text}: {error}", [str(error)]) from error


class _Generalization:
    """One model in place of those of several sizes, the first of which is changed."""

    def __init__(
        self, models: Sequence[onnx.ModelProto], samples: Sequence[Sizes], declared: Mapping[str, tuple[str, int]]
    ) -> None:
        self.models = models
        self.builder = OnnxBuilder()
        self.sizes = SizePolynomials(self.builder, samples, declared)
        self.arrays: list[dict[str, Array]] = [
            {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer} for model in models
        ]
        self.names: list[dict[str, str]] = [{} for _ in models]
        """Of the values of each model: the values of the first one."""
        self.kept: set[str] = set()

    def model(self) -> onnx.ModelProto:
        """Raises: DependsOnSizes."""
        model = self.models[0]
        graph = model.graph
        self._graph([m.graph for m in self.models])
        taken = {value.name for value in (*graph.input, *graph.output)} | self.names_of(graph)
        names = {name: self._unique(f"size_{name[1:].lower()}", taken) for name in self._computed()}
        self._rename(graph, names)
        for node in self.builder.nodes:
            node.inputs = [names.get(name, name) for name in node.inputs]
            node.outputs = [names.get(name, name) for name in node.outputs]
        arrays = {names[name]: array for name, array in self.builder.constants.arrays.items()}
        computed = graph_proto("sizes", self.builder.nodes, (), (), arrays)
        initializers = [tensor for tensor in graph.initializer if tensor.name in self.kept]
        nodes = list(graph.node)
        del graph.initializer[:], graph.node[:]
        graph.initializer.extend([*initializers, *computed.initializer])
        graph.node.extend([*computed.node, *nodes])
        return model

    def _computed(self) -> list[str]:
        return [*self.builder.constants.arrays, *(name for node in self.builder.nodes for name in node.outputs)]

    def names_of(self, graph: onnx.GraphProto) -> set[str]:
        names = {name for node in graph.node for name in (*node.input, *node.output)}
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    names |= self.names_of(attribute.g) | {value.name for value in attribute.g.input}
        return names

    def _unique(self, name: str, taken: set[str]) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    def _rename(self, graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
        for node in graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    self._rename(attribute.g, names)

    # --- graphs ---

    def _graph(self, graphs: Sequence[onnx.GraphProto]) -> None:
        for values in _together("inputs", [graph.input for graph in graphs]):
            self._declaration(values)
        for nodes in _together("operators", [graph.node for graph in graphs]):
            self._node(nodes)
        for values in _together("outputs", [graph.output for graph in graphs]):
            self._same_values([value.name for value in values], values[0].name)
            self._declaration(values)

    def _declaration(self, values: Sequence[onnx.ValueInfoProto]) -> None:
        for value, names in zip(values, self.names, strict=True):
            names[value.name] = values[0].name
        for dims in _together("axes", [value.type.tensor_type.shape.dim for value in values]):
            size = self.sizes.text([dim.dim_value for dim in dims])
            if isinstance(size, str):
                dims[0].dim_param = size

    def _node(self, nodes: Sequence[onnx.NodeProto]) -> None:
        first = nodes[0]
        if len({(node.domain, node.op_type) for node in nodes}) > 1:
            raise DependsOnSizes(f"`{first.name}` is {' or '.join(sorted({node.op_type for node in nodes}))}")
        operands = _together(f"operands of `{first.name}`", [node.input for node in nodes])
        try:
            renamed = [self._operand(n, first.op_type, operand) for n, operand in enumerate(operands)]
            for attributes in _together("attributes", [sorted(n.attribute, key=lambda a: a.name) for n in nodes]):
                if attributes[0].type == onnx.AttributeProto.GRAPH:
                    self._graph([attribute.g for attribute in attributes])
                elif any(attribute != attributes[0] for attribute in attributes):
                    raise DependsOnSizes(f"`{attributes[0].name}` depends on sizes, and is an attribute of ONNX")
        except DependsOnSizes as reason:
            label = f"`{first.name}` ({first.op_type})"
            raise DependsOnSizes(str(reason) if " (" in str(reason) else f"{label}: {reason}") from None
        first.input[:] = renamed
        for outputs in _together("outputs", [node.output for node in nodes]):
            for name, names in zip(outputs, self.names, strict=True):
                names[name] = outputs[0]

    def _operand(self, number: int, operator: str, names: Sequence[str]) -> str:
        arrays = [arrays.get(name) for arrays, name in zip(self.arrays, names, strict=True)]
        constants = [array for array in arrays if array is not None]
        if not constants:
            self._same_values(names, names[0])
            return names[0]
        if len(constants) != len(names):
            raise DependsOnSizes("an operand is constant for some sizes")
        if all(array is constants[0] or _are_equal(array, constants[0]) for array in constants):
            self.kept.add(names[0])
            return names[0]
        is_shape = operator == "Reshape" and number == 1
        return self.sizes.shape(constants) if is_shape else self.sizes.value(constants)

    def _same_values(self, names: Sequence[str], first: str) -> None:
        for name, first_names in zip(names, self.names, strict=True):
            if first_names.get(name, name) != first:
                raise DependsOnSizes(f"reads `{first_names.get(name, name)}` instead of `{first}` for some sizes")


def _together(noun: str, lists: Sequence[Any]) -> list[Any]:
    """The elements of several lists by position. Raises: DependsOnSizes."""
    if len({len(items) for items in lists}) > 1:
        raise DependsOnSizes(f"the number of {noun} depends on sizes")
    return list(zip(*lists, strict=True))


def _are_equal(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
