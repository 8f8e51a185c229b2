"""The verifier of placed programs: buffers in the arena, and local arrays on the stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ocannl.base.errors import VerifyError
from ocannl.ir.accesses import memory_accesses
from ocannl.ir.loops import Body, Buf, For, Local, MemorySpace, Proc, Stmt, region_body
from ocannl.ir.printer import format_stmt
from ocannl.ir.private_scope import outermost


def check_arena(proc: Proc, alignment_bytes: int) -> None:
    """Raises `VerifyError` if a buffer is misaligned, or overlaps another one that is live together with it."""

    def fail(problem: str) -> VerifyError:
        return VerifyError(f"{problem}\n  of  proc {proc.name}, placed")

    arena = {b for b in proc.bufs if b.space is MemorySpace.ARENA}
    for buf in arena:
        if buf.offset is None:
            raise fail(f"`{buf.name}` has no offset in the arena")
        step = max(alignment_bytes, buf.precision.nbytes)
        if buf.offset < 0 or buf.offset % step:
            raise fail(f"`{buf.name}` is at offset {buf.offset} in the arena, which is not a multiple of {step} bytes")
        if buf.offset + buf.nbytes > proc.arena:
            raise fail(f"`{buf.name}` ends at byte {buf.offset + buf.nbytes}, beyond the arena of {proc.arena} bytes")
    _check_overlap(arena, proc.body, "the arena", fail)
    _check_stack(proc.body, fail)


def _check_stack(body: Body, fail: Callable[[str], VerifyError]) -> None:
    """Checks that local arrays do not overlap on the stack."""
    for stmt in outermost(body):
        if isinstance(stmt, For) and region_body(stmt) is None:
            locals_ = {inner.buf for inner in stmt.body if isinstance(inner, Local) and inner.buf.offset is not None}
            _check_overlap(locals_, stmt.body, "the stack", fail)


def _check_overlap(bufs: set[Buf], body: Body, where: str, fail: Callable[[str], VerifyError]) -> None:
    """Checks that buffers do not overlap in memory if they are live together.

    A buffer is live from the first to the last statement that accesses it.
    """
    if len(bufs) < 2:
        return
    first: dict[Buf, int] = {}
    last: dict[Buf, int] = {}
    for n, stmt in enumerate(body):
        for buf in _accessed(stmt):
            if buf in bufs:
                first.setdefault(buf, n)
                last[buf] = n
    live: list[tuple[Buf, int, int]] = []  # with the first byte and the one after the last
    for buf in first:  # in order of first access
        live = [block for block in live if last[block[0]] >= first[buf]]
        start = buf.offset or 0
        end = start + buf.nbytes
        for older, older_start, older_end in live:
            if start < older_end and older_start < end:
                names = f"`{older.name}` and `{buf.name}`"
                raise fail(f"{names} overlap in {where} and are live together\n  in  {format_stmt(body[first[buf]])}")
        live.append((buf, start, end))


def _accessed(stmt: Stmt) -> Iterator[Buf]:
    return (access.ref.buf for access in memory_accesses((stmt,)))
