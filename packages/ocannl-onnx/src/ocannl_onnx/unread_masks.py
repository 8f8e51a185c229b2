"""Masks of Dropout that exporters name and nothing reads: before version 12, ONNX does not define them in inference."""

from __future__ import annotations

from dataclasses import replace

from ocannl_onnx.graph import OnnxGraph


def drop_unread_masks(graph: OnnxGraph) -> OnnxGraph:
    """The graph without the second outputs of Dropout that no node and no output of the graph reads."""
    nodes = tuple(
        replace(node, outputs=node.outputs[:1])
        if node.operator == "Dropout" and graph.used.isdisjoint(node.outputs[1:])
        else node
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes)
