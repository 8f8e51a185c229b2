"""The available native backends, a runner of hand-written programs, and backends for CPUs with narrower vectors."""

import platform
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import pytest
from loop_programs.program_runner import Runner

from ocannl.backend import registry
from ocannl.base.config import settings


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


# --- CPUs with narrower vectors, whose code also runs on this CPU -----------------------------------------------------

PROCESSORS = {  # LLVM features, compiler flags, and the vector registers
    "haswell": ("+avx,+avx2,+f16c,+fma", "-mno-avx512f", (32, 16)),
    "x86-64": ("", "-mno-avx", (16, 16)),
}


@contextmanager
def llvm_for(processor):
    """The LLVM backend with another CPU as its host target."""
    from ocannl_backend_llvm import backend, jit

    features, _, vectors = PROCESSORS[processor]
    target = jit.Target(jit.host().triple, processor, features)
    native_backend = registry.resolve("llvm")
    width, registers = target.vector_registers
    capabilities = replace(native_backend.capabilities, vector_bytes=width, vector_registers=registers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "host", lambda: target)
        patch.setattr(backend, "_capabilities", lambda: capabilities)
        yield native_backend
    assert target.vector_registers == vectors


@contextmanager
def c_for(processor):
    """The C backend with flags that disable some instructions."""
    from ocannl_backend_c import toolchain

    _, flag, vectors = PROCESSORS[processor]
    with settings(c_compiler=" ".join([*toolchain.command(), flag])):
        native_backend = registry.resolve("c")
        assert (native_backend.capabilities.vector_bytes, native_backend.capabilities.vector_registers) == vectors
        yield native_backend


NARROWED = [(name, processor) for name in ("llvm", "c") for processor in PROCESSORS]


@pytest.fixture(scope="class", params=NARROWED, ids=lambda case: " for ".join(case))
def narrowed(request):
    name, processor = request.param
    module = f"ocannl_backend_{name}"
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("a processor of another kind")
    if not find_spec(module) or import_module(module).ocannl_backend().probe() is not None:
        pytest.skip(f"{name} does not work here")
    if registry.resolve(name).capabilities.vector_bytes < PROCESSORS[processor][2][0]:
        pytest.skip("this processor is narrower")
    with {"llvm": llvm_for, "c": c_for}[name](processor) as backend:
        yield backend
