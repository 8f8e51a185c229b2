"""Fixtures: the backend in Triton's interpreter, and a runner of hand-written programs."""

import sys
from pathlib import Path

import pytest
from loop_programs.program_runner import Runner

import ocannl as oc

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
    """A context in the interpreter, in whatever mode Triton was imported."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    return oc.Context("triton")
