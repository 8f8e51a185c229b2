"""The operators that a model uses and the importer does not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx import defs

from ocannl_onnx.graph import Model, Node, OnnxGraph, domain_of, qualified_name
from ocannl_onnx.importer import schema_of
from ocannl_onnx.registry import is_function, operators
from ocannl_onnx.replacements import replacement


@dataclass(frozen=True, slots=True)
class MissingOperator:
    """An operator that a model uses and the importer does not have, with the names of the nodes."""

    domain: str
    operator: str
    nodes: tuple[str, ...]
    reason: str
    replacement: str

    @property
    def qualified_name(self) -> str:
        return qualified_name(self.domain, self.operator)

    def __str__(self) -> str:
        names = ", ".join(f"`{node}`" for node in self.nodes[:3]) + (", ..." if len(self.nodes) > 3 else "")
        count = f"{len(self.nodes)} node{'s' * (len(self.nodes) > 1)}"
        return f"{self.qualified_name}  {count} ({names}): {self.reason}; replacement: {self.replacement}"


def missing_operators(model: Model) -> list[MissingOperator]:
    """All operators of a model, of its functions and subgraphs, that cannot be imported, in order of appearance."""
    nodes_of: dict[tuple[str, str], list[str]] = {}

    def visit(nodes: Sequence[Node], opsets: Mapping[str, int]) -> None:
        for node in nodes:
            if not _is_importable(node, model, opsets):
                nodes_of.setdefault((node.domain, node.operator), []).append(node.name or next(iter(node.outputs), ""))
            for value in node.attributes.values():
                if isinstance(value, OnnxGraph):
                    visit(value.nodes, opsets)

    visit(model.graph.nodes, model.opsets)
    for function in model.functions.values():
        visit(function.nodes, {**model.opsets, **function.opsets})
    return [
        MissingOperator(domain, operator, tuple(nodes), _reason(operator, domain), replacement(operator, domain))
        for (domain, operator), nodes in nodes_of.items()
    ]


def _is_importable(node: Node, model: Model, opsets: Mapping[str, int]) -> bool:
    key = node.domain, node.operator
    if key in model.functions or key in operators():
        return True
    schema = schema_of(node.operator, node.domain, opsets.get(node.domain, 1))
    return schema is not None and is_function(schema)


def _reason(operator: str, domain: str) -> str:
    if any(schema.name == operator and domain_of(schema.domain) == domain for schema in defs.get_all_schemas()):
        return "no row and no definition as a function"
    return "not an operator of ONNX"
