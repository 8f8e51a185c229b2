"""The LLVM backend: compiles programs for the processor it runs on."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from ocannl import codegen
from ocannl.backend import Capabilities, Code, CompileError, Entry, Location, Queue, Unsupported
from ocannl.backend.cpu import CpuDevice, devices
from ocannl.codegen import Region, signature
from ocannl.ir.loops import Proc
from ocannl.ir.names import identifier
from ocannl_backend_llvm import engine
from ocannl_backend_llvm.code import LlvmCode
from ocannl_backend_llvm.emit import emit
from ocannl_backend_llvm.types import HELD

CAPABILITIES = Capabilities(precisions=frozenset(precision.name for precision in HELD))


@cache
def _version() -> str:
    """The distribution, the very text of the emitter, LLVM, and the target: whatever changes code changes this."""
    digest = hashlib.sha256()
    for module in (__file__, codegen.__file__):
        for source in sorted(Path(module).parent.glob("*.py")):
            digest.update(source.read_bytes())
    try:
        release = metadata.version("ocannl-backend-llvm")
    except metadata.PackageNotFoundError:
        release = "uninstalled"  # imported from its source
    return f"{release}-{digest.hexdigest()[:12]} {engine.llvm_version()} {engine.host()}"


class LlvmBackend:
    """Implements `Backend`."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return "llvm"

    @property
    def version(self) -> str:
        return _version()

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def compile(self, procs: Sequence[Proc]) -> LlvmCode:
        names = [proc.name for proc in procs]
        if len(set(names)) != len(names) or any(identifier(name) != name for name in names):
            raise CompileError(f"names of programs must be distinct identifiers: {', '.join(names)}")
        for proc in procs:
            for buf in proc.bufs:
                if buf.precision.name not in CAPABILITIES.precisions:
                    raise Unsupported(f"`{buf.name}` is {buf.precision}, not among the `precisions` of backend `llvm`")
        target = engine.host()
        return LlvmCode.of([signature(proc) for proc in procs], emit(procs, target.has_half), target)

    def restore(self, blob: bytes) -> LlvmCode:
        return LlvmCode.restore(blob, engine.host())

    def link(self, code: Code, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        """Two threads must not call the same entry at once: it has one place for the values of its symbols."""
        device = queue.device
        assert isinstance(code, LlvmCode) and isinstance(device, CpuDevice)
        program = code.programs[name]
        regions, symbols = program.signature.regions, program.signature.symbols
        if len(locations) != len(regions):
            raise CompileError(f"`{name}` works on {len(regions)} regions of memory and is given {len(locations)}")
        starts = [device.address(where) for where in locations]
        _refuse_overlap(name, regions, starts)
        addresses = (ctypes.c_void_p * max(1, len(starts)))(*starts)
        values = (ctypes.c_int64 * max(1, symbols))()
        native = ctypes.CFUNCTYPE(None)(program.address)
        # Arguments by reference and no declared types: the fastest call that ctypes has. It lets other threads run.
        run = partial(native, ctypes.byref(addresses), ctypes.byref(values))
        entry = _with_symbols(run, values, symbols)
        entry.holds = (code, queue, tuple(locations))  # what must outlive the entry
        return cast(Entry, entry)

    def device_count(self) -> int:
        return len(devices())

    def device(self, ordinal: int) -> CpuDevice:
        return devices()[ordinal]


def _with_symbols(run: Callable[[], None], values: Any, symbols: int) -> Any:
    """A function that puts the values of the static symbols where the program reads them, then runs it."""
    if symbols == 0:
        return run
    cells = memoryview(values).cast("B").cast("q")

    def entry(value: int) -> None:
        cells[0] = value
        run()

    def general(*given: int) -> None:
        values[:] = given
        run()

    return entry if symbols == 1 else general


def _refuse_overlap(name: str, regions: Sequence[Region], starts: Sequence[int]) -> None:
    """Generated code relies on it that what it writes is in no other region."""
    end = end_written = 0
    for start, region in sorted(zip(starts, regions, strict=True), key=lambda pair: pair[0]):
        if region.nbytes and start < (end if region.written else end_written):
            raise CompileError(f"`{region.name}` shares memory with another array of `{name}`, and one is written")
        end = max(end, start + region.nbytes)
        if region.written:
            end_written = max(end_written, start + region.nbytes)
