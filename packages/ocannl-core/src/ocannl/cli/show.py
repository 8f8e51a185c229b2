"""`ocannl show MODEL`: the blocks of a model as a tree, with shapes, parameters, memory and operations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ocannl.base import extensions
from ocannl.base.entry_points import entry_points
from ocannl.base.errors import ArgumentError
from ocannl.cli import table
from ocannl.cli.imported_function import imported_function
from ocannl.lang.core import nested
from ocannl.lang.rewriting.graph import Graph, graph
from ocannl.show.summary import COLUMNS, summary


def register(app: typer.Typer) -> None:
    app.command("show")(command)


def command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION|FILE", help="A function without arguments that returns tensors, or a model's file."
        ),
    ],
    nodes: Annotated[bool, typer.Option("--nodes", help="List all operations instead of the blocks.")] = False,
    size: Annotated[
        list[str] | None, typer.Option("--size", metavar="NAME=SIZE", help="The size of a named axis, for files.")
    ] = None,
) -> None:
    """Show the blocks of a model: shapes, parameters, memory and operations.

    Imports the module, from the current folder too, and calls the function, which returns the outputs of the model.
    Files are read by installed extensions, such as ocannl-onnx.
    """
    outputs = nested.leaves(_outputs(model, size or []))
    if nodes:
        typer.echo(str(outputs[0] if outputs and isinstance(outputs[0], Graph) else graph(*outputs)))
    else:
        blocks = summary(*outputs).blocks
        names = [block.path or "total" for block in blocks]  # for other programs
        if sys.stdout.isatty():
            names = tree([(block.depth, block.name) for block in blocks])
        rows = [(name, *block.cells) for name, block in zip(names, blocks, strict=True)]
        table.show(COLUMNS, rows, unbroken=COLUMNS[:1])


def tree(items: Sequence[tuple[int, str]]) -> list[str]:
    """Names with the lines of a tree before them; each has its depth, and stands after the item that it is part of."""
    lines: list[str] = []
    open_depths: set[int] = set()  # at which another item follows
    for depth, name in reversed(items):
        open_depths = {other for other in open_depths if other <= depth}
        branch = "" if depth == 0 else "├─ " if depth in open_depths else "└─ "
        lines.append("".join("│  " if n in open_depths else "   " for n in range(1, depth)) + branch + name)
        open_depths.add(depth)
    return lines[::-1]


def _outputs(model: str, sizes: Sequence[str]) -> Any:
    """The outputs of a function's model, or of the model in a file. Raises: ArgumentError."""
    suffix = Path(model).suffix.removeprefix(".")
    readers = {entry.name: entry for entry in entry_points(extensions.READERS)}
    if suffix in readers:
        return readers[suffix].load()(model, dict(map(_size, sizes)))
    if suffix in extensions.DISTRIBUTIONS and ":" not in model:
        raise ArgumentError(f"reading `.{suffix}` needs an extension: pip install {extensions.DISTRIBUTIONS[suffix]}")
    return imported_function(model)()


def _size(text: str) -> tuple[str, int]:
    name, _, size = text.partition("=")
    if not name or not size.isdecimal():
        raise ArgumentError(f"a size is written NAME=SIZE, as in --size batch=1, not {text!r}")
    return name, int(size)
