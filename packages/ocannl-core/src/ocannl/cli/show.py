"""`ocannl show MODULE:FUNCTION`: the blocks of a model as a tree, with shapes, parameters, memory and operations."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ocannl.cli import table
from ocannl.cli.imported_function import imported_function
from ocannl.lang.core import nested
from ocannl.lang.rewriting.graph import Graph, graph
from ocannl.show.summary import COLUMNS, summary


def register(app: typer.Typer) -> None:
    app.command("show")(command)


def command(
    model: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="A function without arguments that returns tensors.")
    ],
    nodes: Annotated[bool, typer.Option("--nodes", help="List all operations instead of the blocks.")] = False,
) -> None:
    """Show the blocks of a model: shapes, parameters, memory and operations.

    Imports the module, from the current folder too, and calls the function, which returns the outputs of the model.
    """
    outputs = nested.leaves(imported_function(model)())
    if nodes:
        typer.echo(str(outputs[0] if outputs and isinstance(outputs[0], Graph) else graph(*outputs)))
    else:
        is_tree = sys.stdout.isatty()  # indented; full paths for other programs
        blocks = summary(*outputs).blocks
        names = ["  " * block.depth + block.name if is_tree else block.path or "total" for block in blocks]
        table.show(COLUMNS, [(name, *block.cells) for name, block in zip(names, blocks, strict=True)])

