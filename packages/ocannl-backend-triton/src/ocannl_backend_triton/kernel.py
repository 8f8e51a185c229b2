"""Programs as kernels: what the printer makes of a `Proc`, and all that whoever compiles and launches them has to know.

    Module                    one program: its text, its kernels in the order of the program, and the memory they use
      Kernel                  one function of the text, launched once: its arguments, grid and constants
        Argument              a pointer to a part of a region of memory

Regions of memory are counted as `Backend.link` is given them: one for each pool buffer, then the arena if there is one.
Two more belong to the backend: `STATICS`, the values of the static symbols as int64, and `SCRATCH`, which holds
anything when a call begins and nothing that the next one needs.

A kernel takes pointers and constants, nothing else; a static symbol is read from memory, so the arguments of a kernel
are the same in every call. The text imports triton, is run once, and defines a function of each kernel's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

STATICS = -1
SCRATCH = -2


@dataclass(frozen=True, slots=True)
class Argument:
    """One pointer parameter: to `nbytes` of a region, from an offset on. Bytes are read, written, or both."""

    name: str
    type: str  # of the numbers it points to: `fp32`, `i64`, ...: a pointer parameter of triton is "*fp32"
    region: int
    offset_bytes: int
    nbytes: int
    reads: bool
    writes: bool

    def meets(self, other: Argument) -> bool:
        """Whether the two have bytes in common, and one of them changes them."""
        return (
            self.region == other.region
            and (self.writes or other.writes)
            and self.offset_bytes < other.offset_bytes + other.nbytes
            and other.offset_bytes < self.offset_bytes + self.nbytes
        )


@dataclass(frozen=True, slots=True)
class Kernel:
    """`grid` counts the programs along each axis; `constants` are the constexpr parameters, which come after the
    pointers. `label` is what a person knows it by."""

    name: str
    label: str
    arguments: tuple[Argument, ...]
    grid: tuple[int, int, int]
    constants: tuple[tuple[str, int], ...] = ()
    num_warps: int = 4
    num_stages: int = 2
    nest: int = 0  # of the program, by its place among the nests

    @property
    def signature(self) -> dict[str, str]:
        """By parameter, as `triton.compiler.ASTSource` takes it."""
        pointers = {a.name: f"*{a.type}" for a in self.arguments}
        return pointers | {name: "constexpr" for name, _ in self.constants}


@dataclass(frozen=True, slots=True)
class Module:
    """One program. Kernels stand in an order in which they may run one after the other."""

    name: str
    source: str
    kernels: tuple[Kernel, ...]
    regions: tuple[tuple[str, int], ...]  # names and bytes, as far as the caller gives them: pools, then the arena
    symbols: int = 0  # static ones, in the order of `Proc.syms`
    scratch_bytes: int = 0

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Pairs of kernels of which the second has to wait for the first: none that others imply."""
        return tuple(sorted(_edges([kernel.arguments for kernel in self.kernels])))


def _edges(arguments: Sequence[tuple[Argument, ...]]) -> Iterator[tuple[int, int]]:
    before: list[set[int]] = []  # all that each kernel comes after
    for at, mine in enumerate(arguments):
        known: set[int] = set()
        for earlier in reversed(range(at)):
            if earlier not in known and any(a.meets(b) for a in arguments[earlier] for b in mine):
                yield earlier, at
                known |= {earlier} | before[earlier]
        before.append(known)
