"""Computations written by hand, backends that can be watched, and a cache folder for each test."""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import dataclass, field

import numpy as np
import pytest

from ocannl.backend import registry
from ocannl.backend.cpu.device import CpuDevice
from ocannl.base.errors import CompileError
from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.assign import Assign, Call, Number, Piece, Read, Seq
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.ops import ADD, BY_NAME, MUL
from ocannl.ir.precision import float32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
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


class Build:
    """Nodes and computations."""

    def node(self, label, *dims, role=Role.PLACEHOLDER, precision=float32, contents=None):
        return TNode(label, role, lambda: dims, lambda: precision, contents=contents, where="here.py:1")

    def param(self, label, *dims, **more):
        return self.node(label, *dims, role=Role.PARAMETER, **more)

    def result(self, label, *dims, **more):
        return self.node(label, *dims, role=Role.RESULT, **more)

    def over(self, *sizes):
        return tuple(Sym(f"i{n}", 0, size - 1) for n, size in enumerate(sizes))

    def static(self, name, lo, hi):
        return Sym(name, lo, hi - 1, SymKind.STATIC)

    def pointwise(self, target, op, *operands, accum=None, clear=True):
        """target[...] = op(operands[...])."""
        loops = self.over(*target.dims)
        at = tuple(map(Affine.of, loops))
        values = [Read(o, at[len(at) - len(o.dims) :]) if isinstance(o, TNode) else Number(o) for o in operands]
        return Assign(target, accum, clear, (Piece(loops, at, Call(BY_NAME[op], tuple(values))),))

    def matmul(self, y, w, x):
        """y[b, o] =:+ w[o, i] * x[b, i]."""
        b, o, i = (Sym(n, 0, size - 1) for n, size in zip("boi", (*y.dims, x.dims[1]), strict=True))
        at = Affine.of
        value = Call(MUL, (Read(w, (at(o), at(i))), Read(x, (at(b), at(i)))))
        return Assign(y, ADD, True, (Piece((b, o, i), (at(b), at(o)), value),))

    def layer(self):
        """relu(w x), its nodes by name: the product is a temporary."""
        nodes = {
            "w": self.param("w", 3, 4),
            "x": self.node("x", 2, 4),
            "h": self.result("h", 2, 3),
            "y": self.result("y", 2, 3),
        }
        code = Seq((self.matmul(nodes["h"], nodes["w"], nodes["x"]), self.pointwise(nodes["y"], "relu", nodes["h"])))
        return nodes, code


@pytest.fixture
def build():
    return Build()


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
