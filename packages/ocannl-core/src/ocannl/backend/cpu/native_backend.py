"""The base of backends that compile programs for the host CPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import lru_cache

from ocannl.backend.api import CompiledCode, Entry, Location, Queue
from ocannl.backend.cpu.cpu_description import Compiler, host_cpu
from ocannl.backend.cpu.device import CpuDevice, devices
from ocannl.backend.cpu.native_code import NativeCode, validate
from ocannl.base.config import PRECOMPUTE_WEIGHTS
from ocannl.base.errors import CompileError
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.cpu import Cpu
from ocannl.ir.loops import Proc
from ocannl.ir.precision import Precision

FLOAT32_BYTES = 4


def native_capabilities(
    precisions: Iterable[Precision], vector_registers: tuple[int, int], compile: Compiler
) -> Capabilities:
    """The capabilities of native code: loops over vectors, tiled for the processor at hand, and clocks.

    `vector_registers` are the size in bytes and the number of vector registers; `compile` is `compile_valid`, for the
    programs that measure the processor."""
    width, registers = vector_registers
    cpu = host_cpu(compile, width // FLOAT32_BYTES)
    kinds, precomputes = frozenset(precision.name for precision in precisions), bool(PRECOMPUTE_WEIGHTS.get())
    return _capabilities(kinds, precomputes, width, registers, cpu)


@lru_cache(maxsize=16)
def _capabilities(
    precisions: frozenset[str], precomputes: bool, width: int, registers: int, cpu: Cpu
) -> Capabilities:
    return Capabilities(
        precisions, wants_precomputed_weights=precomputes, vector_bytes=width, vector_registers=registers, cpu=cpu,
        timestamps=True,
    )  # fmt: skip


class NativeBackend(ABC):
    """Implements `Backend` on the CPU devices of this process. A subclass compiles and restores `NativeCode`."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def version(self) -> str:
        """See `Backend.version`; `backend_version` hashes the sources of the backend."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @abstractmethod
    def compile_valid(self, procs: Sequence[Proc]) -> NativeCode:
        """Compiles programs with distinct names that use claimed precisions only."""

    def restore(self, blob: bytes) -> NativeCode:
        """See `Backend.restore`; the code of a backend without an implementation is not stored."""
        raise CompileError(f"backend `{self.name}` stores no compiled code")

    def compile(self, procs: Sequence[Proc]) -> NativeCode:
        validate(procs, self.capabilities, self.name)
        return self.compile_valid(procs)

    def link(self, code: CompiledCode, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        assert isinstance(code, NativeCode)
        return code.link(name, queue, locations)

    def device_count(self) -> int:
        return len(devices())

    def device(self, ordinal: int) -> CpuDevice:
        return devices()[ordinal]
