"""Faults from outside: processes that are killed, files that are damaged, many threads at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ocannl.backend.registry import backends

FOLDER = Path(__file__).parent


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    working = [row.name for row in backends() if row.usable]
    for fixture, names in {"backend": working, "compiled": [name for name in working if name != "numpy"]}.items():
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, names)


@pytest.fixture
def script(tmp_path):
    """Runs a script of this folder with a cache of its own; gives the JSON in its last line."""

    def run(name: str, *arguments: object, limit_seconds: float = 300) -> dict:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OCANNL_")}
        environment |= {
            "OCANNL_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PYTHONWARNINGS": "ignore::DeprecationWarning",  # of forks
        }
        command = [sys.executable, str(FOLDER / name), *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit_seconds)
        print(done.stdout)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
        return json.loads(done.stdout.splitlines()[-1])

    return run
