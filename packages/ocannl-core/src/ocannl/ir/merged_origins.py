"""Provenance of statements that passes merge into others: the statements that read their results.

    h[i] = exp(x[i])     model.py:4        inlined       y[i] = exp(x[i]) * 2     model.py:5
    y[i] = h[i] * 2      model.py:5         ==>

Line 4 of the model has no statement any more. The lowered program says what became of it: line 5 reads its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ocannl.ir.assign import NOWHERE, Origin
from ocannl.ir.loops import BindIndex, Body, Buf, Expr, For, If, Let, Load, Proc, Store, Update, Var
from ocannl.ir.printer import statement_origin
from ocannl.ir.walk import walk

Value = Buf | str
"""An array, or the name of a `let`."""


class _Access(NamedTuple):
    """A statement that computes a value; its origin is `NOWHERE` if it has none."""

    origin: Origin
    read: frozenset[Value]
    written: Value


class OriginReaders:
    """The dataflow of a lowered program among the origins of its statements."""

    def __init__(self, lowered: Proc) -> None:
        self._written: dict[Origin, dict[Value, None]] = {}
        self._readers: dict[Value, list[_Access]] = {}
        for access in _accesses(lowered.body, frozenset()):
            self._written.setdefault(access.origin, {})[access.written] = None
            for value in access.read:
                self._readers.setdefault(value, []).append(access)

    def merged(self, remaining: Iterable[Origin]) -> dict[Origin, tuple[Origin, ...]]:
        """Maps each origin of the lowered program that does not remain after a pass to those that do, of the nearest
        statements that read its results. An origin whose results have no reader is mapped to none."""
        present = set(remaining)
        return {origin: self._nearest(origin, present) for origin in self._written if origin not in present}

    def _nearest(self, origin: Origin, remaining: set[Origin]) -> tuple[Origin, ...]:
        visited = dict(self._written[origin])
        queue = list(visited)
        successors: dict[Origin, None] = {}
        while queue:
            for reader in self._readers.get(queue.pop(), ()):
                if reader.origin in remaining:
                    successors[reader.origin] = None
                elif reader.written not in visited:
                    visited[reader.written] = None
                    queue.append(reader.written)
        return tuple(successors)


def _accesses(body: Body, enclosing: frozenset[Value]) -> Iterator[_Access]:
    """The statements that compute values, with what they read, and what the indices bound around them read."""
    for stmt in body:
        match stmt:
            case For():
                yield from _accesses(stmt.body, enclosing)
            case If(_, on_true, on_false):
                yield from _accesses((*on_true, *on_false), enclosing)
            case BindIndex(_, value, inner):
                yield from _accesses(inner, enclosing | _values(value))
            case Store(ref, value):
                yield _Access(statement_origin(stmt), enclosing | _values(value), ref.buf)
            case Update(ref, _, value):
                yield _Access(statement_origin(stmt), enclosing | _values(value) | {ref.buf}, ref.buf)
            case Let(name, value):
                yield _Access(NOWHERE, enclosing | _values(value), name)
            case _:
                pass


def _values(expr: Expr) -> frozenset[Value]:
    nodes = [node for node in walk(expr) if isinstance(node, Load | Var)]
    return frozenset([node.ref.buf if isinstance(node, Load) else node.name for node in nodes])
