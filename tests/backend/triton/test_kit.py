"""The conformance kit in Triton's interpreter, in a process of its own."""

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_kit():
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "ocannl.testing"]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    process = subprocess.run(
        [*command, "--ocannl-backend=triton"], env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout
