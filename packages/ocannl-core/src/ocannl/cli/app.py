"""The application: its commands and the handling of errors."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from typing import Annotated

import typer
from rich.console import Console

from ocannl.backend.discovery import core_version
from ocannl.base import extensions, log
from ocannl.base.entry_points import entry_points
from ocannl.base.errors import OcannlError
from ocannl.base.plugins import exception_summary

_log = log.logger("cli.app")

COMMANDS = ("backends", "config", "demo", "doctor", "ops", "profile", "replay", "run", "show", "train")
"""Modules of this package with `register(app)`; commands whose module is missing are left out."""

LAUNCHERS = ("ocannl", "typer", "click", "runpy", "importlib")
"""Beginnings of the names of modules that are not code of the user."""


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
    for entry in entry_points(extensions.COMMANDS):
        try:
            entry.load()(app)
        except Exception as error:  # of the code of another distribution, whose failure leaves the commands of the core
            _log.warning("the command `%s` is left out: %s", entry.name, exception_summary(error))
    return app


def user_lines(error: Exception) -> list[str]:
    """The lines of the traceback in a script or module that a command runs; none if the error is of the command."""
    frames = traceback.StackSummary.extract(
        (frame, line) for frame, line in traceback.walk_tb(error.__traceback__)
        if not str(frame.f_globals.get("__name__")).startswith(LAUNCHERS)
    )  # fmt: skip
    return ["Traceback (most recent call last):\n", *frames.format()] if frames else []


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(core_version())
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """A compiler for tensor expressions: backends, settings, operations and demonstrations."""


def run() -> None:
    """Runs the application; errors of this package are printed with the lines of the user's code only, and exit with
    status 1."""
    try:
        log.configure()
        build()()
    except OcannlError as error:
        sys.stderr.writelines(user_lines(error))
        Console(stderr=True, highlight=False).print(f"{type(error).__name__}: {error}", markup=False, soft_wrap=True)
        sys.exit(1)
