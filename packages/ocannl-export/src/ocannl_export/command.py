"""`ocannl export MODULE:FUNCTION`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ocannl.base.errors import ArgumentError
from ocannl.cli.imported_function import imported_function


def register(app: typer.Typer) -> None:
    app.command("export")(command)


def command(
    function: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="A function without arguments that returns routines.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="A file, whose suffix is the form, or a folder.")],
    form: Annotated[str | None, typer.Option(help="c, so, object, wheel, wasm or html.")] = None,
    target: Annotated[str | None, typer.Option(help="An instruction set: x86-64-v3, aarch64, native ...")] = None,
    iso_c99: Annotated[bool, typer.Option("--iso-c99", help="Write C without vectors of GCC and Clang.")] = False,
) -> None:
    """Write routines as C, a library, an object file, a wheel, WebAssembly or a page of HTML.

    Imports the module, from the current folder too, and calls the function. It returns a routine, a list of routines,
    or the keyword arguments of `oc.export`, such as `{"routines": step, "init": loss, "name": "digits"}`; options of
    the command line take precedence.
    """
    from ocannl_export.api import export

    result = imported_function(function)()
    arguments: dict[str, Any] = dict(result) if isinstance(result, Mapping) else {"routines": result}
    routines = arguments.pop("routines", None)
    if routines is None:
        raise ArgumentError(f"{function} must return routines, or a mapping with `routines`")
    options = {"form": form, "target": target, "vectors": False if iso_c99 else None}
    arguments |= {option: value for option, value in options.items() if value is not None}
    for path in export(routines, out, **arguments):
        typer.echo(f"{path}  {path.stat().st_size} bytes")
