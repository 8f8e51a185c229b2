"""The mapping of operators: one row for each operator, which the importer, the documentation and the checks read.

Third parties add rows by an entry point of the group `ocannl_onnx.operators`: a module, whose import calls `operator`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import onnx

from ocannl_onnx.call import NodeCall
from ocannl_onnx.graph import domain_of, qualified_name

Build = Callable[[NodeCall], Any]
"""Builds the outputs of a node: a value, or a tuple of values for operators with several outputs."""

GROUP = "ocannl_onnx.operators"


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """How an operator is imported.

    `spelling` is the expression of ocannl that it becomes; `restrictions` are the cases that are refused. With
    `folds`, nodes with constant inputs are evaluated by the reference implementation of ONNX, not by the row.
    """

    domain: str
    operator: str
    build: Build
    spelling: str
    restrictions: tuple[str, ...] = ()
    folds: bool = True

    @property
    def name(self) -> str:
        """The operator with its domain, if that is not the standard one."""
        return qualified_name(self.domain, self.operator)

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of the operator set in which ONNX defined or changed the operator."""
        return _versions().get((self.domain, self.operator), ())

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON."""
        return {
            "domain": self.domain,
            "operator": self.operator,
            "versions": list(self.versions),
            "spelling": self.spelling,
            "restrictions": list(self.restrictions),
        }


@cache
def _versions() -> Mapping[tuple[str, str], tuple[int, ...]]:
    versions: dict[tuple[str, str], list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        versions.setdefault((domain_of(schema.domain), schema.name), []).append(schema.since_version)
    return {key: tuple(sorted(set(numbers))) for key, numbers in versions.items()}


_ROWS: dict[tuple[str, str], OperatorRow] = {}


def operator(
    *names: str, spelling: str, domain: str = "", restrictions: tuple[str, ...] = (), folds: bool = True
) -> Callable[[Build], Build]:
    """Registers the row of the operators of these names.

        @operator("Relu", spelling="oc.relu(x)")
        def relu(call):
            return oc.relu(call.tensor(0))
    """

    def register(build: Build) -> Build:
        for name in names:
            _ROWS[domain_of(domain), name] = OperatorRow(domain_of(domain), name, build, spelling, restrictions, folds)
        return build

    return register


@cache
def operators() -> Mapping[tuple[str, str], OperatorRow]:
    """All rows by domain and operator, those of other distributions included; theirs take precedence."""
    package = importlib.import_module(f"{__package__}.operators")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        point.load()
    return _ROWS


def operator_table() -> list[OperatorRow]:
    """The rows of all operators, and of those that ONNX defines as functions of others, by domain and name."""
    rows = dict(operators())
    for schema in onnx.defs.get_all_schemas():
        key = domain_of(schema.domain), schema.name
        if key not in rows and is_function(schema):
            rows[key] = OperatorRow(*key, _no_build, "its definition as a function in ONNX")
    return [rows[key] for key in sorted(rows)]


def is_function(schema: Any) -> bool:
    """Whether ONNX defines an operator as a function of other operators."""
    return bool(schema.has_function or schema.has_context_dependent_function)


def _no_build(call: NodeCall) -> Any:
    raise NotImplementedError(call.node.operator)
