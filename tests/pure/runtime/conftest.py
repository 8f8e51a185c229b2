"""A backend that counts calls, and a cache folder for each test."""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import dataclass, field

import numpy as np
import pytest

from ocannl.backend import registry
from ocannl.backend.cpu.device import CpuDevice
from ocannl.base.errors import CompileError
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.printer import print_proc
from ocannl.runtime import compile_cache
from ocannl.runtime.context import Context


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    """A folder of compiled code, and nothing remembered from other tests."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("OCANNL_CACHE_DIR", str(folder))
    for name in ("OCANNL_BACKEND", "OCANNL_CACHE", "OCANNL_SEED", "OCANNL_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OCANNL_VERIFY", "every")
    compile_cache.clear()
    yield folder / "code"
    compile_cache.clear()


@pytest.fixture(params=["numpy", "llvm"])
def ctx(request):
    if request.param == "llvm" and importlib.util.find_spec("llvmlite") is None:
        pytest.skip("llvmlite is not installed")
    if request.param not in registry.discover():
        pytest.skip(f"backend `{request.param}` is not installed")
    with Context(request.param) as context:
        yield context


@dataclass
class FakeCode:
    source: str
    blob: bytes | None


@dataclass
class FakeBackend:
    """Compiles to the printed program, counts, and runs nothing."""

    version: str = "1"
    name: str = "fake"
    capabilities: Capabilities = field(default_factory=lambda: Capabilities(wants_schedule=False))
    compiled: int = 0
    restored: int = 0
    refuses: bool = False
    calls: list = field(default_factory=list)
    linked: list = field(default_factory=list)

    def compile(self, procs):
        self.compiled += 1
        text = "".join(map(print_proc, procs))
        return FakeCode(text, text.encode())

    def restore(self, blob):
        self.restored += 1
        if self.refuses:
            raise CompileError("another machine")
        return FakeCode(blob.decode(), blob)

    def link(self, code, name, queue, locations):
        self.linked.append(locations)
        return lambda *values: self.calls.append(values)

    def device_count(self):
        return 1

    def device(self, ordinal):
        return CpuDevice(ordinal)


@pytest.fixture
def fake(monkeypatch):
    backend = FakeBackend()
    monkeypatch.setattr("ocannl.runtime.context.resolve", lambda name=None: backend)
    return backend


@pytest.fixture
def warnings(caplog):
    """The messages that were logged."""
    caplog.set_level(logging.WARNING, "ocannl")
    return caplog


@pytest.fixture
def rng():
    return np.random.default_rng(0)
