"""Kernels run by triton's interpreter, on the memory of the processor.

The interpreter computes with NumPy, one program of the grid after the other. A few things are put right while kernels
of this backend run: conversions to narrow floats round to the nearest, as hardware does; matrices of bfloat16 are
multiplied as numbers; a truth value that becomes a block stays one; blocks are folded half onto half instead of one
number at a time; and functions of the CUDA library are those of NumPy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpretedFunction, TensorHandle

from ocannl.backend import CompileError, Entry, Location, Queue
from ocannl.backend.cpu.device import CpuDevice, devices
from ocannl.backend.cpu.queue import CpuQueue
from ocannl_backend_triton.kernel import SCRATCH, STATICS, Argument, Module
from ocannl_backend_triton.load import load
from ocannl_backend_triton.package import Binaries, Package

Array = np.ndarray[Any, Any]
_running = threading.RLock()  # the interpreter keeps the program that it runs in one place
NARROW = {tl.bfloat16: ml_dtypes.bfloat16, tl.float8e5: ml_dtypes.float8_e5m2, tl.float8e4nv: ml_dtypes.float8_e4m3fn}


def functions(module: Module) -> dict[str, Any]:
    """Kernels by name, to be launched as those of triton are, in whatever mode it was imported."""
    namespace = load(module)
    namespace["range"] = _range
    if "libdevice" in namespace:
        namespace["libdevice"] = LIBRARY
    made = {name: thing for name, thing in namespace.items() if hasattr(thing, "fn")}
    interpreted = {name: InterpretedFunction(thing.fn) for name, thing in made.items()}
    kernels = {kernel.name for kernel in module.kernels}
    for name, function in interpreted.items():
        if name not in kernels:  # called from kernels: as plain functions, once the interpreter has rewritten them
            namespace[name] = function.rewrite()
    return {name: interpreted[name] for name in kernels}


class InterpretingMachine:
    """Implements `Machine`."""

    words = "interpreter"
    targets = ()

    def devices(self) -> Sequence[CpuDevice]:
        return devices()

    def compile(self, modules: Sequence[Module]) -> Binaries:
        return {}

    def link(self, package: Package, number: int, queue: Queue, locations: Sequence[Location]) -> Entry:
        device = queue.device
        assert isinstance(device, CpuDevice) and isinstance(queue, CpuQueue)
        return link(package.modules[number], device, queue, locations)


def link(module: Module, device: CpuDevice, queue: CpuQueue, locations: Sequence[Location]) -> Entry:
    """The program on memory of its own."""
    memory = [device.window(where, size) for where, (_, size) in zip(locations, module.regions, strict=True)]
    statics = np.zeros(max(module.symbols, 1), np.int64)
    own: dict[int, Array] = {STATICS: statics.view(np.uint8), SCRATCH: np.empty(module.scratch_bytes + 1, np.uint8)}

    def pointer(argument: Argument) -> Any:
        region = own.get(argument.region)
        start = (memory[argument.region] if region is None else region).ctypes.data
        kind = tl.pointer_type(tl.str_to_ty(argument.type, None))
        return tl.tensor(TensorHandle(np.array([start + argument.offset_bytes], np.uint64), kind), kind)

    made = functions(module)
    launches = [
        (made[kernel.name], kernel.grid, [*map(pointer, kernel.arguments), *(value for _, value in kernel.constants)])
        for kernel in module.kernels
    ]
    control = queue.control

    def entry(*values: int) -> bool:
        with interpreting():
            statics[: len(values)] = values
            for function, grid, arguments in launches:
                if control.cancelled:
                    return True
                _launch(function, grid, arguments)
        return False

    entry.memory = memory, own  # type: ignore[attr-defined] # what the pointers point to
    return entry


def _launch(function: Any, grid: tuple[int, int, int], arguments: Sequence[Any]) -> None:
    try:
        function[grid](*arguments)
    except interpreter.InterpreterError as error:
        raise CompileError(f"the interpreter of triton refused `{function.__name__}`: {error}") from error


@contextmanager
def interpreting() -> Iterator[None]:
    """The interpreter, put right, for this thread alone."""
    options = interpreter.InterpreterOptions(sanitize_overflow=False)
    with _running, np.errstate(all="ignore"), ExitStack() as held:
        held.enter_context(patch.object(interpreter, "_convert_float", _converted))
        held.enter_context(patch.object(interpreter.InterpreterBuilder, "cast_impl", _cast))
        held.enter_context(patch.object(interpreter.InterpreterBuilder, "create_splat", _splat))
        held.enter_context(patch.object(interpreter.InterpreterBuilder, "create_dot", _dot))
        held.enter_context(patch.object(interpreter.InterpreterBuilder, "get_bf16", _bfloat16, create=True))
        held.enter_context(patch.object(interpreter.ReduceOps, "generic_reduce", _fold))
        held.enter_context(patch.object(interpreter.interpreter_builder, "options", options))
        yield


def _converted(given: Array, source: Any, target: Any, rounding: object = None) -> Array:
    """The nearest numbers of another type, as the interpreter holds them."""
    numbers = given.view(NARROW[source]) if source in NARROW else given
    return numbers.astype(NARROW.get(target, interpreter._get_np_dtype(target))).view(interpreter._get_np_dtype(target))


def _cast(builder: Any, given: Any, target: Any) -> Any:
    return TensorHandle(_converted(given.data, given.dtype.scalar, target.scalar), target.scalar)


def _dot(builder: Any, left: Any, right: Any, total: Any, *precision: object) -> Any:
    """Narrow factors as they are held are no numbers."""
    wide = [_converted(x.data, x.dtype.scalar, total.dtype.scalar) for x in (left, right)]
    return TensorHandle(np.matmul(*wide) + total.data, total.dtype.scalar)


def _range(*bounds: Any) -> range:
    return range(*(int(b.handle.data.item()) if isinstance(b, tl.tensor) else b for b in bounds))


def _bfloat16(builder: Any, value: float) -> Any:
    return TensorHandle(np.array([value], ml_dtypes.bfloat16).view(np.uint16), tl.bfloat16)


def _splat(builder: Any, kind: Any, given: Any) -> Any:
    """What compares has truth values, whatever the handle says."""
    return TensorHandle(np.full(kind.shape, given.data), given.dtype.scalar)


def _fold(reduction: Any, given: tuple[Any, ...]) -> list[Any]:
    """Half onto half, by the function that the kernel gives: as many numbers as a power of two."""
    (block,) = given
    function: Callable[..., Any] = getattr(reduction.combine_fn, "fn", reduction.combine_fn)
    numbers = np.moveaxis(block.handle.data, reduction.axis, 0)
    while len(numbers) > 1:
        half = len(numbers) // 2
        parts = (np.ascontiguousarray(part) for part in (numbers[:half], numbers[half:]))
        numbers = function(*(reduction.to_tensor(part, block.dtype) for part in parts)).handle.data
    if reduction.keep_dims:
        return [reduction.to_tensor(np.moveaxis(numbers, 0, reduction.axis), block.dtype)]
    return [reduction.to_tensor(numbers[0], block.dtype)]


def _function(compute: Callable[..., Array]) -> Callable[..., Any]:
    def called(*given: Any) -> Any:
        numbers = compute(*(x.handle.data for x in given)).astype(given[0].handle.data.dtype)
        kind = given[0].dtype
        shape = list(np.broadcast_shapes(*(tuple(x.shape) for x in given)))
        return tl.tensor(TensorHandle(numbers, kind), tl.block_type(kind, shape) if shape else kind)

    return called


def _power(x: Array, y: Array) -> Array:
    return np.where((y == 0.5) & (x == -np.inf), np.abs(x), np.power(x, y))


LIBRARY = SimpleNamespace(tanh=_function(np.tanh), pow=_function(_power), fmod=_function(np.fmod))
