"""Operators that consist of others: sequences of nodes that runtimes compute faster, and people read better, as one."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl_onnx.export.graph_builder import GraphBuilder, Node


def recognize(builder: GraphBuilder, nodes: Sequence[Node], outputs: Sequence[str], opset: int) -> list[Node]:
    return list(nodes)
