"""The machine-readable description of operations; `operations.schema.json` is its JSON schema.

A change that removes or redefines a member increments `version`; members may be added without it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from ocannl.base.annotations import kind_text
from ocannl.ir.precision import Precision
from ocannl.lang.declare.catalogue import OperationRow
from ocannl.lang.declare.conditions import Condition
from ocannl.lang.declare.configurations import configuration_of
from ocannl.lang.declare.declaration import Declaration
from ocannl.lang.declare.declaration_sections import SECTION
from ocannl.lang.declare.inputs import Count, Input
from ocannl.lang.declare.peer_names import PeerNames, peer_names
from ocannl.lang.declare.settings import Default, Setting, python_numbers
from ocannl.lang.declare.signature_text import unqualified
from ocannl.lang.declare.texts import expansion

VERSION = 1
NO_GRADIENT = "none."


def operations_json(rows: Sequence[OperationRow]) -> str:
    """The description of the rows, sorted by name."""
    operations = [_operation(row) for row in sorted(rows, key=lambda row: row.call)]
    description = {"version": VERSION, "operations": operations}
    return json.dumps(description, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _operation(row: OperationRow) -> dict[str, Any]:
    declared = row.declaration
    text, *fields = SECTION.split(row.doc)
    sections = {title.lower(): " ".join(body.split()) for title, body in zip(fields[::2], fields[1::2], strict=True)}
    return {
        "name": row.name,
        "call": row.call,
        "namespace": declared.namespace,
        "is_method": row.is_method,
        "summary": row.summary,
        "doc": text.strip(),
        "sections": sections,
        "shapes": [shape for shape in dict.fromkeys(declared.shapes) if isinstance(shape, str)],
        "has_gradient": not sections.get("grad", "").startswith(NO_GRADIENT),
        "inputs": [_input(declared, name, spec) for name, spec in declared.inputs.items()],
        "settings": [_setting(declared, name, setting) for name, setting in declared.settings.items()],
        "outputs": [{"name": n, "type": _type(o.kind), "doc": o.doc} for n, o in declared.results.items()],
        "signatures": [list(signature) for signature in declared.signatures],
        "conditions": [_condition(condition) for condition in declared.where],
        "backend_conditions": [_condition(condition) for condition in declared.backend_where],
        "names": asdict(PeerNames() if row.call.startswith("oc.ops.") else peer_names().get(row.title, PeerNames())),
    }


def _input(declared: Declaration, name: str, spec: Input) -> dict[str, Any]:
    return {
        "name": name,
        "types": spec.kinds,
        "is_list": declared.is_list(name),
        "is_variadic": name == declared.variadic,
        "is_optional": name in declared.optional,
        "count": _count(spec.count),
        "is_differentiable": spec.has_gradient,
        "doc": spec.doc,
    }


def _setting(declared: Declaration, name: str, setting: Setting) -> dict[str, Any]:
    configuration = configuration_of(setting.kind)
    parameter = declared.signature.parameters.get(name)
    fields = configuration.fields.items() if configuration else ()
    return {
        "name": name,
        "type": "" if setting.kind is Any else unqualified(kind_text(setting.kind))[0],
        "is_required": setting.default is inspect.Parameter.empty and not _is_variadic(parameter),
        "is_variadic": _is_variadic(parameter),
        "default": _default(setting.default),
        "count": _count(setting.count),
        "doc": expansion(declared)(setting.doc),
        "fields": [_setting(declared, field, inner) for field, inner in fields],
        "conditions": [_condition(condition) for condition in configuration.where] if configuration else [],
    }


def _is_variadic(parameter: inspect.Parameter | None) -> bool:
    return parameter is not None and parameter.kind is parameter.VAR_KEYWORD


def _default(default: object) -> dict[str, Any]:
    """The default as a JSON value where there is one, with its Python text, or the names that it is computed from."""
    if default is inspect.Parameter.empty:
        return {}
    if isinstance(default, Default):
        return {"follows": list(default.names)}
    return {"value": default, "text": repr(default)} if _is_json_value(default) else {"text": repr(default)}


def _is_json_value(value: object) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    return value is None or isinstance(value, bool | int | str)


def _count(count: Count | None) -> dict[str, int | None] | None:
    return None if count is None else {"minimum": count.minimum, "maximum": count.maximum}


def _type(kind: object) -> str | None:
    """The declared type of a result; None if it follows from the arguments."""
    return kind.name if isinstance(kind, Precision) else kind if isinstance(kind, str) else None


def _condition(condition: Condition | str) -> dict[str, Any]:
    if isinstance(condition, str):
        return {"text": condition, "names": [], "tree": None, "fix": ""}
    names, tree = list(condition.names), _listed(python_numbers(condition.tree))
    return {"text": condition.text, "names": names, "tree": tree, "fix": condition.fix}


def _listed(tree: Any) -> Any:
    """A tree as lists; constants that JSON does not have, such as infinities and data types, as text."""
    if isinstance(tree, tuple | list):
        return [_listed(part) for part in tree]
    return tree if _is_json_value(tree) else str(tree)
