"""LLVM itself: what it makes code for, and object code into this process."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from typing import Any

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding import ffi

from ocannl.backend import CompileError
from ocannl.ir.names import identifier
from ocannl_backend_llvm.build import Instructions

CODEGEN_LEVEL = 2
VECTORS = {"+avx512f": (64, 32), "+avx": (32, 16), "+neon": (16, 32)}
"""Bytes and number of the vector registers that a processor has with a feature; the first one counts."""
BASELINE = (16, 16)


@dataclass(frozen=True, slots=True)
class Target:
    """What code is made for; an object for one target is of no use on another."""

    triple: str
    cpu: str
    features: str

    @property
    def instructions(self) -> Instructions:
        present = self.features.split(",")
        half = "+f16c" in present or self.triple.startswith(("aarch64", "arm64"))
        return Instructions(half, scale="+avx512f" in present and "+avx512vl" in present)

    @property
    def vectors(self) -> tuple[int, int]:
        """Bytes of a vector register, and how many there are."""
        present = self.features.split(",")
        return next((registers for feature, registers in VECTORS.items() if feature in present), BASELINE)

    def __str__(self) -> str:
        digest = hashlib.sha256(self.features.encode("ascii")).hexdigest()[:12]
        return f"{self.triple} {self.cpu} features-{digest}"


@cache
def host() -> Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten(sort=True)
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), features)


def symbol(name: str) -> str:
    """Of the entry of a program, in object files: a name no library has."""
    return f"ocannl.{identifier(name)}"


def llvm_version() -> str:
    return f"llvmlite-{llvmlite.__version__} llvm-{'.'.join(map(str, llvm.llvm_version_info))}"


def machine(target: Target) -> Any:
    found = llvm.Target.from_triple(target.triple)
    return found.create_target_machine(
        cpu=target.cpu, features=target.features, opt=CODEGEN_LEVEL, reloc="pic", codemodel="default", jit=True
    )


def _hold_at_forks() -> None:
    """A child must not wait for llvmlite's lock, which a thread that it does not have may hold in the parent."""
    lock: Any = getattr(ffi.lib, "_lock", None)
    if hasattr(os, "register_at_fork") and hasattr(lock, "__exit__"):
        leave = partial(lock.__exit__, None, None, None)
        os.register_at_fork(before=lock.__enter__, after_in_parent=leave, after_in_child=leave)


_hold_at_forks()


class Library:
    """Object code in this process, for as long as someone holds this."""

    __slots__ = ("_engine", "_tracker")

    def __init__(self, engine: Any, tracker: Any) -> None:
        self._engine = engine
        self._tracker = tracker

    def address(self, symbol: str) -> int:
        return int(self._tracker[symbol])


@cache
def _engine() -> Any:
    return llvm.create_lljit_compiler(machine(host()), use_jit_link=True, suppress_errors=True)


_libraries = count(1)


def load(objects: Iterable[bytes], symbols: Iterable[str]) -> Library:
    """The objects, linked with each other and with the mathematical functions of this process."""
    builder = llvm.JITLibraryBuilder().add_current_process()
    for code in objects:
        builder.add_object_img(code)
    for symbol in symbols:
        builder.export_symbol(symbol)
    try:
        return Library(_engine(), builder.link(_engine(), f"ocannl-{next(_libraries)}"))
    except RuntimeError as error:
        raise CompileError(f"LLVM cannot link generated code: {str(error).strip()}") from None
