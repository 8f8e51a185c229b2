"""What a caller of `oc.export` wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ocannl.ir.cpu import COMMON_CPU, Cpu
from ocannl.runtime.routine import Routine
from ocannl_export.library import Library, describe
from ocannl_export.targets import InstructionSet

Files = Mapping[str, str | bytes]
"""The content of files by name."""


@dataclass(frozen=True, slots=True)
class Request:
    """Routines and how they are exported. `target` is None for the default of a form; with `inputs`, the values of
    placeholders in the context are initial values; with `threads`, callers may run parallel loops on theirs."""

    routines: tuple[Routine, ...]
    name: str
    init: object
    target: InstructionSet | None
    vectors: bool
    inputs: bool
    threads: bool = False

    def library(self, targets: Iterable[InstructionSet], cpu: Cpu = COMMON_CPU) -> Library:
        return describe(
            self.routines, self.name, targets, self.init, cpu, inputs=self.inputs, threads=self.threads
        )
