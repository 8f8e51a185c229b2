"""Parts of a program: maximal runs of statements without regions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ocannl.ir.loops import BindIndex, Body, Stmt, region_body


def region_parts(body: Body, enclosing: tuple[Stmt, ...] = ()) -> Iterator[tuple[list[Stmt], tuple[Stmt, ...]]]:
    """Yields the parts of a body in order, each with the regions around it: one before each region and one at the end,
    which may be empty. The condition of conditional code is a part."""
    run: list[Stmt] = []
    for stmt in body:
        inner = region_body(stmt)
        if inner is None:
            run.append(stmt)
            continue
        yield run, enclosing
        run = []
        if isinstance(stmt, BindIndex):
            yield [replace(stmt, body=())], enclosing
        yield from region_parts(inner, (*enclosing, stmt))
    yield run, enclosing
