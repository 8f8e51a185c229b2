"""`ocannl onnx check`, `ocannl onnx ops` and `ocannl onnx export`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ocannl.cli import table
from ocannl_onnx.exporting.command import export


def register(app: typer.Typer) -> None:
    commands = typer.Typer(no_args_is_help=True, help="Check and write ONNX models, and list the supported operators.")
    commands.command("check")(check)
    commands.command("ops")(ops)
    commands.command("export")(export)
    app.add_typer(commands, name="onnx")


def check(
    model: Annotated[Path, typer.Argument(help="The file of the model.")],
) -> None:
    """List all operators of a model that cannot be imported, and replacements; status 1 if there are any."""
    from ocannl_onnx.missing_operators import missing_operators
    from ocannl_onnx.model_file import read_model

    content = read_model(model)
    missing = missing_operators(content)
    if not missing:
        typer.echo(f"{model}: all operators of {len(content.graph.nodes)} nodes are supported")
        return
    rows = [
        (row.qualified_name, str(len(row.nodes)), ", ".join(row.nodes[:5]), row.reason, row.replacement)
        for row in missing
    ]
    table.show(("operator", "nodes", "names", "reason", "replacement"), rows)
    raise typer.Exit(1)


def ops(
    pattern: Annotated[str, typer.Argument(help="Only operators whose name contains this text.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """List the operators that can be imported: versions, expressions of ocannl, and restrictions."""
    from ocannl_onnx.registry import operator_table

    rows = [row for row in operator_table() if pattern.lower() in row.name.lower()]
    if as_json:
        typer.echo(json.dumps([row.as_dict() for row in rows], indent=2))
        return
    table.show(
        ("operator", "versions", "expression", "restrictions"),
        [(row.name, ", ".join(map(str, row.versions)), row.spelling, "; ".join(row.restrictions)) for row in rows],
    )
