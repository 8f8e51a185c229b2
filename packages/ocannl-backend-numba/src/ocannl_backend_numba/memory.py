"""Access to memory by address, atomic operations, and calls of C functions, in functions that Numba compiles.

Addresses are int64. An array is a C pointer, whose cells are read and written as `y[i]`, without checks of bounds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin

WORD, INT = ir.IntType(64), ir.IntType(32)
ADDRESS = types.int64


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        array, _ = args
        return signature(array.dtype, array, types.int64) if isinstance(array, types.CPointer) else None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        array, _, _ = args
        return signature(types.none, array, types.int64, array.dtype) if isinstance(array, types.CPointer) else None


@lower_builtin(operator.getitem, types.CPointer, types.Integer)
def _get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.load(builder.gep(args[0], [args[1]], inbounds=True))


@lower_builtin(operator.setitem, types.CPointer, types.Integer, types.Any)
def _set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    builder.store(args[2], builder.gep(args[0], [args[1]], inbounds=True))
    return context.get_dummy_value()


@intrinsic
def array_at(typing: Any, address: Any, kind: Any) -> Any:
    """The array of numbers of a type that begins at an address."""
    pointer = types.CPointer(kind.dtype)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(pointer))

    return pointer(ADDRESS, kind), generate


@intrinsic(prefer_literal=True)
def on_stack(typing: Any, size: Any) -> Any:
    """The address of a block of bytes on the stack, whose size is a literal."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        with builder.goto_entry_block():
            block = builder.alloca(ir.ArrayType(ir.IntType(8), size.literal_value))
            block.align = 64
        return builder.ptrtoint(block, WORD)

    return ADDRESS(size), generate


def _at(builder: Any, address: Any, type_: Any = WORD) -> Any:
    return builder.inttoptr(address, type_.as_pointer())


@intrinsic
def word(typing: Any, address: Any) -> Any:
    """The int64 or pointer at an address."""
    return types.int64(ADDRESS), lambda context, builder, sig, args: builder.load(_at(builder, args[0]))


@intrinsic
def set_word(typing: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[1], _at(builder, args[0]))
        return context.get_dummy_value()

    return types.void(ADDRESS, types.int64), generate


def _atomic(generate: Callable[..., Any], result: Any, *parameters: Any) -> Any:
    return result(*parameters), lambda context, builder, sig, args: generate(builder, *args)


@intrinsic
def atomic_word(typing: Any, address: Any) -> Any:
    return _atomic(lambda b, at: b.load_atomic(_at(b, at), "seq_cst", 8), types.int64, ADDRESS)


@intrinsic
def atomic_int(typing: Any, address: Any) -> Any:
    return _atomic(lambda b, at: b.load_atomic(_at(b, at, INT), "seq_cst", 4), types.int32, ADDRESS)


@intrinsic
def set_atomic_word(typing: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store_atomic(args[1], _at(builder, args[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(ADDRESS, types.int64), generate


@intrinsic
def atomic_add(typing: Any, address: Any, value: Any) -> Any:
    """Adds to a word, and returns the old value."""
    return _atomic(lambda b, at, n: b.atomic_rmw("add", _at(b, at), n, "seq_cst"), types.int64, ADDRESS, types.int64)


@intrinsic
def replaces(typing: Any, address: Any, old: Any, new: Any) -> Any:
    """Replaces a word if it has the old value, and returns whether it had."""

    def generate(b: Any, at: Any, old: Any, new: Any) -> Any:
        return b.extract_value(b.cmpxchg(_at(b, at), old, new, "seq_cst", "seq_cst"), 1)

    return _atomic(generate, types.boolean, ADDRESS, types.int64, types.int64)


def c_function(sig: Any) -> Any:
    """A function that calls the C function of this signature at an address, with a tuple of arguments."""

    @intrinsic
    def call(typing: Any, address: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, outer: Any, args: Any) -> Any:
            values = zip(cgutils.unpack_tuple(builder, args[1]), outer.args[1], sig.args, strict=True)
            operands = [context.cast(builder, value, source, target) for value, source, target in values]
            is_void = sig.return_type == types.void
            result = ir.VoidType() if is_void else context.get_value_type(sig.return_type)
            type_ = ir.FunctionType(result, [context.get_value_type(parameter) for parameter in sig.args])
            returned = builder.call(_at(builder, args[0], type_), operands)
            return context.get_dummy_value() if is_void else returned

        return sig.return_type(ADDRESS, arguments), generate

    return call
