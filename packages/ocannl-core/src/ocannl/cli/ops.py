"""`ocannl ops`: the available operations, and text generated from their table."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from ocannl.base.errors import PluginError, UnknownName
from ocannl.base.output_files import Writing
from ocannl.cli.table import show
from ocannl.lang.declare.catalogue import OperationRow, installed_rows, operands
from ocannl.lang.declare.namespaces import complete_catalogue
from ocannl.lang.declare.signature_text import parameters, unqualified
from ocannl.lang.declare.text_generators import LANGUAGE_ONLY, SUFFIXES, generator

LANGUAGE = "ocannl"
"""The name of the file of the operations of the language, to which its modules add their names, as in `ocannl.fft`;
packages have the names of their namespaces."""


def register(app: typer.Typer) -> None:
    app.command("ops")(command)


def command(
    names: Annotated[
        list[str] | None, typer.Argument(help="Parts of names, or patterns such as `conv?d`; default: all.")
    ] = None,
    generate: Annotated[
        str, typer.Option(help="A generator: functions, json, methods, peers, reference, or a package's.")
    ] = "",
    output: Annotated[
        Path | None, typer.Option(help="Write the generated text to this folder, one file for each namespace.")
    ] = None,
) -> None:
    """List the operations of the language and of installed packages, and report packages that are broken.

    Names are not case-sensitive. Printed text covers the language only, unless operations are named.
    """
    generate = generate or ("reference" if output else "")
    is_about_language = generate and not names and (not output or generate in LANGUAGE_ONLY)
    plugins = [] if is_about_language else list(installed_rows())
    broken = [row for row in plugins if isinstance(row, PluginError)]
    rows = [row for row in (*complete_catalogue(), *plugins) if isinstance(row, OperationRow)]
    for name in names or ():
        _require_match(name, rows)
    rows = [row for row in rows if not names or any(_matches(row, name) for name in names)]
    if output:
        for path in _write(rows, generate, output):
            typer.echo(str(path))
    elif generate:
        typer.echo(generator(generate)(rows), nl=False)
    else:
        show(["operation", "about"], [[f"{row.call}({_inside(row)})", row.summary] for row in rows])
    for error in broken:
        typer.echo(f"PluginError: {error}", err=True)


def _write(rows: Sequence[OperationRow], name: str, folder: Path) -> list[Path]:
    """Writes the generated text of each namespace to its file."""
    function = generator(name)
    by_namespace: dict[str, list[OperationRow]] = {}
    for row in rows:
        by_namespace.setdefault(LANGUAGE if name in LANGUAGE_ONLY else _namespace(row), []).append(row)
    suffix = SUFFIXES.get(name, ".txt")
    texts = {folder / f"{namespace}{suffix}": function(members) for namespace, members in by_namespace.items()}
    with Writing(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    return list(texts)


def _namespace(row: OperationRow) -> str:
    """The namespace of an operation; that of a package with a single operation is its name."""
    prefix = "oc.ops."
    if row.call.startswith(prefix):
        return row.call.removeprefix(prefix).partition(".")[0]
    return f"{LANGUAGE}.{row.declaration.namespace}".rstrip(".")


def _inside(row: OperationRow) -> str:
    return unqualified(", ".join(parameters(operands(row), plain=True)))[0]


def _matches(row: OperationRow, name: str) -> bool:
    lower = name.lower()
    return lower in row.call.lower() or fnmatchcase(row.name.lower(), lower)


def _require_match(name: str, rows: Sequence[OperationRow]) -> None:
    """Raises: UnknownName if no operation matches, with the operations of similar names."""
    if any(_matches(row, name) for row in rows):
        return
    similar = difflib.get_close_matches(name.lower(), dict.fromkeys(row.name for row in rows), cutoff=0.55)
    advice = f"did you mean {', '.join(f'`{n}`' for n in similar)}?" if similar else "`ocannl ops` lists all operations"
    raise UnknownName(f"no operation matches `{name}`; {advice}")
