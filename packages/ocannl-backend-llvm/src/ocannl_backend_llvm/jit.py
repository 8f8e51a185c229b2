"""The LLVM JIT: the host target, and loading of object code."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import count
from typing import Any

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding import ffi

from ocannl.backend import CompileError
from ocannl.base.forks import hold_during_fork
from ocannl.ir.name_mangling import identifier
from ocannl_backend_llvm.builder import Instructions
from ocannl_backend_llvm.interrupts import not_interrupted
from ocannl_backend_llvm.tile_permission import may_use_tiles

CODEGEN_LEVEL = 2
VECTOR_REGISTERS = {"+avx512f": (64, 32), "+avx": (32, 16), "+neon": (16, 32)}
"""Size in bytes and number of vector registers, by CPU feature; the first match counts."""
BASELINE_REGISTERS = (16, 16)
LIBRARIES_PER_ENGINE = 16
"""An engine of its own for each library would take 120 KiB."""


@dataclass(frozen=True, slots=True)
class Target:
    """A compilation target; objects are not portable between targets."""

    triple: str
    cpu: str
    features: str

    @property
    def instructions(self) -> Instructions:
        present = self.features.split(",")
        half = "+f16c" in present or self.triple.startswith(("aarch64", "arm64"))
        vectors = "+avx512f" in present and "+avx512vl" in present
        tiles = "+amx-tile" in present and "+amx-bf16" in present
        return Instructions(half, vectors, vectors and "+avx512bf16" in present, self._int16_lanes(present), tiles)

    def _int16_lanes(self, present: Sequence[str]) -> int:
        """The lanes of `pmaddwd` in the widest registers; 0 if these are too wide for it."""
        needed = {64: "+avx512bw", 32: "+avx2", 16: "+sse2"}
        size, _ = self.vector_registers
        return size // 4 if needed[size] in present else 0

    @property
    def vector_registers(self) -> tuple[int, int]:
        """Size in bytes and number of vector registers."""
        present = self.features.split(",")
        return next(
            (registers for feature, registers in VECTOR_REGISTERS.items() if feature in present), BASELINE_REGISTERS
        )

    def __str__(self) -> str:
        digest = hashlib.sha256(self.features.encode("ascii")).hexdigest()[:12]
        return f"{self.triple} {self.cpu} features-{digest}"


@cache
def host() -> Target:
    return not_interrupted(_initialize)


def _initialize() -> Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    if features.get("amx-tile") and not may_use_tiles():
        features.update({name: False for name in features if name.startswith("amx-")})
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), features.flatten(sort=True))


def symbol(name: str) -> str:
    """The symbol of a program's entry function; the prefix avoids clashes with libraries."""
    return f"ocannl.{identifier(name)}"


def llvm_version() -> str:
    return f"llvmlite-{llvmlite.__version__} llvm-{'.'.join(map(str, llvm.llvm_version_info))}"


def machine(target: Target) -> Any:
    llvm_target = llvm.Target.from_triple(target.triple)
    return llvm_target.create_target_machine(
        cpu=target.cpu, features=target.features, opt=CODEGEN_LEVEL, reloc="pic", codemodel="default", jit=True
    )


def _lock_around_forks() -> None:
    """Acquires llvmlite's lock around forks; a lock held by another thread would never be released in the child."""
    lock: Any = getattr(ffi.lib, "_lock", None)
    if hasattr(lock, "__exit__"):
        hold_during_fork(lock.__enter__, partial(lock.__exit__, None, None, None))


_lock_around_forks()


class JitLibrary:
    """Linked object code, unloaded when this handle is garbage-collected."""

    __slots__ = ("_addresses", "_resources")

    def __init__(self, engine: Any, tracker: Any, symbols: Iterable[str]) -> None:
        self._resources = [engine, tracker]  # unloaded from the end
        self._addresses = {symbol: int(tracker[symbol]) for symbol in symbols}

    def address(self, symbol: str) -> int:
        return self._addresses[symbol]

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():  # else the globals of this module may be gone
            not_interrupted(self._resources.clear)


@lru_cache(maxsize=1)
def _engine(group: int) -> Any:
    """Returns the engine of a group of libraries. It is freed with the last of them, since LLVM keeps nine KiB for each
    library of an engine after its code has been unloaded."""
    return llvm.create_lljit_compiler(machine(host()), use_jit_link=True, suppress_errors=True)


_libraries = count(1)


def load(objects: Iterable[bytes], symbols: Sequence[str]) -> JitLibrary:
    """Links objects with each other and with the mathematical functions of this process."""
    builder = llvm.JITLibraryBuilder().add_current_process()
    for code in objects:
        builder.add_object_img(code)
    for symbol in symbols:
        builder.export_symbol(symbol)
    number = next(_libraries)
    engine = _engine(number // LIBRARIES_PER_ENGINE)
    try:
        return JitLibrary(engine, builder.link(engine, f"ocannl-{number}"), symbols)
    except RuntimeError as error:
        raise CompileError(f"LLVM cannot link generated code: {str(error).strip()}") from None
