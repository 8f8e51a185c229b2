"""Operators that consist of others: patterns of nodes that runtimes compute faster, and people read better, as one.

A pattern is a function of a node, whose operands it looks up; it returns the node that takes the place of this one.
What the replaced node alone has used is dropped afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ocannl_onnx.exporting.graph_builder import Array, Body, OnnxBuilder, OnnxNode

REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")


class Patterns:
    """The nodes of a graph by their outputs, in which patterns are replaced."""

    def __init__(self, builder: OnnxBuilder, nodes: Sequence[OnnxNode], outer: dict[str, OnnxNode]) -> None:
        self.builder = builder
        self.nodes = list(nodes)
        self.producers = {**outer, **{name: node for node in nodes for name in node.outputs}}

    def run(self) -> list[OnnxNode]:
        """The nodes after all replacements, in order."""
        for number, node in enumerate(self.nodes):
            for value in node.attributes.values():
                if isinstance(value, Body):
                    value.nodes = Patterns(self.builder, value.nodes, self.producers).run()
            for pattern in PATTERNS.get(node.operator, ()):
                replacement = pattern(self, self.nodes[number])
                if replacement is not None:
                    replacement.outputs = node.outputs
                    self.nodes[number] = self.producers[node.outputs[0]] = replacement
                    break
        return self.nodes

    def producer(self, value: str, *operators: str) -> OnnxNode | None:
        node = self.producers.get(value)
        return node if node is not None and node.operator in operators else None

    def array(self, value: str) -> Array | None:
        return self.builder.array_of(value)

    def scalar(self, value: str) -> float | None:
        """The number that a constant without axes is. None is no number: two values without one are not equal."""
        array = self.array(value)
        return float(array) if array is not None and array.ndim == 0 else None

    def axes(self, node: OnnxNode) -> list[int] | None:
        array = self.array(node.inputs[1]) if len(node.inputs) > 1 else None
        return None if array is None else [int(axis) for axis in array]

    def dims(self, value: str) -> tuple[int, ...] | None:
        return self.builder.dims.get(value)

    def reduction_along(self, value: str, operator: str, operand: str) -> list[int] | None:
        """The axes, if a value is a reduction of the operand that is broadcast to it."""
        node = self.producer(value, operator)
        if node is None or node.inputs[0] != operand:
            return None
        axes = self.axes(node)
        return axes if axes is not None and (node.attributes.get("keepdims") == 1 or axes == [0]) else None

    def operands(self, node: OnnxNode, is_second: Callable[[str], bool]) -> tuple[str, str] | None:
        """The operands of a commutative node: one that is not `is_second`, and one that is."""
        left, right = node.inputs
        if is_second(right):
            return left, right
        return (right, left) if is_second(left) else None

    def vector(self, value: str, rank: int, axis: int) -> str | None:
        """A constant that varies along one axis only, as a vector."""
        array = self.array(value)
        if array is None or array.ndim != rank - axis or array.size != array.shape[:1][0]:
            return None
        if array.ndim == 1:
            return value
        name = self.builder.fresh("vector")
        self.builder.constants.arrays[name] = array.reshape(-1)
        if value in self.builder.labels:
            self.builder.labels[name] = self.builder.labels[value]
        return name


def _kept_axes(p: Patterns, node: OnnxNode) -> OnnxNode | None:
    """Unsqueeze of a reduction: the reduction with axes of size 1."""
    source = p.producer(node.inputs[0], *REDUCTIONS)
    if source is None or source.attributes.get("keepdims") or p.axes(source) != p.axes(node):
        return None
    return OnnxNode(source.operator, source.inputs, [], {**source.attributes, "keepdims": 1})


def _mean(p: Patterns, node: OnnxNode) -> OnnxNode | None:
    source, count = p.producer(node.inputs[0], "ReduceSum"), p.scalar(node.inputs[1])
    if source is None or count is None or count != p.builder.terms.get(source.outputs[0]):
        return None
    return OnnxNode("ReduceMean", source.inputs, [], source.attributes)


def _average(p: Patterns, node: OnnxNode) -> OnnxNode | None:
    """A sum of windows, which is an average multiplied by a size, divided by this size."""
    product, size = p.producer(node.inputs[0], "Mul"), p.scalar(node.inputs[1])
    pair = None if product is None or size is None else p.operands(product, lambda value: p.scalar(value) == size)
    source = None if pair is None else p.producer(pair[0], "AveragePool")
    return None if source is None else OnnxNode(source.operator, source.inputs, [], source.attributes)


def _softmax(p: Patterns, node: OnnxNode) -> OnnxNode | None:
    exponential = p.producer(node.inputs[0], "Exp")
    axes = p.reduction_along(node.inputs[1], "ReduceSum", node.inputs[0])
    shifted = None if exponential is None else p.producer(exponential.inputs[0], "Sub")
    if shifted is None or axes is None or len(axes) != 1:
        return None
    x, largest = shifted.inputs
    if p.reduction_along(largest, "ReduceMax", x) != axes:
        return None
    return OnnxNode("Softmax", [x], [], {"axis": axes[0]})


def _sigmoid(p: Patterns, node: OnnxNode) -> OnnxNode | None:
    total = p.producer(node.inputs[0], "Add")
    pair = None if total is None else p.operands(total, lambda value: p.scalar(value) == 1)
    exponential = None if pair is None else p.producer(pair[0], "Exp")
    negated = None if exponential is None else p.producer(exponential.inputs[0], "Neg")
    return None if negated is None else OnnxNode("Sigmoid", negated.inputs, [], {})


def _normalization(p: Patterns, node: OnnxNode) -> OnnxNode | None:
    """`(x - mean) / sqrt(variance + epsilon) * scale + bias`, of the batch with constant moments, or of a layer."""
    pair = p.operands(node, lambda value: p.array(value) is not None)
    scaled = None if pair is None else p.producer(pair[0], "Mul")
    inner = None if scaled is None else p.operands(scaled, lambda value: p.array(value) is not None)
    normalized = None if inner is None else p.producer(inner[0], "Mul")
    if pair is None or inner is None or normalized is None:
        return None
    for centered, inverse in (normalized.inputs, normalized.inputs[::-1]):
        difference, inverse_deviation = p.producer(centered, "Sub"), _inverse_deviation(p, inverse)
        dims = p.dims(node.outputs[0])
        if difference is None or inverse_deviation is None or dims is None:
            continue
        deviation, axes = inverse_deviation
        replacement = None
        if axes == _axes_of_images(dims):
            scale = p.vector(inner[1], len(dims), 1)
            replacement = _batch_normalization(p, difference, deviation, scale, pair[1], dims)
        if replacement is None:
            replacement = _layer_normalization(p, difference, deviation, axes, inner[1], pair[1], dims)
        if replacement is not None:
            return replacement
    return None


def _scaled_by_deviation(p: Patterns, node: OnnxNode) -> OnnxNode | None:
    """`(x - mean) * (scale / sqrt(variance + epsilon)) + bias`, of the batch, with constant moments."""
    pair = p.operands(node, lambda value: p.array(value) is not None)
    product, dims = None if pair is None else p.producer(pair[0], "Mul"), p.dims(node.outputs[0])
    if pair is None or product is None or dims is None:
        return None
    for centered, factor in (product.inputs, product.inputs[::-1]):
        difference, expanded = p.producer(centered, "Sub"), p.producer(factor, "Unsqueeze")
        quotient = None if expanded is None else p.producer(expanded.inputs[0], "Div")
        deviation = None if quotient is None else _deviation(p, quotient.inputs[1])
        scale = None if quotient is None else p.array(quotient.inputs[0])
        if difference is None or quotient is None or deviation is None or scale is None or scale.ndim != 1:
            continue
        if expanded is not None and p.axes(expanded) == _axes_of_images(dims):
            return _batch_normalization(p, difference, deviation, quotient.inputs[0], pair[1], dims)
    return None


def _axes_of_images(dims: Sequence[int]) -> list[int]:
    """The axes of size 1 of a vector along axis 1."""
    return list(range(1, len(dims) - 1))


def _inverse_deviation(p: Patterns, value: str) -> tuple[tuple[str, float], list[int] | None] | None:
    """The variance and epsilon of `1 / sqrt(variance + epsilon)`, and the axes of size 1 that were inserted."""
    expanded = p.producer(value, "Unsqueeze")
    inverse = p.producer(value if expanded is None else expanded.inputs[0], "Reciprocal")
    deviation = None if inverse is None else _deviation(p, inverse.inputs[0])
    return None if deviation is None else (deviation, [] if expanded is None else p.axes(expanded))


def _deviation(p: Patterns, value: str) -> tuple[str, float] | None:
    """The variance and epsilon of `sqrt(variance + epsilon)`."""
    root = p.producer(value, "Sqrt")
    total = None if root is None else p.producer(root.inputs[0], "Add")
    pair = None if total is None else p.operands(total, lambda value: p.scalar(value) is not None)
    if pair is None:
        return None
    epsilon = p.scalar(pair[1])
    return None if epsilon is None else (pair[0], epsilon)


def _batch_normalization(
    p: Patterns, difference: OnnxNode, deviation: tuple[str, float], scale: str | None, bias: str, dims: Sequence[int]
) -> OnnxNode | None:
    """BatchNormalization with vectors along axis 1 of an image of size `dims`."""
    variance, (x, mean) = p.array(deviation[0]), difference.inputs
    vectors = [scale, p.vector(bias, len(dims), 1), p.vector(mean, len(dims), 1), deviation[0]]
    if len(dims) < 2 or variance is None or variance.dtype != np.float32 or p.dims(x) != tuple(dims):
        return None
    inputs = [vector for vector in vectors if vector is not None and _is_vector(p, vector, dims[1])]
    if len(inputs) != len(vectors):
        return None
    return OnnxNode("BatchNormalization", [x, *inputs], [], {"epsilon": deviation[1]})


def _is_vector(p: Patterns, value: str, size: int) -> bool:
    array = p.array(value)
    return array is not None and array.shape == (size,)


def _layer_normalization(
    p: Patterns,
    difference: OnnxNode,
    deviation: tuple[str, float],
    axes: list[int] | None,
    scale: str,
    bias: str,
    dims: Sequence[int],
) -> OnnxNode | None:
    """LayerNormalization with vectors along the last axis; `axes` of the variance have size 1."""
    (x, mean), last = difference.inputs, [len(dims) - 1]
    if p.reduction_along(mean, "ReduceMean", x) != last or p.dims(x) != tuple(dims):
        return None
    variance = p.producer(deviation[0], "ReduceMean")
    square = None if variance is None else p.producer(variance.inputs[0], "Mul")
    if variance is None or square is None or set(square.inputs) != set(difference.outputs) or p.axes(variance) != last:
        return None
    if axes != ([] if variance.attributes.get("keepdims") or len(dims) == 1 else last):
        return None
    if not _is_vector(p, scale, dims[-1]) or not _is_vector(p, bias, dims[-1]):
        return None
    return OnnxNode("LayerNormalization", [x, scale, bias], [], {"axis": -1, "epsilon": deviation[1]})


Pattern = Callable[[Patterns, OnnxNode], OnnxNode | None]

PATTERNS: dict[str, tuple[Pattern, ...]] = {
    "Unsqueeze": (_kept_axes,),
    "Div": (_mean, _average, _softmax),
    "Reciprocal": (_sigmoid,),
    "Add": (_normalization, _scaled_by_deviation),
}
"""The patterns of a node with this operator, in order."""


def recognize(builder: OnnxBuilder, nodes: Sequence[OnnxNode]) -> list[OnnxNode]:
    """The nodes of a graph and of its bodies, with operators of ONNX in place of what they consist of."""
    return Patterns(builder, nodes, {}).run()
