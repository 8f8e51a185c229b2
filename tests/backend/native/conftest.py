"""Each backend that compiles for the processor and can do so here, and a way to run hand-written programs."""

from importlib import import_module
from importlib.util import find_spec

import pytest

from ocannl.testing.runner import Runner


def backends():
    for name in ("llvm", "c"):
        module = f"ocannl_backend_{name}"
        reason = import_module(module).ocannl_backend().probe() if find_spec(module) else "not installed"
        yield pytest.param(name, marks=pytest.mark.skipif(reason is not None, reason=f"{name}: {reason}"))


@pytest.fixture(scope="session", params=backends())
def native(request):
    return import_module(f"ocannl_backend_{request.param}").ocannl_backend().load()


@pytest.fixture(scope="session")
def run(native):
    return Runner(native)
