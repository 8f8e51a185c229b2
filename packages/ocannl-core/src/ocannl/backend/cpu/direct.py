"""Functions through which users call compiled code with no Python in between.

Such a function is one of Python's own kind, made of the native `direct` of the backend (see `codegen.params`) and of a
tuple that Python hands to it at each call: the address of a `Frame`, whom to call otherwise, and what must outlive it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

from ocannl.backend.api import Number
from ocannl.ir.index import Sym

FASTCALL, KEYWORDS = 0x80, 0x02


class Given(ctypes.Structure):
    """A static symbol: its name, and the least and the greatest value."""

    _fields_ = (("name", ctypes.py_object), ("lo", ctypes.c_int64), ("hi", ctypes.c_int64))


class Frame(ctypes.Structure):
    """The layout is part of the interface: see `codegen.params`."""

    _fields_ = (
        ("program", ctypes.c_void_p),
        ("addresses", ctypes.c_void_p),
        ("control", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
        ("seen", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("given", ctypes.POINTER(Given)),
    )


class Method(ctypes.Structure):
    """Python's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


_Maker = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
_new = _Maker(("PyCFunction_NewEx", ctypes.pythonapi))


def made(
    native: int, program: int, addresses: Any, control: Any, name: str, state: Number, seen: Number,
    syms: Sequence[Sym], otherwise: Callable[..., object], holds: object,
) -> Callable[..., None]:  # fmt: skip
    """The function. `native` and `program` are addresses of code; `state` and `seen` are numbers that it looks at."""
    given = (Given * max(1, len(syms)))(*(Given(sys.intern(sym.name), sym.lo, sym.hi) for sym in syms))
    at = [ctypes.addressof(each) for each in (addresses, control, state, seen)]
    frame = Frame(program, *at, len(syms), given)
    method = Method(name.encode("ascii"), native, FASTCALL | KEYWORDS, None)
    kept = (ctypes.addressof(frame), otherwise, frame, method, addresses, control, state, seen, holds)
    return cast("Callable[..., None]", _new(ctypes.addressof(method), kept, None))
