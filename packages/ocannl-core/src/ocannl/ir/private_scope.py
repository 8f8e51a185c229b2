"""Scopes of parallel loops whose threads have private arrays (array privatization, Tu and Padua 1993).

    scope:
      private w_2: f32[64,64]@(1,64)
      for i in 0..64:
        for j in 0..64:
          w_2[i, j] = w[i, j]
      parallel(chunk=1) for b in 0..16:
        ...

A scope that begins with private arrays ends with a parallel loop. Each thread that takes part in the loop has arrays of
its own, and executes the statements between, which fill them, before its first iteration. These statements write no
other array, and the loop only reads the private ones, so that the number of threads does not change results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ocannl.ir.loops import Body, Buf, For, If, Local, MemorySpace, Stmt

MAX_PRIVATE_BYTES = 1 << 19  # of the private arrays of a thread, in whole cache lines
LINE_BYTES = 64


@dataclass(frozen=True, slots=True)
class PrivateScope:
    """A parallel loop, the arrays that are private to its threads, and the statements that fill them."""

    bufs: tuple[Buf, ...]
    copies: Body
    loop: For


def private_offsets(bufs: Sequence[Buf]) -> list[int]:
    """Returns the offsets in bytes of the private arrays in the memory of a thread, and the total size."""
    sizes = (-(-buf.nbytes // LINE_BYTES) * LINE_BYTES for buf in bufs)
    return list(accumulate(sizes, initial=0))


def private_scope(stmt: Stmt) -> PrivateScope | None:
    """Returns the parts of a scope with private arrays; None for other statements."""
    match stmt:
        case If(cond, (Local(buf), *_, For() as loop) as body, ()) if cond.is_true and buf.space is MemorySpace.PRIVATE:
            bufs = tuple([inner.buf for inner in body if isinstance(inner, Local)])
            return PrivateScope(bufs, tuple([inner for inner in body[:-1] if not isinstance(inner, Local)]), loop)
        case _:
            return None
