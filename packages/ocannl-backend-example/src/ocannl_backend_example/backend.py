"""The backend itself: text in, functions out, on memory of the processor."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np

from ocannl.backend import Capabilities, Code, CompileError, Device, Entry, Location, Queue
from ocannl.backend.cpu.device import CpuDevice, devices
from ocannl.codegen.numbers import rounded
from ocannl.ir.loops import Proc
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import precision
from ocannl_backend_example.emit import HELD, emit, symbol

CAPABILITIES = Capabilities(precisions=frozenset(HELD), scheduled=False)
DIGEST = hashlib.sha256().digest_size
VERSION = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()[:12]


# ---------------------------------------------------------------------------------------------- what the text mentions


def apply(name: str, kind: str, *values: float) -> float:
    """An operation as NumPy computes it; it computes with truth values as small integers."""
    given = np.uint8 if kind == "bool" else precision(kind).numpy.type
    with np.errstate(all="ignore"):
        result: float = np.asarray(BY_NAME[name].numpy(*map(given, values))).item()
    return result


def cast(value: float, source: str, target: str) -> float:
    if precision(source).is_float and not precision(target).is_float:
        return rounded(float(value), precision(target))  # cut off; what has no room becomes the nearest limit
    with np.errstate(all="ignore"):
        result: float = np.asarray(value, precision(source).numpy).astype(precision(target).numpy).item()
    return result


def power(base: int, exponent: int) -> int:
    """Of integers, as far as any type here tells; negative powers are cut off."""
    if exponent >= 0:
        return pow(base, exponent, 1 << 64)
    return (base if exponent % 2 else 1) if abs(base) == 1 else 0


def rounding(held: Any) -> Callable[[float], float]:
    """To a type: floats to the nearest, integers wrap."""
    return lambda value: held(value).value


NAMES: dict[str, object] = {"apply": apply, "cast": cast, "inf": inf, "nan": nan, "power": power}
NAMES |= {held: getattr(ctypes, held) for held in HELD.values()}
NAMES |= {f"as_{name}": rounding(getattr(ctypes, held)) for name, held in HELD.items()}


# ------------------------------------------------------------------------------------------------------------- the seam


class ExampleCode:
    """Implements `Code`: text, and the functions that it defines."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.functions: dict[str, Any] = dict(NAMES)
        try:
            exec(compile(source, "<ocannl example>", "exec"), self.functions)
        except (SyntaxError, RecursionError, MemoryError) as error:  # Python nests only so deep
            raise CompileError(f"Python refused the text of a program: {error}") from None

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
            raise CompileError("these bytes are not what this backend made")
        return ExampleCode(text.decode())

    def link(self, code: Code, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        device = queue.device
        assert isinstance(code, ExampleCode) and isinstance(device, CpuDevice)

        def at(region: int, held: Any, cells: int, offset_bytes: int = 0) -> Any:
            """The cells behind a location; they keep its slab alive."""
            kind = held * cells
            if not cells:
                return kind()  # there is no location of an arena of nothing
            where = locations[region]
            start = Location(where.pool, where.offset_bytes + offset_bytes)
            return kind.from_buffer(device.window(start, ctypes.sizeof(kind)))

        entry: Entry = code.functions[symbol(name)](at)
        return entry

    def device_count(self) -> int:
        return len(devices())

    def device(self, ordinal: int) -> Device:
        return devices()[ordinal]
