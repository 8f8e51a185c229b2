"""The conformance kit, in a process in which triton interprets."""

import os
import subprocess
import sys

import pytest


def test_the_kit():
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "ocannl.testing"]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    judged = subprocess.run(
        [*command, "--ocannl-backend=triton"], env=environment, capture_output=True, text=True, check=False
    )
    assert judged.returncode == 0, judged.stdout
