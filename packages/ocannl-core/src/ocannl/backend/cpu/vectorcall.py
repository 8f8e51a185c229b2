"""Built-in functions that call compiled code without executing Python code (vectorcall, PEP 590).

The function combines the native `direct` of the backend (see `codegen.abi`) with a tuple that CPython passes as `self`:
the address of a `Frame`, the fallback, and the objects that must outlive the function.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

from ocannl.backend.api import SharedInt64
from ocannl.ir.affine import Sym

FASTCALL, KEYWORDS = 0x80, 0x02


class SymbolRange(ctypes.Structure):
    """The name and the inclusive bounds of a static symbol."""

    _fields_ = (("name", ctypes.py_object), ("lo", ctypes.c_int64), ("hi", ctypes.c_int64))


class Frame(ctypes.Structure):
    """The call frame; its layout is part of the ABI (see `codegen.abi`)."""

    _fields_ = (
        ("program", ctypes.c_void_p),
        ("addresses", ctypes.c_void_p),
        ("control", ctypes.c_void_p),
        ("epoch", ctypes.c_void_p),
        ("checked_epoch", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("ranges", ctypes.POINTER(SymbolRange)),
    )


class Method(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


_Maker = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
_new = _Maker(("PyCFunction_NewEx", ctypes.pythonapi))


def make_function(
    native: int, program: int, addresses: Any, control: Any, name: str, epoch: SharedInt64, checked_epoch: SharedInt64,
    syms: Sequence[Sym], fallback: Callable[..., object], keep_alive: object,
) -> Callable[..., None]:  # fmt: skip
    """Creates the function. `native` and `program` are code addresses; calls are direct while the epochs are equal."""
    ranges = (SymbolRange * max(1, len(syms)))(*(SymbolRange(sys.intern(sym.name), sym.lo, sym.hi) for sym in syms))
    pointers = [ctypes.addressof(struct) for struct in (addresses, control, epoch, checked_epoch)]
    frame = Frame(program, *pointers, len(syms), ranges)
    method = Method(name.encode("ascii"), native, FASTCALL | KEYWORDS, None)
    owner = (ctypes.addressof(frame), fallback, frame, method, addresses, control, epoch, checked_epoch, keep_alive)
    return cast("Callable[..., None]", _new(ctypes.addressof(method), owner, None))
