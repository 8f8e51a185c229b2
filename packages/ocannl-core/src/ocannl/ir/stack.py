"""What local arrays may take of a thread's stack: one budget for passes, for those that print code, and for threads.

A nest keeps a block of memory for what its iterations hand on; each function of its code, which may be a part that it
calls, keeps what else is local there.
"""

from __future__ import annotations

from collections.abc import Iterator

from ocannl.ir.loops import Body, Buf, For, If, Let, Local, Pick, Proc

BLOCK_BYTES = 1 << 20  # of a nest, and again of a function
ROW_BYTES = BLOCK_BYTES // 4  # for what stays within a row, of which a function may have several
THREAD_BYTES = 8 * BLOCK_BYTES  # of a thread that is made to run programs


def stack_bytes(proc: Proc) -> int:
    """What a thread needs for the local arrays of the program, at most."""
    apart = not any(isinstance(stmt, Let | Local) for stmt in proc.body)  # whose scope would be several nests
    bodies: list[Body] = [(stmt,) for stmt in proc.body] if apart else [proc.body]
    return max((_of_nest(list(_locals(body))) for body in bodies), default=0)


def _of_nest(bufs: list[Buf]) -> int:
    block = max((buf.offset + buf.nbytes for buf in bufs if buf.offset is not None), default=0)
    return block + min(BLOCK_BYTES, sum(buf.nbytes for buf in bufs if buf.offset is None))


def _locals(body: Body) -> Iterator[Buf]:
    for stmt in body:
        match stmt:
            case Local(buf):
                yield buf
            case For() | Pick():
                yield from _locals(stmt.body)
            case If():
                yield from _locals(stmt.then)
                yield from _locals(stmt.orelse)
            case _:
                pass
