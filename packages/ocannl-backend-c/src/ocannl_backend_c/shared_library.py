"""Shared objects: verification, loading into this process, and unloading."""

from __future__ import annotations

import _ctypes
import ctypes
import hashlib
import os
import sys
import weakref

from ocannl.backend import CompileError
from ocannl.base.work_folder import work_folder


class SharedLibrary:
    """A shared object that is unloaded when this handle is garbage-collected."""

    __slots__ = ("__weakref__", "_dll")

    def __init__(self, code: bytes) -> None:
        self._dll = load(code)
        weakref.finalize(self, _ctypes.dlclose, self._dll._handle).atexit = False

    def address(self, name: str) -> int:
        try:
            return ctypes.cast(self._dll[name], ctypes.c_void_p).value or 0
        except AttributeError as error:
            raise CompileError(f"compiled code has no such entry: {error}") from None


def load(code: bytes) -> ctypes.CDLL:
    """Loads a shared object through a temporary file in a new folder that only the current user can access.

    The dynamic loader maps the file, so the folder is removed before this returns. The file is verified first, because
    mapping a truncated file would crash the process.
    """
    _check_complete(code)
    try:
        with work_folder() as folder:
            path = folder / f"{hashlib.sha256(code).hexdigest()}.so"
            with path.open("xb") as file:
                file.write(code)
                file.flush()
                os.fsync(file.fileno())
            if path.read_bytes() != code:
                raise CompileError("compiled code was corrupted on disk")
            return ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise CompileError(f"compiled code cannot be loaded: {error}") from None


def _check_complete(code: bytes) -> None:
    """Checks that an ELF file contains its section header table, which is at its end; a truncated file lacks it."""
    if not sys.platform.startswith("linux"):
        return
    is_64_bit = code[4:5] == b"\2"
    offset, size = (40, 8) if is_64_bit else (32, 4)
    table = int.from_bytes(code[offset : offset + size], sys.byteorder)
    entry, count = (int.from_bytes(code[n : n + 2], sys.byteorder) for n in ((58, 60) if is_64_bit else (46, 48)))
    if not code.startswith(b"\x7fELF") or not table or len(code) < table + entry * count:
        raise CompileError("the C compiler wrote an invalid or truncated shared object")
