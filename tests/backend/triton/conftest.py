"""The Triton backend in triton's interpreter, and a way to run a hand-written program on arrays."""

import pytest

from ocannl.testing.runner import Runner


@pytest.fixture(scope="session")
def triton():
    pytest.importorskip("triton")
    from ocannl_backend_triton.backend import TritonBackend

    return TritonBackend()


@pytest.fixture(scope="session")
def run(triton):
    return Runner(triton)
