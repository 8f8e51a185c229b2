"""Compiled programs: shared objects in this process."""

from __future__ import annotations

import _ctypes
import ctypes
import hashlib
import os
import sys
import tempfile
import weakref
from pathlib import Path

from ocannl.backend import CompileError
from ocannl.backend.cpu.native import NativeCode, Package
from ocannl_backend_c.direct import DIRECT
from ocannl_backend_c.emit import symbol
from ocannl_backend_c.toolchain import WORK


class Library:
    """A shared object in this process, for as long as someone holds this."""

    __slots__ = ("__weakref__", "_opened")

    def __init__(self, code: bytes) -> None:
        self._opened = load(code)
        weakref.finalize(self, _ctypes.dlclose, self._opened._handle).atexit = False

    def address(self, name: str) -> int:
        try:
            return ctypes.cast(self._opened[name], ctypes.c_void_p).value or 0
        except AttributeError as missing:
            raise CompileError(f"compiled code has no such entry: {missing}") from None


def loaded(package: Package) -> NativeCode:
    from ocannl_backend_c.thread_pool import team_code  # which loads code, too

    (code,) = package.objects
    library = Library(code)
    return NativeCode(
        package, library, lambda name: library.address(symbol(name)), team_code, lambda: library.address(DIRECT)
    )


def load(code: bytes) -> ctypes.CDLL:
    """A shared object, by way of a file in a new folder that only this user can look into.

    The loader maps what it opens: the file is gone, with its folder, when this returns, and nobody else ever knew its
    name. What is loaded is what was given, or nothing: a file that was cut short would end the process.
    """
    _refuse_stump(code)
    try:
        with tempfile.TemporaryDirectory(prefix=WORK) as folder:
            path = Path(folder) / f"{hashlib.sha256(code).hexdigest()}.so"
            with path.open("xb") as file:
                file.write(code)
                file.flush()
                os.fsync(file.fileno())
            if path.read_bytes() != code:
                raise CompileError("compiled code changed on its way to the disk")
            return ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as wrong:
        raise CompileError(f"compiled code cannot be loaded: {wrong}") from None


def _refuse_stump(code: bytes) -> None:
    """An ELF file ends with its table of sections: one that is cut off before would be mapped beyond its end."""
    if not sys.platform.startswith("linux"):
        return
    wide = code[4:5] == b"\2"
    at, size = (40, 8) if wide else (32, 4)
    table = int.from_bytes(code[at : at + size], sys.byteorder)
    entry, count = (int.from_bytes(code[n : n + 2], sys.byteorder) for n in ((58, 60) if wide else (46, 48)))
    if not code.startswith(b"\x7fELF") or not table or len(code) < table + entry * count:
        raise CompileError("the C compiler made something that is no shared object, or only a part of one")
