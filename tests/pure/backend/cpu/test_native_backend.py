"""The base of native backends: validation, devices, and members that a subclass must implement."""

import pytest

from ocannl.backend import Backend, CompileError, Unsupported
from ocannl.backend.cpu import NativeBackend, NativeCode, Package, devices, native_capabilities
from ocannl.ir.loops import AccessMode, Buf, MemorySpace, Proc
from ocannl.ir.precision import float32, float64


class Recording(NativeBackend):
    name = "recording"
    version = "1"

    def __init__(self):
        self.compiled = []

    @property
    def capabilities(self):
        return native_capabilities([float32], (32, 16), self.compile_valid)

    def compile_valid(self, procs):
        self.compiled += [proc.name for proc in procs]
        return NativeCode(Package("none", (), b"", ()), None, {}.get, lambda: None, lambda: 0)

    def restore(self, blob):
        raise CompileError("not code of this backend")


def program(name, precision=float32):
    return Proc(name, (Buf("x", precision, (), (), MemorySpace.GLOBAL, AccessMode.IN),), (), ())


def test_valid_programs_are_compiled():
    backend: Backend = Recording()
    assert isinstance(backend.compile([program("a"), program("b")]), NativeCode)
    assert backend.compiled == ["a", "b"]


@pytest.mark.parametrize(
    ("procs", "error"),
    [
        ([program("a"), program("a")], CompileError),
        ([program("not a name")], CompileError),
        ([program("a"), program("b", float64)], Unsupported),
    ],
)
def test_invalid_programs_are_refused(procs, error):
    backend = Recording()
    with pytest.raises(error):
        backend.compile(procs)
    assert backend.compiled == []


def test_devices_are_those_of_the_process():
    backend = Recording()
    assert backend.device_count() == len(devices())
    assert all(backend.device(n) is device for n, device in enumerate(devices()))


def test_capabilities():
    capabilities = Recording().capabilities
    assert capabilities.precisions == {"float32"} and capabilities.timestamps
    assert (capabilities.vector_bytes, capabilities.vector_registers) == (32, 16)


def test_subclass_must_compile():
    with pytest.raises(TypeError, match="abstract"):
        NativeBackend()
