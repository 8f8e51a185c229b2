"""A validator for the keywords of JSON Schema that this project uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

TYPES: Mapping[str, Any] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
    "number": (int, float),
}  # fmt: skip
KEYWORDS = {
    "$schema", "title", "description", "$defs", "$ref", "const", "type", "properties", "required", "items",
    "additionalProperties",
}  # fmt: skip


def violations(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], path: str = "$") -> Iterator[str]:
    """The places where a value does not match a schema. Raises: ValueError for an unsupported keyword."""
    if unknown := schema.keys() - KEYWORDS:
        raise ValueError(f"{path}: keywords {unknown}")
    if "$ref" in schema:
        yield from violations(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, path)
    if "const" in schema and value != schema["const"]:
        yield f"{path}: {value!r} is not {schema['const']!r}"
    if "type" in schema:
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(_has_type(value, kind) for kind in kinds):
            yield f"{path}: {value!r} is not of type {' or '.join(kinds)}"
            return
    if isinstance(value, dict):
        properties, extra = schema.get("properties", {}), schema.get("additionalProperties", True)
        yield from (f"{path}: no member {name}" for name in schema.get("required", []) if name not in value)
        for name, member in value.items():
            inner = properties.get(name, extra)
            if inner is False:
                yield f"{path}: unknown member {name}"
            elif inner is not True:
                yield from violations(member, inner, root, f"{path}.{name}")
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from violations(item, schema["items"], root, f"{path}[{number}]")


def _has_type(value: Any, kind: str) -> bool:
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
