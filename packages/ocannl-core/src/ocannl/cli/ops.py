"""`ocannl ops`: the available operations, and text generated from their table."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

import typer

from ocannl.base.errors import PluginError
from ocannl.cli.table import show
from ocannl.lang.declare.catalogue import OperationRow, catalogue, installed_rows, operands
from ocannl.lang.declare.signature_text import parameters, unqualified
from ocannl.lang.declare.text_generators import generator


def register(app: typer.Typer) -> None:
    app.command("ops")(command)


def command(
    names: Annotated[
        list[str] | None, typer.Argument(help="Parts of names, or patterns such as `conv?d`; default: all.")
    ] = None,
    generate: Annotated[
        str, typer.Option(help="Print the output of a generator: functions, methods, reference, or a package's.")
    ] = "",
) -> None:
    """List the operations of the language and of installed packages, and report packages that are broken.

    Generated text covers the language only, unless operations are named.
    """
    plugins = [] if generate and not names else list(installed_rows())
    broken = [row for row in plugins if isinstance(row, PluginError)]
    rows = [row for row in (*catalogue(), *plugins) if isinstance(row, OperationRow) and _is_named(row, names)]
    if generate:
        typer.echo(generator(generate)(rows), nl=False)
    else:
        show(["operation", "about"], [[f"{row.call}({_inside(row)})", row.summary] for row in rows])
    for error in broken:
        typer.echo(f"PluginError: {error}", err=True)


def _inside(row: OperationRow) -> str:
    return unqualified(", ".join(parameters(operands(row), plain=True)))[0]


def _is_named(row: OperationRow, names: list[str] | None) -> bool:
    return not names or any(name in row.call or fnmatchcase(row.name, name) for name in names)
