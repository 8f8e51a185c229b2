"""Programs as kernels: the interface between code generation, compilation and launching.

    Module                    one program: its text, its kernels in the order of the program, and the memory they use
      Kernel                  one function of the text, launched once: its arguments, grid and constants
        Argument              a pointer to a part of a region of memory

Regions of memory are numbered as in `Backend.link`: one for each buffer outside the arena, then the arena, if any. The
backend adds two regions: `STATICS_REGION`, the values of the static symbols as int64, and `SCRATCH_REGION`, whose
contents need not survive a call.

Kernels take only pointers and constants; static symbols are read from memory, so that the arguments are the same in
every call. The source imports Triton, and defines a function for each kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

STATICS_REGION = -1
SCRATCH_REGION = -2


@dataclass(frozen=True, slots=True)
class Argument:
    """A pointer parameter: `nbytes` of a region from an offset on, which the kernel reads, writes, or both."""

    name: str
    type: str  # Triton element type: `fp32`, `i64`, ...
    region: int
    offset_bytes: int
    nbytes: int
    reads: bool
    writes: bool

    def conflicts_with(self, argument: Argument) -> bool:
        """Whether the arguments overlap in memory and at least one is written."""
        return (
            self.region == argument.region
            and (self.writes or argument.writes)
            and self.offset_bytes < argument.offset_bytes + argument.nbytes
            and argument.offset_bytes < self.offset_bytes + self.nbytes
        )


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch of a function. `grid` is the number of programs along each axis, `constants` the constexpr parameters
    after the pointers, `label` the name for people."""

    name: str
    label: str
    arguments: tuple[Argument, ...]
    grid: tuple[int, int, int]
    constants: tuple[tuple[str, int], ...] = ()
    num_warps: int = 4
    num_stages: int = 2
    nest: int = 0  # index among the program's loop nests

    @property
    def signature(self) -> dict[str, str]:
        """Types by parameter name, in the format of `triton.compiler.ASTSource`."""
        pointers = {a.name: f"*{a.type}" for a in self.arguments}
        return pointers | {name: "constexpr" for name, _ in self.constants}


@dataclass(frozen=True, slots=True)
class KernelModule:
    """One program. The order of its kernels is a valid order of execution."""

    name: str
    source: str
    kernels: tuple[Kernel, ...]
    regions: tuple[tuple[str, int], ...]  # names and bytes of the regions that the caller passes: pools, then the arena
    symbols: int = 0  # number of static symbols, in the order of `Proc.syms`
    scratch_bytes: int = 0

    @property
    def dependences(self) -> tuple[tuple[int, int], ...]:
        """Pairs of dependent kernels, the earlier first, without transitively implied pairs."""
        return tuple(sorted(_transitive_reduction([kernel.arguments for kernel in self.kernels])))


def _transitive_reduction(arguments: Sequence[tuple[Argument, ...]]) -> Iterator[tuple[int, int]]:
    ancestors: list[set[int]] = []  # of each kernel
    for later, written_and_read in enumerate(arguments):
        implied: set[int] = set()
        for earlier in reversed(range(later)):
            if earlier in implied:
                continue
            if any(a.conflicts_with(b) for a in arguments[earlier] for b in written_and_read):
                yield earlier, later
                implied |= {earlier} | ancestors[earlier]
        ancestors.append(implied)
