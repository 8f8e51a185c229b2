"""The values that a call computes, cell by cell, as lines of the log `ocannl.trace`: for tiny programs.

    c[i] = a[i] + b[i]   c[1]: 0 -> 5   a[1] = 2, b[1] = 3

The program is shown as it was lowered, before anything was optimized away, and interpreted beside the call, which
computes what it always does.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ocannl.base.log import logger, show
from ocannl.ir.index import Sym
from ocannl.ir.interpret import Array, Write, interpret
from ocannl.ir.loops import Access, Body, Buf, For, If, Proc, Store, Update
from ocannl.ir.text import show_stmt
from ocannl.ir.tnode import TNode
from ocannl.lower.lower import lower
from ocannl.runtime.program import Program

if TYPE_CHECKING:
    from ocannl.backend.api import Entry
    from ocannl.runtime.context import Context

_log = logger("trace")


def traced(context: Context, program: Program, entry: Entry, limit: int) -> Entry:
    """The entry, which first logs what it is going to do, in at most `limit` lines."""
    proc = lower(program.comp, program.name)
    show(_log)

    def call(*values: int) -> object:
        if _log.isEnabledFor(logging.DEBUG):
            _tell(context, proc, dict(zip(program.syms, values, strict=True)), limit)
        return entry(*values)

    return call


class _Enough(Exception):
    pass


def _tell(context: Context, proc: Proc, given: Mapping[Sym, int], limit: int) -> None:
    told = 0

    def tell(write: Write) -> None:
        nonlocal told
        if told == limit:
            raise _Enough
        told += 1
        _log.debug("%s", line(write))

    values = {sym: given.get(sym, sym.lo) for sym in proc.syms}  # one that is optimized away is not given
    own, merged = _contents(context, proc)
    _log.debug("routine %s(%s)", proc.name, ", ".join(f"{sym.name}={value}" for sym, value in given.items()))
    try:
        interpret(proc, own, values, merged, tell)
    except _Enough:
        most = _writes(proc.body)
        _log.debug(
            "%s: %d of at most %d cells written are shown; the setting `trace` says how many", proc.name, limit, most
        )


def _contents(context: Context, proc: Proc) -> tuple[dict[TNode, Array], dict[TNode, Array]]:
    """What the nodes hold that hold anything, and what is in the merge buffers."""
    own: dict[TNode, Array] = {}
    merged: dict[TNode, Array] = {}
    for buf in proc.bufs:
        if buf.node is None:
            continue
        if buf.access is Access.MERGE:
            merged[buf.node] = context.arrays.download(buf.node, merged=True)
        elif context.arrays.holds(buf.node):
            own[buf.node] = context.arrays.download(buf.node)
    context.queue.synchronize()
    return own, merged


def line(write: Write) -> str:
    """The statement as it reads in the program, the cell with its old and new value, and what was read for it."""
    parts = [show_stmt(write.stmt), f"{_cell(write.stmt.ref.buf, write.at)}: {write.old} -> {write.new}"]
    parts += [", ".join(f"{_cell(cell.buf, cell.at)} = {cell.value}" for cell in write.read)]
    return "   ".join(part for part in parts if part)


def _cell(buf: Buf, at: tuple[int, ...]) -> str:
    return f"{buf.name}[{', '.join(map(str, at))}]" if at else buf.name


def _writes(body: Body) -> int:
    """How many cells are written, if all guards hold."""
    total = 0
    for stmt in body:
        match stmt:
            case For(sym):
                total += sym.extent * _writes(stmt.body)
            case If(_, then, orelse):
                total += _writes(then) + _writes(orelse)
            case Store() | Update():
                total += 1
            case _:
                pass
    return total
