"""Finished graphs: layouts of constants computed, unused nodes dropped, values named after tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ocannl_onnx.exporting.graph_builder import Array, Body, OnnxBuilder, OnnxNode

MAX_COPIED_CELLS = 1 << 16
"""Of a constant that is stored in several layouts."""


def fold_layouts(builder: OnnxBuilder, nodes: list[OnnxNode]) -> list[OnnxNode]:
    """Stores constants in the layout that their readers need, if they are read in no other or are small."""
    return _folded(builder, nodes, _readers(nodes))


def _readers(nodes: Iterable[OnnxNode]) -> Counter[str]:
    """How often values are read, also in bodies."""
    readers: Counter[str] = Counter()
    for node in nodes:
        readers.update(node.inputs)
        for body in node.attributes.values():
            if isinstance(body, Body):
                readers += _readers(body.nodes)
    return readers


def _folded(builder: OnnxBuilder, nodes: list[OnnxNode], readers: Counter[str]) -> list[OnnxNode]:
    arrays, labels = builder.constants.arrays, builder.labels
    kept = []
    for node in nodes:
        for body in node.attributes.values():
            if isinstance(body, Body):
                body.nodes = _folded(builder, body.nodes, readers)
        source = arrays.get(node.inputs[0]) if node.inputs else None
        function = _FUNCTIONS.get(node.operator)
        parameters = [arrays.get(name) for name in node.inputs[1:]]
        if source is None or function is None or any(array is None for array in parameters):
            kept.append(node)
            continue
        if readers[node.inputs[0]] > 1 and source.size > MAX_COPIED_CELLS:
            kept.append(node)
            continue
        result = function(source, *parameters, **node.attributes)
        arrays[node.outputs[0]] = np.ascontiguousarray(result).reshape(result.shape)
        if node.inputs[0] in labels:
            labels[node.outputs[0]] = labels[node.inputs[0]]
    return kept


def _reshape(x: Array, dims: Array, **_: Any) -> Array:
    return x.reshape([int(n) for n in dims])


def _unsqueeze(x: Array, axes: Array) -> Array:
    return np.expand_dims(x, tuple(int(n) for n in axes))


def _squeeze(x: Array, axes: Array) -> Array:
    return np.squeeze(x, tuple(int(n) for n in axes))


def _transpose(x: Array, perm: Iterable[int]) -> Array:
    return x.transpose(list(perm))


_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "Reshape": _reshape, "Squeeze": _squeeze, "Transpose": _transpose, "Unsqueeze": _unsqueeze,
}  # fmt: skip


def unique_names(builder: OnnxBuilder, values: Iterable[str], taken: set[str]) -> dict[str, str]:
    """Names of values: labels of tensors, numbered where several have the same, otherwise operators with a number."""
    names: dict[str, str] = {}
    count: Counter[str] = Counter()
    for value in values:
        if value in names or not value.startswith("#"):
            continue
        label = builder.labels.get(value) or value.removeprefix("#").rstrip("0123456789").lower()
        name, number = label, count[label]
        while name in taken or (number == 0 and name != label):
            number += 1
            name = f"{label}_{number + 1}"
        count[label] = number
        taken.add(name)
        names[value] = name
    return names


def all_values(nodes: Iterable[OnnxNode]) -> Iterable[str]:
    """The values that nodes compute, and the inputs of bodies, in order."""
    for node in nodes:
        for body in node.attributes.values():
            if isinstance(body, Body):
                yield from (name for name, *_ in body.inputs)
                yield from all_values(body.nodes)
        yield from node.outputs
