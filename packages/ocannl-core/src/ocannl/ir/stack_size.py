"""Stack budget of local arrays, shared by passes, code generation and threads.

A nest has one planned block of memory for values passed between its iterations; every function generated for it,
callees included, has its other local arrays in addition.
"""

from __future__ import annotations

from collections.abc import Iterator

from ocannl.ir.loops import BindIndex, Body, Buf, For, If, Let, Local, MemorySpace, Proc

MAX_LOCAL_BYTES = 1 << 20  # for the planned block of a nest, and again for other local arrays of a function
MAX_ROW_BYTES = MAX_LOCAL_BYTES // 4  # for an array within one row; a function may have several
THREAD_STACK_BYTES = 8 * MAX_LOCAL_BYTES  # stack size of threads that run programs


def stack_bytes(proc: Proc) -> int:
    """Upper bound of the stack space for the program's local arrays."""
    # top-level locals live across nests
    nests_are_separate = not any(isinstance(stmt, Let | Local) for stmt in proc.body)
    bodies: list[Body] = [(stmt,) for stmt in proc.body] if nests_are_separate else [proc.body]
    return max((_nest_bytes(list(_local_bufs(body))) for body in bodies), default=0)


def _nest_bytes(bufs: list[Buf]) -> int:
    block = max((buf.offset + buf.nbytes for buf in bufs if buf.offset is not None), default=0)
    return block + min(MAX_LOCAL_BYTES, sum(buf.nbytes for buf in bufs if buf.offset is None))


def _local_bufs(body: Body) -> Iterator[Buf]:
    for stmt in body:
        match stmt:
            case Local(buf) if buf.space is MemorySpace.LOCAL:
                yield buf
            case For() | BindIndex():
                yield from _local_bufs(stmt.body)
            case If():
                yield from _local_bufs(stmt.then)
                yield from _local_bufs(stmt.orelse)
            case _:
                pass
