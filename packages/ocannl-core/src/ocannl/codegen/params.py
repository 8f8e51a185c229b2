"""What a compiled program is called with: the same convention for every backend that compiles for the processor.

    void NAME(void *addresses[], long symbols[])

`addresses` holds one address for each pool buffer, in the order of `Proc.bufs`, then that of the arena if there is one;
`symbols` the values of the static symbols.
"""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.loops import Access, Buf, Home, Proc
from ocannl.ir.names import identifier


@dataclass(frozen=True, slots=True)
class Region:
    """The memory behind one address."""

    name: str
    nbytes: int
    written: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """The name of a program, the memory it is given, and how many static symbols."""

    name: str
    regions: tuple[Region, ...]
    symbols: int


READ_ONLY = (Access.IN, Access.CONST, Access.MERGE)


def pool_bufs(proc: Proc) -> tuple[Buf, ...]:
    """The buffers that are given an address of their own."""
    return tuple(buf for buf in proc.bufs if buf.home is Home.POOL)


def signature(proc: Proc) -> Signature:
    regions = [Region(identifier(b.name), b.nbytes, b.access not in READ_ONLY) for b in pool_bufs(proc)]
    if proc.arena:
        regions.append(Region("arena", proc.arena, True))
    return Signature(proc.name, tuple(regions), len(proc.syms))
