"""`ocannl run -n 4 script.py`: executes a script in several processes, which `oc.World()` connects."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from ocannl.base.config import RANKS_VARIABLE, TRANSPORT
from ocannl.base.errors import ArgumentError, TransportUnavailable

KILLED = re.compile(r"PID (\d+) RUNNING AT")  # of MPICH, which does not name the rank


def register(app: typer.Typer) -> None:
    app.command("run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(command)


def command(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="A Python file; what follows are its arguments.")],
    processes: Annotated[int, typer.Option("--processes", "-n", min=1, help="Number of processes on this host.")] = 1,
) -> None:
    """Execute a script in several processes, which `oc.World()` connects through MPI."""
    if not script.is_file():
        raise ArgumentError(f"there is no file {script}")
    launcher = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if launcher is None:
        raise TransportUnavailable("there is no `mpiexec`; run: pip install ocannl-transport-mpi[mpich]")
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, RANKS_VARIABLE: folder, TRANSPORT.variable: "mpi"}
        arguments = [launcher, "-n", str(processes), sys.executable, str(script), *context.args]
        with subprocess.Popen(arguments, env=variables, stdout=subprocess.PIPE, text=True) as launched:
            status = _report(launched, Path(folder), processes)
    raise typer.Exit(status)


def _report(launched: subprocess.Popen[str], folder: Path, processes: int) -> int:
    """Copies the output of a launcher, and names the rank of a killed process; returns the exit status."""
    assert launched.stdout is not None
    try:
        for line in launched.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            process = KILLED.search(line)
            if process is not None and (folder / process[1]).exists():
                rank = (folder / process[1]).read_text(encoding="ascii")
                sys.stderr.write(f"ocannl: rank {rank} of {processes} was killed; all processes end\n")
        return launched.wait()
    except KeyboardInterrupt:  # of the whole group of processes, which the launcher ends
        return launched.wait() or 130
