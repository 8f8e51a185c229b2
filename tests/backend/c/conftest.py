"""The C backend, and a runner of hand-written programs on arrays."""

import pytest
from loop_programs.program_runner import Runner

ocannl_backend = pytest.importorskip("ocannl_backend_c").ocannl_backend


@pytest.fixture(scope="session")
def c():
    reason = ocannl_backend().probe()
    if reason is not None:
        pytest.skip(reason)
    return ocannl_backend().load()


@pytest.fixture(scope="session")
def run(c):
    return Runner(c)
