"""Tracing: logs every cell written by a call to `ocannl.trace`; intended for tiny programs.

    c[i] = a[i] + b[i]   c[1]: 0 -> 5   a[1] = 2, b[1] = 3

The trace is produced by interpreting the lowered program, before optimization, in addition to the compiled call.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ocannl.base.log import logger, show
from ocannl.ir.affine import Sym
from ocannl.ir.interpret import Array, Write, interpret
from ocannl.ir.loops import AccessMode, Body, Buf, For, If, Proc, Store, Update
from ocannl.ir.printer import format_stmt
from ocannl.ir.tnode import TNode
from ocannl.lower.lower import lower
from ocannl.runtime.context_protocol import ExecutionContext
from ocannl.runtime.program import Program

if TYPE_CHECKING:
    from ocannl.backend.api import Entry

_log = logger("trace")


def with_trace(context: ExecutionContext, program: Program, entry: Entry, limit: int) -> Entry:
    """Wraps an entry so that each call first logs at most `limit` written cells."""
    proc = lower(program.comp, program.name)
    show(_log)

    def call(*values: int) -> object:
        if _log.isEnabledFor(logging.DEBUG):
            _log_writes(context, proc, dict(zip(program.syms, values, strict=True)), limit)
        return entry(*values)

    return call


class _LimitReached(Exception):
    pass


def _log_writes(context: ExecutionContext, proc: Proc, symbol_values: Mapping[Sym, int], limit: int) -> None:
    count = 0

    def log_write(write: Write) -> None:
        nonlocal count
        if count == limit:
            raise _LimitReached
        count += 1
        _log.debug("%s", line(write))

    values = {sym: symbol_values.get(sym, sym.lo) for sym in proc.syms}  # unused symbols are not passed
    node_values, merged = _contents(context, proc)
    _log.debug("routine %s(%s)", proc.name, ", ".join(f"{sym.name}={value}" for sym, value in symbol_values.items()))
    try:
        interpret(proc, node_values, values, merged, log_write)
    except _LimitReached:
        total = _writes(proc.body)
        _log.debug(
            "%s: %d of at most %d cells written are shown; the setting `trace` says how many", proc.name, limit, total
        )


def _contents(context: ExecutionContext, proc: Proc) -> tuple[dict[TNode, Array], dict[TNode, Array]]:
    """Returns the values of the initialized nodes, and of the merge buffers."""
    values: dict[TNode, Array] = {}
    merged: dict[TNode, Array] = {}
    for buf in proc.bufs:
        if buf.node is None:
            continue
        if buf.access is AccessMode.MERGE:
            merged[buf.node] = context.arrays.download(buf.node, merged=True)
        elif context.arrays.holds(buf.node):
            values[buf.node] = context.arrays.download(buf.node)
    context.queue.synchronize()
    return values, merged


def line(write: Write) -> str:
    """Formats a write: the statement, the cell with its old and new value, and the cells read."""
    parts = [format_stmt(write.stmt), f"{_cell(write.stmt.ref.buf, write.at)}: {write.old} -> {write.new}"]
    parts += [", ".join(f"{_cell(cell.buf, cell.at)} = {cell.value}" for cell in write.read)]
    return "   ".join(part for part in parts if part)


def _cell(buf: Buf, at: tuple[int, ...]) -> str:
    return f"{buf.name}[{', '.join(map(str, at))}]" if at else buf.name


def _writes(body: Body) -> int:
    """Returns an upper bound of the number of writes: all guards are assumed to hold."""
    total = 0
    for stmt in body:
        match stmt:
            case For(sym):
                total += sym.extent * _writes(stmt.body)
            case If(_, if_body, else_body):
                total += _writes(if_body) + _writes(else_body)
            case Store() | Update():
                total += 1
            case _:
                pass
    return total
