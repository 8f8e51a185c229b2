"""Weights that a file keeps in `Constant` nodes, as PaddlePaddle exports them, as initializers of the graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ocannl_onnx.graph import Node, OnnxGraph

FLOATS = ("float16", "bfloat16", "float32", "float64")
MIN_WEIGHT_CELLS = 8  # arrays with fewer cells are factors, limits, and scales of Resize


def lift_weights(graph: OnnxGraph) -> OnnxGraph:
    """The graph with initializers in place of `Constant` nodes of floating-point arrays that are large enough.

        w = Constant <value = float[4, 3] {...}> ()   =>   an initializer `w`
    """
    arrays = {node: array for node in graph.nodes if (array := _weight(node)) is not None}
    weights = {node.outputs[0]: array for node, array in arrays.items()}
    taken = {*graph.constants, *(declared.name for declared in graph.inputs)}
    if len(weights) < len(arrays) or taken & weights.keys():
        return graph  # the names are not unique, which importing the nodes refuses
    nodes = tuple(node for node in graph.nodes if node not in arrays)
    return replace(graph, nodes=nodes, constants={**graph.constants, **weights})


def _weight(node: Node) -> np.ndarray[Any, Any] | None:
    """The array of a `Constant` node that is a weight, or None."""
    if node.operator != "Constant" or node.domain or not node.outputs or not node.outputs[0]:
        return None
    array = node.attributes.get("value")
    if not isinstance(array, np.ndarray) or array.ndim == 0 or array.size < MIN_WEIGHT_CELLS:
        return None
    return array if str(array.dtype) in FLOATS else None
