"""`ocannl ops`: the operations there are, and what is made from the table of them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

import typer

from ocannl.base.errors import PluginError
from ocannl.cli.table import show
from ocannl.lang.declare.catalogue import Row, catalogue, installed, operands
from ocannl.lang.declare.generators import generator
from ocannl.lang.declare.text import parameters, unqualified


def register(app: typer.Typer) -> None:
    app.command("ops")(command)


def command(
    names: Annotated[
        list[str] | None, typer.Argument(help="Parts of names, or patterns such as `conv?d`; all without them.")
    ] = None,
    generate: Annotated[
        str, typer.Option(help="Print what a generator makes: functions, methods, reference, or a package's.")
    ] = "",
) -> None:
    """List the operations: those of the language, then those of installed packages, and which of these are broken.

    What is generated is of the language alone, unless names say what it is of.
    """
    brought = [] if generate and not names else list(installed())
    broken = [row for row in brought if isinstance(row, PluginError)]
    rows = [row for row in (*catalogue(), *brought) if isinstance(row, Row) and _is_named(row, names)]
    if generate:
        typer.echo(generator(generate)(rows), nl=False)
    else:
        show(["operation", "about"], [[f"{row.call}({_inside(row)})", row.summary] for row in rows])
    for wrong in broken:
        typer.echo(f"PluginError: {wrong}", err=True)


def _inside(row: Row) -> str:
    return unqualified(", ".join(parameters(operands(row), plain=True)))[0]


def _is_named(row: Row, names: list[str] | None) -> bool:
    return not names or any(name in row.call or fnmatchcase(row.name, name) for name in names)
