"""Runs kernels in Triton's interpreter, on CPU memory.

The interpreter executes the programs of the grid one by one, with NumPy. It is patched while kernels of this backend
run: conversions to narrow floats round to nearest, as hardware does; bfloat16 operands of `tl.dot` are converted to
values first; booleans broadcast to a block stay booleans; reductions combine halves instead of single elements; and
libdevice functions are those of NumPy.
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
from ocannl.ir.ops import BY_NAME
from ocannl_backend_triton.exec_source import load_module
from ocannl_backend_triton.kernel_module import SCRATCH_REGION, STATICS_REGION, Argument, KernelModule
from ocannl_backend_triton.serialization import Binaries, KernelPackage

Array = np.ndarray[Any, Any]
_lock = threading.RLock()  # the interpreter's state is global
NARROW = {tl.bfloat16: ml_dtypes.bfloat16, tl.float8e5: ml_dtypes.float8_e5m2, tl.float8e4nv: ml_dtypes.float8_e4m3fn}


def interpreted_kernels(module: KernelModule) -> dict[str, Any]:
    """Interpreted kernels by name, launched like compiled ones, in whatever mode Triton was imported."""
    namespace = load_module(module)
    namespace["range"] = _range
    if "libdevice" in namespace:
        namespace["libdevice"] = LIBDEVICE
    jitted = {name: value for name, value in namespace.items() if hasattr(value, "fn")}
    interpreted = {name: InterpretedFunction(value.fn) for name, value in jitted.items()}
    kernels = {kernel.name for kernel in module.kernels}
    for name, function in interpreted.items():
        if name not in kernels:  # helpers are called as plain functions, rewritten by the interpreter
            namespace[name] = function.rewrite()
    return {name: interpreted[name] for name in kernels}


class InterpretingMachine:
    """Implements `Machine`."""

    fingerprint = "interpreter"
    targets = ()

    def devices(self) -> Sequence[CpuDevice]:
        return devices()

    def compile(self, modules: Sequence[KernelModule]) -> Binaries:
        return {}

    def link(self, package: KernelPackage, number: int, queue: Queue, locations: Sequence[Location]) -> Entry:
        device = queue.device
        assert isinstance(device, CpuDevice) and isinstance(queue, CpuQueue)
        return link(package.modules[number], device, queue, locations)


def link(module: KernelModule, device: CpuDevice, queue: CpuQueue, locations: Sequence[Location]) -> Entry:
    """Binds a module to memory of the CPU."""
    memory = [device.window(where, size) for where, (_, size) in zip(locations, module.regions, strict=True)]
    statics = np.zeros(max(module.symbols, 1), np.int64)
    backend_memory: dict[int, Array] = {
        STATICS_REGION: statics.view(np.uint8),
        SCRATCH_REGION: np.empty(module.scratch_bytes + 1, np.uint8),
    }

    def pointer(argument: Argument) -> Any:
        region = backend_memory.get(argument.region)
        start = (memory[argument.region] if region is None else region).ctypes.data
        element_type = tl.pointer_type(tl.str_to_ty(argument.type, None))
        return tl.tensor(TensorHandle(np.array([start + argument.offset_bytes], np.uint64), element_type), element_type)

    kernels = interpreted_kernels(module)
    launches = []
    for kernel in module.kernels:
        constants = [value for _, value in kernel.constants]
        launches.append((kernels[kernel.name], kernel.grid, [*map(pointer, kernel.arguments), *constants]))
    control = queue.control

    def entry(*values: int) -> bool:
        with interpreting():
            statics[: len(values)] = values
            for function, grid, arguments in launches:
                if control.cancelled:
                    return True
                _launch(function, grid, arguments)
        return False

    entry.memory = memory, backend_memory  # type: ignore[attr-defined] # keeps the kernels' memory alive
    return entry


def _launch(function: Any, grid: tuple[int, int, int], arguments: Sequence[Any]) -> None:
    try:
        function[grid](*arguments)
    except interpreter.InterpreterError as error:
        raise CompileError(f"Triton's interpreter rejected `{function.__name__}`: {error}") from error


@contextmanager
def interpreting() -> Iterator[None]:
    """Patches the interpreter, for one thread at a time."""
    options = interpreter.InterpreterOptions(sanitize_overflow=False)
    with _lock, np.errstate(all="ignore"), ExitStack() as stack:
        stack.enter_context(patch.object(interpreter, "_convert_float", _convert))
        stack.enter_context(patch.object(interpreter.InterpreterBuilder, "cast_impl", _cast))
        stack.enter_context(patch.object(interpreter.InterpreterBuilder, "create_splat", _splat))
        stack.enter_context(patch.object(interpreter.InterpreterBuilder, "create_dot", _dot))
        stack.enter_context(patch.object(interpreter.InterpreterBuilder, "get_bf16", _bfloat16, create=True))
        stack.enter_context(patch.object(interpreter.ReduceOps, "generic_reduce", _tree_reduce))
        stack.enter_context(patch.object(interpreter.interpreter_builder, "options", options))
        yield


def _convert(array: Array, source: Any, target: Any, rounding: object = None) -> Array:
    """Converts to another type, rounding to nearest. Narrow floats are represented by their bits."""
    numbers = array.view(NARROW[source]) if source in NARROW else array
    return numbers.astype(NARROW.get(target, interpreter._get_np_dtype(target))).view(interpreter._get_np_dtype(target))


def _cast(builder: Any, operand: Any, target: Any) -> Any:
    return TensorHandle(_convert(operand.data, operand.dtype.scalar, target.scalar), target.scalar)


def _dot(builder: Any, left: Any, right: Any, total: Any, *precision: object) -> Any:
    """`tl.dot` on values: narrow operands are stored as bits, so they are widened first."""
    wide = [_convert(x.data, x.dtype.scalar, total.dtype.scalar) for x in (left, right)]
    return TensorHandle(np.matmul(*wide) + total.data, total.dtype.scalar)


def _range(*bounds: Any) -> range:
    return range(*(int(b.handle.data.item()) if isinstance(b, tl.tensor) else b for b in bounds))


def _bfloat16(builder: Any, value: float) -> Any:
    return TensorHandle(np.array([value], ml_dtypes.bfloat16).view(np.uint16), tl.bfloat16)


def _splat(builder: Any, element_type: Any, operand: Any) -> Any:
    """Broadcasts with the operand's own type: the requested one is wrong for comparisons."""
    return TensorHandle(np.full(element_type.shape, operand.data), operand.dtype.scalar)


def _tree_reduce(reduction: Any, operands: tuple[Any, ...]) -> list[Any]:
    """Pairwise reduction with the kernel's combine function; the length of the axis is a power of two."""
    (block,) = operands
    function: Callable[..., Any] = getattr(reduction.combine_fn, "fn", reduction.combine_fn)
    numbers = np.moveaxis(block.handle.data, reduction.axis, 0)
    while len(numbers) > 1:
        half = len(numbers) // 2
        parts = (np.ascontiguousarray(part) for part in (numbers[:half], numbers[half:]))
        numbers = function(*(reduction.to_tensor(part, block.dtype) for part in parts)).handle.data
    if reduction.keep_dims:
        return [reduction.to_tensor(np.moveaxis(numbers, 0, reduction.axis), block.dtype)]
    return [reduction.to_tensor(numbers[0], block.dtype)]


def _elementwise(compute: Callable[..., Array]) -> Callable[..., Any]:
    def function(*operands: Any) -> Any:
        element_type = operands[0].dtype
        numbers = compute(*(x.handle.data for x in operands)).astype(operands[0].handle.data.dtype)
        shape = list(np.broadcast_shapes(*(tuple(x.shape) for x in operands)))
        block_type = tl.block_type(element_type, shape) if shape else element_type
        return tl.tensor(TensorHandle(numbers, element_type), block_type)

    return function


def _power(x: Array, y: Array) -> Array:
    return np.where((y == 0.5) & (x == -np.inf), np.abs(x), np.power(x, y))


LIBDEVICE = SimpleNamespace(
    pow=_elementwise(_power),
    fmod=_elementwise(np.fmod),
    **{name: _elementwise(BY_NAME[name].numpy) for name in ("tanh", "atan", "atan2", "erf", "erfc", "lgamma")},
)
