"""Loads compiled programs (shared objects) into this process."""

from __future__ import annotations

from ocannl.backend.cpu.native_code import NativeCode, Package
from ocannl_backend_c.emit import LOADED_BY_PYTHON
from ocannl_backend_c.shared_library import SharedLibrary
from ocannl_backend_c.thread_pool import thread_pool_code
from ocannl_backend_c.vectorcall import DIRECT


def load_package(package: Package) -> NativeCode:
    (code,) = package.objects
    library = SharedLibrary(code)
    entry = LOADED_BY_PYTHON.symbol
    return NativeCode(
        package, library, lambda name: library.address(entry(name)), thread_pool_code, lambda: library.address(DIRECT)
    )
