"""The application: a table of commands, and what happens to errors."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Annotated

import typer
from rich.console import Console

from ocannl.backend.installed import core_version
from ocannl.base import log
from ocannl.base.errors import OcannlError

COMMANDS = ("backends", "config", "demo", "doctor", "ops")
"""Modules of this package, each with `register(app)`. One that is not there is a command that this release lacks."""


def build() -> typer.Typer:
    app = typer.Typer(
        name="ocannl",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name in COMMANDS:
        module = f"ocannl.cli.{name}"
        if importlib.util.find_spec(module) is not None:
            importlib.import_module(module).register(app)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(core_version())
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """A compiler of tensor expressions: its backends, its settings, its demonstrations."""


def run() -> None:
    """Errors of ours are one message without a traceback, and status 1."""
    try:
        log.configure()
        build()()
    except OcannlError as wrong:
        Console(stderr=True, highlight=False).print(f"{type(wrong).__name__}: {wrong}", markup=False, soft_wrap=True)
        sys.exit(1)
