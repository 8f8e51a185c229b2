"""`ocannl run -n 4 script.py`: executes a script in several processes, which `oc.World()` connects."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from ocannl.base.config import TRANSPORT
from ocannl.base.errors import ArgumentError, TransportUnavailable

SUPERVISOR = Path(__file__).with_name("supervisor.py")


def register(app: typer.Typer) -> None:
    app.command("run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(command)


def command(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="A Python file; what follows are its arguments.")],
    processes: Annotated[int, typer.Option("--processes", "-n", min=1, help="Number of processes on this host.")] = 1,
) -> None:
    """Execute a script in several processes, which `oc.World()` connects through MPI."""
    if not os.path.isfile(script):
        raise ArgumentError(f"there is no file {script}")
    launcher = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if launcher is None:
        raise TransportUnavailable("there is no `mpiexec`; run: pip install ocannl-transport-mpi[mpich]")
    arguments = [launcher, "-n", str(processes), *_supervised(processes), sys.executable, str(script), *context.args]
    with subprocess.Popen(arguments, env={**os.environ, TRANSPORT.variable: "mpi"}) as launched:
        while True:
            try:
                raise typer.Exit(launched.wait())
            except KeyboardInterrupt:  # the launcher receives the signal, too, and ends all processes
                continue


def _supervised(processes: int) -> list[str]:
    """The beginning of a command that a supervisor executes; nothing on systems where a process can outlive it."""
    if sys.platform != "linux":
        return []
    return [sys.executable, "-I", "-S", str(SUPERVISOR), str(processes)]
