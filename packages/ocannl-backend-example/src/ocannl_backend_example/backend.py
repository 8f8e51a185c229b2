"""The backend itself: executes programs as Python functions on CPU memory."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np

from ocannl.backend import Capabilities, CompiledCode, CompileError, Device, Entry, Location, Queue
from ocannl.backend.cpu.device import CpuDevice, devices
from ocannl.codegen.numbers import rounded
from ocannl.ir.loops import Proc
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import precision
from ocannl_backend_example.emit import CTYPES, emit, symbol

CAPABILITIES = Capabilities(precisions=frozenset(CTYPES), wants_schedule=False)
DIGEST = hashlib.sha256().digest_size
VERSION = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()[:12]


# ----------------------------------------------------------------------------------------------- names used by the text


def apply(name: str, kind: str, *values: float) -> float:
    """Applies an operation with NumPy; bool operands are computed as uint8."""
    type_ = np.uint8 if kind == "bool" else precision(kind).numpy.type
    with np.errstate(all="ignore"):
        result: float = np.asarray(BY_NAME[name].numpy(*map(type_, values))).item()
    return result


def cast(value: float, source: str, target: str) -> float:
    if precision(source).is_float and not precision(target).is_float:
        return rounded(float(value), precision(target))  # truncates and saturates
    with np.errstate(all="ignore"):
        result: float = np.asarray(value, precision(source).numpy).astype(precision(target).numpy).item()
    return result


def checked(index: int) -> int:
    """An index of an array, in which Python would count negative ones from the end."""
    if index < 0:
        raise IndexError(f"index {index} is negative")
    return index


def power(base: int, exponent: int) -> int:
    """The power of integers modulo 2**64; negative exponents truncate towards zero."""
    if exponent >= 0:
        return pow(base, exponent, 1 << 64)
    return (base if exponent % 2 else 1) if abs(base) == 1 else 0


def rounding_function(ctype: Any) -> Callable[[float], float]:
    """A function that rounds to a type: floats to nearest, integers wrap around."""
    return lambda value: ctype(value).value


NAMES: dict[str, object] = {"apply": apply, "cast": cast, "checked": checked, "inf": inf, "nan": nan, "power": power}
NAMES |= {ctype: getattr(ctypes, ctype) for ctype in CTYPES.values()}
NAMES |= {f"as_{name}": rounding_function(getattr(ctypes, ctype)) for name, ctype in CTYPES.items()}


# ---------------------------------------------------------------------------------------------------- backend interface


class ExampleCode:
    """Implements `CompiledCode`: Python text and the functions it defines."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.functions: dict[str, Any] = dict(NAMES)
        try:
            exec(compile(source, "<ocannl example>", "exec"), self.functions)
        except (SyntaxError, RecursionError, MemoryError) as error:  # nesting exceeds Python's limits
            raise CompileError(f"Python rejected the source of a program: {error}") from None

    @property
    def blob(self) -> bytes:
        text = self.source.encode()
        return hashlib.sha256(text).digest() + text


class ExampleBackend:
    """Implements `Backend`."""

    name = "example"
    capabilities = CAPABILITIES

    @property
    def version(self) -> str:
        return VERSION

    def compile(self, procs: Sequence[Proc]) -> ExampleCode:
        return ExampleCode(emit(procs))

    def restore(self, blob: bytes) -> ExampleCode:
        digest, text = blob[:DIGEST], blob[DIGEST:]
        if hashlib.sha256(text).digest() != digest:
            raise CompileError("these bytes are not code of this backend")
        return ExampleCode(text.decode())

    def link(self, code: CompiledCode, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        device = queue.device
        assert isinstance(code, ExampleCode) and isinstance(device, CpuDevice)

        def at(region: int, ctype: Any, cells: int, offset_bytes: int = 0) -> Any:
            """An array of the cells at a location; it keeps the memory alive."""
            array_type = ctype * cells
            if not cells:
                return array_type()  # an empty arena has no location
            location = locations[region]
            start = Location(location.pool, location.offset_bytes + offset_bytes)
            return array_type.from_buffer(device.window(start, ctypes.sizeof(array_type)))

        entry: Entry = code.functions[symbol(name)](at)
        return entry

    def device_count(self) -> int:
        return len(devices())

    def device(self, ordinal: int) -> Device:
        return devices()[ordinal]
