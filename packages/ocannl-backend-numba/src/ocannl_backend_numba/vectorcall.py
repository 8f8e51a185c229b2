"""The function through which Python calls programs without ctypes: see `direct` in `ocannl.codegen.abi`."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from numba import cfunc, types

from ocannl.backend.cpu import Frame, SymbolRange
from ocannl_backend_numba.memory import ADDRESS, atomic_int, c_function, on_stack, set_word, word
from ocannl_backend_numba.runtime import ENTRY, OPTIONS, inner

INT, LONG = types.int32, types.int64


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


API = ctypes.pythonapi
TUPLE_ITEM, TUPLE_SIZE, TYPE, INCREASE, DECREASE, TO_POINTER, TO_LONG, VECTORCALL = (
    _address(getattr(API, name))
    for name in (
        "PyTuple_GetItem", "PyTuple_Size", "PyObject_Type", "Py_IncRef", "Py_DecRef", "PyLong_AsVoidPtr",
        "PyLong_AsLongLongAndOverflow", "PyObject_Vectorcall",
    )
)  # fmt: skip
NONE, INT_TYPE = id(None), id(int)
PROGRAM, ADDRESSES, CONTROL, EPOCH, CHECKED_EPOCH, COUNT, RANGES = (
    getattr(Frame, name).offset
    for name in ("program", "addresses", "control", "epoch", "checked_epoch", "count", "ranges")
)
NAME, LOW, HIGH = (getattr(SymbolRange, name).offset for name in ("name", "lo", "hi"))
RANGE_BYTES = ctypes.sizeof(SymbolRange)
MAX_SYMBOLS = 16  # of direct calls
SYMBOL_BYTES = 8 * MAX_SYMBOLS

tuple_item = c_function(ADDRESS(ADDRESS, LONG))
of_object = c_function(ADDRESS(ADDRESS))
nothing = c_function(types.void(ADDRESS))
to_long = c_function(LONG(ADDRESS, ADDRESS))
vectorcall = c_function(ADDRESS(ADDRESS, ADDRESS, LONG, ADDRESS))
program = c_function(ENTRY)


@inner
def read_symbols(frame, arguments, names, values):
    """Stores the arguments; returns whether they are the symbols in order, each an int within its bounds."""
    overflow = on_stack(8)
    for n in range(word(frame + COUNT)):
        limits, argument = word(frame + RANGES) + n * RANGE_BYTES, word(arguments + 8 * n)
        if tuple_item(TUPLE_ITEM, (names, n)) != word(limits + NAME):
            return False
        kind = of_object(TYPE, (argument,))
        nothing(DECREASE, (kind,))
        if kind != INT_TYPE:
            return False
        value = to_long(TO_LONG, (argument, overflow))
        if atomic_int(overflow) != 0 or value < word(limits + LOW) or value > word(limits + HIGH):
            return False
        set_word(values + 8 * n, value)
    return True


@cache
def direct():
    """The compiled function. It assumes that objects of CPython have their `id` as address."""

    @cfunc(ADDRESS(ADDRESS, ADDRESS, LONG, ADDRESS), **OPTIONS)
    def direct(owner, arguments, positional, names):
        frame = of_object(TO_POINTER, (tuple_item(TUPLE_ITEM, (owner, 0)),))
        count = word(frame + COUNT)
        values = on_stack(SYMBOL_BYTES)
        size = of_object(TUPLE_SIZE, (names,)) if names != 0 else 0
        is_checked = word(word(frame + EPOCH)) == word(word(frame + CHECKED_EPOCH))
        is_direct = is_checked and positional == 0 and size == count and count <= MAX_SYMBOLS
        if is_direct and read_symbols(frame, arguments, names, values):
            program(word(frame + PROGRAM), (word(frame + ADDRESSES), values, word(frame + CONTROL)))
            nothing(INCREASE, (NONE,))
            return NONE
        return vectorcall(VECTORCALL, (tuple_item(TUPLE_ITEM, (owner, 1)), arguments, positional, names))

    return direct
