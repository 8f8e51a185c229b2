"""Targets: instruction sets with the vectors that programs are planned for, and how compilers name them."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """An instruction set. `vector_bytes` is the size of a vector register, 0 for scalar code; `march` is the option of
    gcc and clang, and `triple` that of a cross compiler, with `cpu`, if there is one; `features` are the names in
    `__builtin_cpu_supports` that the program tests before it uses this level of the processor's family."""

    name: str
    vector_bytes: int
    vector_registers: int
    march: str = ""
    triple: str = ""
    cpu: str = ""
    features: tuple[str, ...] = ()


V3_FEATURES = ("avx2", "fma", "f16c")
V4_FEATURES = (*V3_FEATURES, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

TARGETS: Mapping[str, InstructionSet] = {
    target.name: target
    for target in (
        InstructionSet("x86-64", 16, 16, "x86-64", "x86_64-linux-gnu", "x86_64"),
        InstructionSet("x86-64-v3", 32, 16, "x86-64-v3", "x86_64-linux-gnu", "x86_64_v3", V3_FEATURES),
        InstructionSet("x86-64-v4", 64, 32, "x86-64-v4", "x86_64-linux-gnu", "x86_64_v4", V4_FEATURES),
        InstructionSet("aarch64", 16, 32, "armv8-a", "aarch64-linux-gnu", "generic"),
        InstructionSet("armv7", 0, 16, "armv7-a", "arm-linux-gnueabihf", "cortex_a9"),
        InstructionSet("thumb", 0, 16, "armv7e-m", "thumb-freestanding-eabihf", "cortex_m4+vfp4d16sp"),
        InstructionSet("riscv64", 0, 16, "rv64gc", "riscv64-linux-musl", "baseline_rv64"),
        InstructionSet("wasm32", 16, 16, "", "wasm32-freestanding", "generic+simd128+bulk_memory"),
        InstructionSet("scalar", 0, 16),
    )
}

LEVELS: Mapping[str, tuple[str, ...]] = {
    "x86_64": ("x86-64", "x86-64-v3", "x86-64-v4"), "amd64": ("x86-64", "x86-64-v3", "x86-64-v4"),
    "aarch64": ("aarch64",), "arm64": ("aarch64",), "riscv64": ("riscv64",),
}  # fmt: skip
"""The targets of a native library, by machine: the first runs on every processor of the family, the others are chosen
when a processor has their features."""


NATIVE = "native"
"""The processor at hand, with all its features."""


def host_levels() -> tuple[InstructionSet, ...]:
    """The targets of a library for processors of the family at hand."""
    return tuple(TARGETS[name] for name in LEVELS.get(platform.machine().lower(), ("scalar",)))
