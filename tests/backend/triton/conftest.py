"""The backend in triton's interpreter, a way to run a hand-written program on arrays, and the simulated driver."""

import sys
from pathlib import Path

import pytest

import ocannl as oc
from ocannl.testing.runner import Runner

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def triton():
    pytest.importorskip("triton")
    from ocannl_backend_triton.backend import TritonBackend
    from ocannl_backend_triton.interpreter import InterpretingMachine

    return TritonBackend(InterpretingMachine())


@pytest.fixture(scope="session")
def run(triton):
    return Runner(triton)


@pytest.fixture
def context(triton, monkeypatch):
    """One in the interpreter, in whatever mode triton was imported."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    return oc.Context("triton")
