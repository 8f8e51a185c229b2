"""Files of models with any mutation raise errors of ocannl only: no crash, no endless loop, at most 2 GB of memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")
SCRIPT = Path(__file__).parents[1] / "support" / "mutated_models.py"
COUNT = int(os.environ.get("OCANNL_TEST_MUTATIONS", "300"))
FIRST = int(os.environ.get("OCANNL_TEST_FIRST", "0"))
MODELS = 100  # of one test


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, MODELS))
def test_mutated_models_raise_errors_of_ocannl_only(first: int, tmp_path: Path) -> None:
    failures, end = [], first + MODELS
    while first < end:
        command = [sys.executable, str(SCRIPT), str(tmp_path), str(first), str(end - first)]
        process = subprocess.run(command, capture_output=True, text=True, timeout=600)
        lines = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
        failures += [str(line) for line in lines if "error" in line]
        if process.returncode == 0:
            break
        assert lines, process.stderr
        failures.append(f"{lines[-1]}: exit status {process.returncode}\n{process.stderr[:3000]}")
        first = lines[-1]["seed"] + 1  # the process has ended at this model
    assert not failures, "\n".join(failures)
