"""Which results go past the caches."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.loops import Body, Buf, For, If, Mode, Proc, Stmt, Store
from ocannl.ir.accesses import is_aligned, storage, touches
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import same_objects


def use_nontemporal_stores(proc: Proc, far_bytes: int, near_bytes: int | None = None) -> Proc:
    """Streams what a nest writes that goes through more memory than caches hold. Here they hold 64 bytes:

        proc step                                      proc step
          x : f32[64]  in                                x : f32[64]  in
          y : f32[64]  out                               y : f32[64]  out
          for i_2 in 0..4:                               for i_2 in 0..4:
            for i_3 in 0..16 lanes:               ==>      for i_3 in 0..16 lanes:
              y[16*i_2+i_3] = exp(x[16*i_2+i_3])             stream y[16*i_2+i_3] = exp(x[16*i_2+i_3])

    A line of memory that is not streamed is read before it is written. What the nest itself reads stays as it is: it is
    in a cache at that moment. So does what is small enough to be there when others read it.
    """
    near_bytes = machine.MIN_NONTEMPORAL_BYTES if near_bytes is None else near_bytes
    body = tuple([_streamed(stmt, far_bytes, near_bytes) for stmt in proc.body])
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def is_far(stmt: Stmt, far_bytes: int) -> bool:
    """Whether the arrays that it touches are more than this."""
    return sum(buf.nbytes for buf in {each.ref.buf for each in touches((stmt,))}) > far_bytes


def _streamed(stmt: Stmt, far_bytes: int, near_bytes: int) -> Stmt:
    if not is_far(stmt, far_bytes):
        return stmt
    touched = touches((stmt,))
    read = {storage(each.ref.buf) for each in touched if not each.writes or each.op is not None}
    large = {each.ref.buf for each in touched if each.ref.buf.nbytes > near_bytes}
    results = {buf for buf in large if storage(buf) not in read}
    return _in(stmt, results) if results else stmt


def _in(stmt: Stmt, results: set[Buf]) -> Stmt:
    """The statement with stores to these arrays streamed where they can be."""
    match stmt:
        case For(mode=Mode.VECTORIZED, body=body):
            return replace(stmt, body=tuple([_vector(each, stmt, results) for each in body]))
        case For(body=body):
            return replace(stmt, body=_all(body, results))
        case If(cond, then, orelse):
            return If(cond, _all(then, results), _all(orelse, results))
        case _:
            return stmt


def _all(body: Body, results: set[Buf]) -> Body:
    return tuple([_in(stmt, results) for stmt in body])


def _vector(stmt: Stmt, lanes: For, results: set[Buf]) -> Stmt:
    if isinstance(stmt, Store) and stmt.ref.buf in results and is_aligned(stmt.ref, lanes):
        return replace(stmt, nontemporal=True)
    return stmt
