"""Splits a program into functions, one per loop nest, so that compilers see small bodies with few pointer arguments.

    y[...] = ...        -+
    z = ...             -+-  straight-line statements, grouped
    for i: ...          ---  one nest
    local s; for j: ...  |
    for k: ...          -+-  from a definition to the end of its scope
    for b:              -+
      for i: ...         |-  one nest; inner nests become functions (callees) if they are long enough
      for j: ...        -+
    sequential for t:   -+
      parallel for i:    |-  one nest; all inner nests become callees, and may be parallel
      for j: ...        -+
    scope:              -+
      private s; for j:  |- one nest; its threads call the functions that fill private arrays (`private_copies`)
      parallel for i:   -+
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ocannl.ir.affine import Sym
from ocannl.ir.assign import Origin
from ocannl.ir.free_symbols import mentioned_symbols
from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Body,
    Buf,
    Cast,
    Comment,
    Const,
    For,
    Let,
    Load,
    Local,
    MemorySpace,
    Mode,
    Poll,
    Prefetch,
    Proc,
    ReadClock,
    Stmt,
    Store,
    Update,
    Var,
    region_body,
)
from ocannl.ir.private_scope import PrivateScope, private_scope
from ocannl.ir.walk import walk
from ocannl.ir.work import POLL_INTERVAL_OPS, work

MAX_STRAIGHT_LINE_STMTS = 32  # per function
LeadingStmt = Comment | Prefetch  # belong to the next statement
PART_CALLS = 64  # nests that one function calls, at most
MIN_CALLEE_OPS = 10_000  # average work per callee for which call overhead is negligible


@dataclass(frozen=True, slots=True)
class ParallelLoop:
    """Iterations [`first`, `limit`) of `loop`, scheduled dynamically in chunks of `chunk_size` (as OpenMP's
    `schedule(dynamic, n)`). Cancellation is checked at every `poll_interval`-th chunk."""

    loop: For
    first: int
    limit: int
    chunk_size: int
    poll_interval: int

    @property
    def num_chunks(self) -> int:
        """The number of chunks, rounded up."""
        return -(-(self.limit - self.first) // self.chunk_size)


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """A part of a program that becomes a function: its statements, its free variables (`bufs`, `syms`, in order of
    first mention), its parallel loop, and the nests called by the body of its only loop or conditional."""

    body: Body
    bufs: tuple[Buf, ...]
    syms: tuple[Sym, ...]
    labels: tuple[str, ...]
    parallel_loop: ParallelLoop | None = None
    callees: tuple[Nest, ...] = ()
    is_cancellable: bool = False  # polls or reads the clock, hence has a `control` parameter
    has_nontemporal_stores: bool = False  # needs a fence at its end
    stack_bytes: int = 0  # of the block for local arrays with offsets
    private_bufs: tuple[Buf, ...] = ()  # arrays of each thread of the parallel loop
    private_copies: tuple[Nest, ...] = ()  # fill the private arrays before the first iteration of a thread

    @property
    def free_variables(self) -> tuple[Buf | Sym, ...]:
        return (*self.bufs, *self.syms)

    @property
    def params(self) -> tuple[Buf | Sym, ...]:
        """The parameters of the function, in order; threads provide their private arrays."""
        return (*self.bufs, *self.private_bufs, *self.syms)

    @property
    def function_body(self) -> Body:
        """The statements of the function; without those that each thread executes before its first iteration."""
        return (self.parallel_loop.loop,) if self.private_bufs and self.parallel_loop is not None else self.body

    @property
    def shared_locals(self) -> tuple[Local, ...]:
        """The local arrays through which callees communicate."""
        loop = _only_loop(self.function_body) if self.callees else None
        return _shared_locals(loop) if loop is not None else ()

    def is_caller(self, stmt: Stmt) -> bool:
        """Whether the body of this loop, or conditional, consists of the calls of `callees`."""
        return bool(self.callees) and any(stmt is caller for caller in self.function_body)

    @property
    def unaliased_bufs(self) -> frozenset[Buf]:
        """The arrays that overlap no other array of this nest. Pool buffers never do; arena and stack blocks may."""
        bufs = (*self.bufs, *self.private_bufs)
        shared: set[Buf] = set()
        for home in (MemorySpace.ARENA, MemorySpace.LOCAL):
            placed = [(buf.offset, buf) for buf in bufs if buf.space is home and buf.offset is not None]
            end, widest = 0, None  # the block with the largest end so far
            for offset, block in sorted(placed, key=lambda item: item[0]):
                if widest is not None and offset < end:
                    shared |= {block, widest}
                if widest is None or offset + block.nbytes > end:
                    end, widest = offset + block.nbytes, block
        return frozenset(bufs) - shared


def outline_nests(proc: Proc) -> tuple[Nest, ...]:
    """The top-level nests of a program, in execution order."""
    return _split_into_nests(proc.body)


def split_into_parts(nests: Sequence[Nest]) -> list[Sequence[Nest]]:
    """The parts of a program of more than `PART_CALLS` nests; they become functions, since the time that compilers take
    for a function grows faster than its length. A shorter program has none."""
    if len(nests) <= PART_CALLS:
        return []
    return [nests[start : start + PART_CALLS] for start in range(0, len(nests), PART_CALLS)]


def with_callees(nests: Iterable[Nest]) -> Iterator[Nest]:
    """The nests in postorder: callees before callers."""
    for nest in nests:
        yield from with_callees(nest.callees)
        yield from with_callees(nest.private_copies)
        yield nest


def _split_into_nests(body: Body) -> tuple[Nest, ...]:
    pieces = [piece for piece in _split_body(body) if any(not isinstance(stmt, LeadingStmt) for stmt in piece)]
    return tuple(map(_build_nest, pieces))


def _callee_body(loop: For) -> tuple[Body, int]:
    """The statements of a loop body that callees can contain, and the number of nests with loops among them."""
    inner = tuple([stmt for stmt in loop.body if not isinstance(stmt, Local) or stmt.buf.offset is None])
    return inner, sum(any(isinstance(node, For) for node in walk(piece)) for piece in _split_body(inner))


def _shared_locals(loop: For) -> tuple[Local, ...]:
    return tuple([stmt for stmt in loop.body if isinstance(stmt, Local) and stmt.buf.offset is not None])


def _only_loop(body: Body) -> For | None:
    match [stmt for stmt in body if not isinstance(stmt, Comment)]:
        case [For() as loop] if loop.mode is Mode.SERIAL:
            return loop
        case _:
            return None


def _only_region(body: Body) -> Stmt | None:
    """The only statement, if it is a sequential loop or conditional code."""
    stmts = [stmt for stmt in body if not isinstance(stmt, Comment)]
    return stmts[0] if len(stmts) == 1 and region_body(stmts[0]) is not None else None


def _only_private_scope(body: Body) -> PrivateScope | None:
    stmts = [stmt for stmt in body if not isinstance(stmt, Comment)]
    return private_scope(stmts[0]) if len(stmts) == 1 else None


def _split_body(body: Body) -> Iterator[Body]:
    pending: list[Stmt] = []
    for position, stmt in enumerate(body):
        if isinstance(stmt, Let | Local):
            yield (*pending, *body[position:])
            return
        pending.append(stmt)
        has_loop = region_body(stmt) is not None or any(isinstance(node, For) for node in walk(stmt))
        if has_loop and len(pending) > 1 and not all(isinstance(s, LeadingStmt) for s in pending[:-1]):
            cut = len(pending) - 1
            while isinstance(pending[cut - 1], LeadingStmt):
                cut -= 1
            yield tuple(pending[:cut])
            pending = pending[cut:]
        if has_loop or len(pending) >= MAX_STRAIGHT_LINE_STMTS:
            yield tuple(pending)
            pending = []
    if pending:
        yield tuple(pending)


def _build_nest(body: Body) -> Nest:
    scope = _only_private_scope(body)
    if scope is not None:
        return _build_private_nest(body, scope)
    region = _only_region(body)
    if region is not None:
        return _build_calling_nest(body, region, None, _split_into_nests(region_body(region) or ()))
    loop, parallel_loop = _only_loop(body), None
    if loop is not None:
        inner, num_callees = _callee_body(loop)
        iteration_work = work(loop.body) if loop.parallel_chunk or num_callees > 1 else 0
        parallel_loop = _parallel_loop(loop, iteration_work)
        if num_callees > 1 and iteration_work >= MIN_CALLEE_OPS * num_callees:
            return _build_calling_nest(body, loop, parallel_loop, _split_into_nests(inner))
    bufs: dict[Buf, None] = {}
    syms: dict[Sym, None] = {}
    labels: dict[str, None] = {}
    defined: set[Buf | Sym] = set()
    is_cancellable = has_nontemporal_stores = False
    stack_bytes = 0

    for node in walk(body):  # the most frequent nodes add their `mentioned_symbols` without tuples, which take longer
        match node:
            case Apply() | Const() | Var() | Cast() | Let() | Comment():
                pass
            case For(sym, lo, hi):
                if lo.constant is None or hi.constant is None:
                    syms.update(dict.fromkeys(mentioned_symbols(node)))
                defined.add(sym)
                _add_label(labels, node.origin)
            case Load(ref) | Store(ref) | Update(ref) | Prefetch(ref) | ReadClock(ref):
                bufs[ref.buf] = None
                for index in ref.indices:
                    for _, sym in index.terms:
                        syms[sym] = None
                if isinstance(node, Store | Update):
                    _add_label(labels, node.origin)
                    has_nontemporal_stores |= isinstance(node, Store) and node.nontemporal
                is_cancellable |= isinstance(node, ReadClock)
            case BindIndex(sym):
                defined.add(sym)
            case Local(buf):
                defined.add(buf)
                stack_bytes = max(stack_bytes, _stack_end(buf))
            case Poll():
                is_cancellable = True
            case _:
                syms.update(dict.fromkeys(mentioned_symbols(node)))
    return Nest(
        body,
        tuple([buf for buf in bufs if buf not in defined]),
        tuple([sym for sym in syms if sym not in defined]),
        tuple(labels),
        parallel_loop,
        is_cancellable=is_cancellable,
        has_nontemporal_stores=has_nontemporal_stores,
        stack_bytes=stack_bytes,
    )


def _build_calling_nest(
    body: Body, caller: Stmt, parallel_loop: ParallelLoop | None, callees: tuple[Nest, ...]
) -> Nest:
    """The nest whose loop or conditional, `caller`, calls `callees`. If one thread executes all of them, a fence at the
    end of the nest suffices."""
    placed = [stmt.buf for stmt in _shared_locals(caller)] if isinstance(caller, For) else []
    head = list(walk(caller.value)) if isinstance(caller, BindIndex) else [caller]
    bound = [caller.sym] if isinstance(caller, For | BindIndex) else []
    head_bufs = [node.ref.buf for node in head if isinstance(node, Load)]
    bufs = dict.fromkeys([*head_bufs, *(buf for callee in callees for buf in callee.bufs if buf not in placed)])
    head_syms = [sym for node in head for sym in mentioned_symbols(node)]
    syms = dict.fromkeys([*head_syms, *(sym for callee in callees for sym in callee.syms if sym not in bound)])
    label = caller.origin.label if isinstance(caller, For) else ""
    has_nontemporal_stores = any(callee.has_nontemporal_stores for callee in callees)
    if has_nontemporal_stores and all(callee.parallel_loop is None for callee in with_callees(callees)):
        callees = tuple([replace(callee, has_nontemporal_stores=False) for callee in callees])
    labels = dict.fromkeys(text for text in (label, *(text for callee in callees for text in callee.labels)) if text)
    return Nest(
        body,
        tuple(bufs),
        tuple(syms),
        tuple(labels),
        parallel_loop,
        callees,
        is_cancellable=any(callee.is_cancellable or callee.parallel_loop is not None for callee in callees),
        has_nontemporal_stores=has_nontemporal_stores,
        stack_bytes=max([0, *map(_stack_end, placed), *(callee.stack_bytes for callee in callees)]),
    )


def _build_private_nest(body: Body, scope: PrivateScope) -> Nest:
    """The nest of a parallel loop whose threads have private arrays. Its free variables are those of the loop and of
    the statements that fill these arrays."""
    copies, nest = tuple([_build_nest((stmt,)) for stmt in scope.copies]), _build_nest((scope.loop,))
    parts = (*copies, nest)
    bufs = dict.fromkeys(buf for part in parts for buf in part.bufs if buf not in scope.bufs)
    syms = dict.fromkeys(sym for part in parts for sym in part.syms)
    return replace(
        nest, body=body, bufs=tuple(bufs), syms=tuple(syms), private_bufs=scope.bufs, private_copies=copies
    )


def _stack_end(buf: Buf) -> int:
    """The end offset of a local array on the stack, in bytes; empty arrays occupy one byte."""
    return 0 if buf.offset is None else buf.offset + max(1, buf.nbytes)


def _parallel_loop(loop: For, iteration_work: int) -> ParallelLoop | None:
    """The parallel loop of a nest, if `loop` is one; `iteration_work` is the work of one iteration."""
    if not loop.parallel_chunk:
        return None
    first, last = loop.lo.constant, loop.hi.constant
    assert first is not None and last is not None
    chunks_per_poll = max(1, POLL_INTERVAL_OPS // max(1, iteration_work * loop.parallel_chunk))
    return ParallelLoop(loop, first, last + 1, loop.parallel_chunk, chunks_per_poll)


def _add_label(labels: dict[str, None], origin: Origin) -> None:
    if origin.label:
        labels.setdefault(origin.label)
