"""Which nodes a routine keeps, and which are its own business."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ocannl.base.errors import CodeError
from ocannl.ir.loops import AccessMode, Buf, Fact, MemorySpace, Proc
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.opt.analysis.nests import AccessTable
from ocannl.opt.analysis.substitution import replace_buffers

KEPT_ROLES = {
    Role.DATA: "constant data",
    Role.PARAMETER: "parameter",
    Role.PLACEHOLDER: "placeholder",
    Role.STATE: "state",
}


def decide_placement(proc: Proc, asked: Mapping[TNode, str]) -> Proc:
    """Decides for every node, by the first rule that applies, and moves the temporary ones to the arena.

        proc step                       proc step
          x : f32[5]  in                  x : f32[5]  in           # kept: placeholder
          h : f32[5]  out                 h : f32[5]  arena        # temporary: read only inside `step`
          y : f32[5]  out                 y : f32[5]  out          # kept: written and not read later
          for i in 0..5:          ==>     for i in 0..5:
            h[i] = tanh(x[i])               h[i] = tanh(x[i])
          for i_2 in 0..5:                for i_2 in 0..5:
            y[i_2] = h[i_2] * 2             y[i_2] = h[i_2] * 2

    `asked` names nodes that someone wants to look at afterwards, and who.
    """
    table = AccessTable(proc.body)
    facts: list[Fact] = []
    moved: dict[Buf, Buf] = {}
    for buf in proc.bufs:
        if buf.node is None or buf.access is AccessMode.MERGE:
            continue
        fact = _decide(buf, buf.node, proc.name, table, asked)
        facts.append(fact)
        if fact.placement is Placement.TEMPORARY:
            moved[buf] = replace(buf, space=MemorySpace.ARENA, access=AccessMode.TEMP)
    return replace(replace_buffers(proc, moved), facts=tuple(facts))


def _decide(buf: Buf, node: TNode, routine: str, table: AccessTable, asked: Mapping[TNode, str]) -> Fact:
    comes_in = buf.access in (AccessMode.IN, AccessMode.INOUT, AccessMode.CONST)
    wish, wisher = node.requested.value, node.requested.author or ""
    if wish is Placement.TEMPORARY:
        contrary = asked.get(node) or ("it is read before it is written" if comes_in else None)
        if contrary is not None:
            raise CodeError(
                f"the placement of `{node.label}` is {wish}, settled by {wisher}; "
                f"`{routine}` has to keep it: {contrary}"
            )
        return Fact(node, wish, wisher)
    if wish is Placement.KEPT:
        return Fact(node, wish, wisher)
    author = KEPT_ROLES.get(node.role) or asked.get(node)
    if author is None and comes_in:
        author = "read before it is written"
    if author is None and not _read_later(buf, table):
        author = "written and not read later"
    if author is not None:
        return Fact(node, Placement.KEPT, author)
    return Fact(node, Placement.TEMPORARY, f"read only inside `{routine}`")


def _read_later(buf: Buf, table: AccessTable) -> bool:
    """Whether a statement after the last that writes the buffer reads it."""
    read, written = table.readers.get(buf), table.writers.get(buf)
    return bool(read and written and read[-1] > written[-1])
