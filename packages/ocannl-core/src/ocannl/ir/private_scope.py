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
other array, and the same cells whenever they are executed; the loop only reads the private arrays. The number of
threads therefore does not change results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ocannl.ir.accesses import alias_class, memory_accesses
from ocannl.ir.affine import Sym
from ocannl.ir.free_symbols import mentioned_symbols
from ocannl.ir.loops import Body, Buf, For, If, Local, MemorySpace, Poll, Stmt, Store, region_body
from ocannl.ir.walk import walk

THREAD_BYTES = 1 << 19  # memory of a thread for private arrays, of which one line belongs to generated code
LINE_BYTES = 64  # the private arrays of a thread begin at cache lines
MAX_PRIVATE_BYTES = THREAD_BYTES - LINE_BYTES  # of the private arrays of a scope, in whole lines


@dataclass(frozen=True, slots=True)
class PrivateScope:
    """A parallel loop, the arrays that are private to its threads, and the statements that fill them."""

    arrays: tuple[Local, ...]
    copies: Body
    loop: For

    @property
    def bufs(self) -> tuple[Buf, ...]:
        return tuple([array.buf for array in self.arrays])


def private_scope(stmt: Stmt) -> PrivateScope | None:
    """Returns the parts of a scope with private arrays; None for other statements."""
    match stmt:
        case If(cond, (Local(buf), *_, For() as loop) as body, ()) if cond.is_true and buf.space is MemorySpace.PRIVATE:
            arrays = tuple([inner for inner in body if isinstance(inner, Local)])
            return PrivateScope(arrays, tuple([inner for inner in body[:-1] if not isinstance(inner, Local)]), loop)
        case _:
            return None


def outermost(body: Body) -> Iterator[Stmt]:
    """The statements of a body, with those of its regions, and the loops of its scopes with private arrays."""
    for stmt in body:
        yield stmt
        scope = private_scope(stmt)
        yield from outermost(region_body(stmt) or ()) if scope is None else (scope.loop,)


def padded_bytes(buf: Buf) -> int:
    """The size of a private array in whole cache lines."""
    return -(-buf.nbytes // LINE_BYTES) * LINE_BYTES


def private_offsets(bufs: Sequence[Buf]) -> list[int]:
    """Returns the offsets in bytes of the private arrays in the memory of a thread, whose first line is not theirs."""
    return list(accumulate(map(padded_bytes, bufs[:-1]), initial=LINE_BYTES)) if bufs else []


def fills_same_cells(stmt: Stmt) -> bool:
    """Whether the statement stores to the same cells whenever it is executed."""
    bound: set[Sym] = set()
    mentioned: set[Sym] = set()
    for node in walk(stmt):
        if isinstance(node, For):
            bound.add(node.sym)
        if isinstance(node, For | If | Store):
            mentioned.update(mentioned_symbols(node))
    return mentioned <= bound


def violated_rule(scope: PrivateScope) -> str | None:
    """Returns what is wrong with a scope, whose statements are valid by themselves; None if it is valid."""
    if not scope.loop.parallel_chunk:
        return "scope with private arrays does not end with a parallel loop"
    if sum(map(padded_bytes, scope.bufs)) > MAX_PRIVATE_BYTES:
        return f"private arrays need more than {MAX_PRIVATE_BYTES} bytes"
    if any(array.init is not None for array in scope.arrays):
        return "private array has an initial value"
    for stmt in scope.copies:
        written = {access.ref.buf for access in memory_accesses((stmt,)) if access.writes}
        if not isinstance(stmt, For) or not written.issubset(scope.bufs) or not fills_same_cells(stmt):
            return "statements before a parallel loop must be loops that fill the same cells of private arrays"
        if any(isinstance(node, Poll) or (isinstance(node, For) and node.parallel_chunk) for node in walk(stmt)):
            return "loops that fill private arrays must not be parallel or cancellable"
    fixed = {alias_class(buf) for buf in scope.bufs}  # while the loop is running
    fixed |= {alias_class(access.ref.buf) for access in memory_accesses(scope.copies)}
    for access in memory_accesses((scope.loop,)):
        if access.writes and alias_class(access.ref.buf) in fixed:
            return f"parallel loop writes `{access.ref.buf.name}`, which is private or copied"
    return None
