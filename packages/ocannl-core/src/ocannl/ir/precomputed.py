"""Precomputed buffers, which keep their values from one call of a program to the next."""

from __future__ import annotations

from ocannl.ir.loops import AccessMode, Buf, Proc


def precomputed_buffers(proc: Proc) -> list[Buf]:
    """Returns the precomputed buffers of a program, that of the request first."""
    return [buf for buf in proc.bufs if buf.access is AccessMode.PRECOMPUTED]


def request_buffer(proc: Proc) -> Buf | None:
    """Returns the integer that requests the computation of the others: a call with 1 computes them, and resets it."""
    return next(iter(precomputed_buffers(proc)), None)
