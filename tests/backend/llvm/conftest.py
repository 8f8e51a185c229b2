"""The LLVM backend, and a runner of hand-written programs on arrays."""

import pytest
from loop_programs.program_runner import Runner

pytest.importorskip("llvmlite")

from ocannl_backend_llvm import ocannl_backend


@pytest.fixture(scope="session")
def llvm():
    return ocannl_backend().load()


@pytest.fixture(scope="session")
def run(llvm):
    return Runner(llvm)
