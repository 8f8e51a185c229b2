"""Nested containers of tensors: tuples, lists and mappings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Rebuild = Callable[[Iterable[Any]], Any]


def leaves(structure: object) -> list[Any]:
    """The values in nested tuples, lists and mappings, in order. None is a container of nothing."""
    return list(_leaves(structure))


def _leaves(structure: object) -> Iterator[Any]:
    match structure:
        case None:
            pass
        case tuple() | list():
            for item in structure:
                yield from _leaves(item)
        case Mapping():
            for item in structure.values():
                yield from _leaves(item)
        case _:
            yield structure


def rebuilt(structure: object, values: Iterable[Any]) -> Any:
    """A structure with the same containers and other values."""
    return _rebuilt(structure, iter(values))


def _rebuilt(structure: object, values: Iterator[Any]) -> Any:
    match structure:
        case None:
            return None
        case tuple() if hasattr(structure, "_fields"):
            return type(structure)(*(_rebuilt(item, values) for item in structure))
        case tuple():
            return tuple(_rebuilt(item, values) for item in structure)
        case list():
            return [_rebuilt(item, values) for item in structure]
        case Mapping():
            return {key: _rebuilt(item, values) for key, item in structure.items()}
        case _:
            return next(values)


def outline(structure: object) -> str:
    """The containers as text, with `*` for each value."""
    match structure:
        case tuple() | list():
            inner = ", ".join(map(outline, structure))
            return f"[{inner}]" if isinstance(structure, list) else f"({inner})"
        case Mapping():
            return "{" + ", ".join(f"{key!r}: {outline(item)}" for key, item in structure.items()) + "}"
        case None:
            return "None"
        case _:
            return "*"
