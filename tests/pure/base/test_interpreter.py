"""Free-threaded Python: ocannl runs with the global interpreter lock, and says so without it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import sys
sys._is_gil_enabled = lambda: {enabled}
try:
    import ocannl as oc
    print(oc.evaluate(oc.tensor([1.0]) + 1))
except ImportError as error:
    print(type(error).__name__, error)
"""


REFUSAL = (
    "UnsupportedInterpreter ocannl needs the global interpreter lock, which this free-threaded Python has disabled; set"
    " PYTHON_GIL=1 in the environment, which processes that ocannl starts inherit\n"
)


@pytest.mark.parametrize(("enabled", "output"), [(True, "[2.]\n"), (False, REFUSAL)])
def test_global_interpreter_lock(enabled, output):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "OCANNL_BACKEND": "numpy"}
    command = [sys.executable, "-c", CODE.format(enabled=enabled)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == output
