"""The example backend that compiles with Numba, if it is installed: its own tests are the conformance kit."""

from importlib.util import find_spec

import numpy as np
import pytest

import ocannl as oc
from ocannl.backend.cpu import NativeBackend, NativeCode
from ocannl.runtime.routine import DirectRoutine

needs_numba = pytest.mark.skipif(find_spec("ocannl_backend_numba") is None, reason="not installed; see tox -e numba")


@needs_numba
@pytest.mark.parametrize("threads", [1, 2])
def test_a_product_is_computed_with_vectors_in_registers(threads):
    a, b = np.random.default_rng(0).standard_normal((2, 130, 130)).astype("f4")
    with oc.Context("numba", threads=threads) as ctx:
        result = oc.einsum("m,k; k,n => m,n", oc.tensor(a), oc.tensor(b))
        routine = ctx.compile(result.forward)
        routine()
        np.testing.assert_allclose(ctx[result], a @ b, atol=1e-3)
        assert "fma(splat_" in routine.source()


@needs_numba
def test_symbols_are_passed_without_ctypes():
    rows = oc.tensor(np.arange(6, dtype="f4").reshape(3, 2), batch_axes=1)
    i = oc.symbol("i", 0, 3)
    picked = rows[i] * 2
    with oc.Context("numba") as ctx:
        routine = ctx.compile(picked.forward)
        assert isinstance(routine, DirectRoutine)
        for n in range(3):
            routine(i=n)
            assert ctx[picked].tolist() == [4 * n, 4 * n + 2]
        with pytest.raises(oc.OcannlError):
            routine(i=3)


class Minimal(NativeBackend):
    """Another backend's code, without its thread pool, direct calls and stored form."""

    name, version = "minimal", "1"

    def __init__(self, native):
        self.native = native

    @property
    def capabilities(self):
        return self.native.capabilities

    def compile_valid(self, procs):
        code = self.native.compile(procs)
        package = code.package
        bare = type(package).of(package.target, package.programs, package.source, [])
        return NativeCode(bare, code, lambda name: code.programs[name].address)


def test_a_native_backend_may_be_minimal(monkeypatch):
    from ocannl.backend import registry

    minimal = Minimal(registry.resolve("llvm"))
    monkeypatch.setitem(registry._backends, "minimal", minimal)
    a, b = np.random.default_rng(0).standard_normal((2, 300, 300)).astype("f4")
    with oc.Context("minimal", threads=2) as ctx:
        result = oc.einsum("m,k; k,n => m,n", oc.tensor(a), oc.tensor(b))
        routine = ctx.compile(result.forward)
        routine()
        np.testing.assert_allclose(ctx[result], a @ b, atol=1e-3)
        total = oc.tensor(a[0]).sum()
        small = ctx.compile(total.forward)
        small()
        assert not isinstance(small, DirectRoutine)
        assert minimal.compile([]).blob is None
    with pytest.raises(oc.OcannlError, match="stores no compiled code"):
        minimal.restore(b"")
