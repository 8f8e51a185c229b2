"""Decides which nodes contexts keep, and which are temporaries of the routine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ocannl.base.errors import CodeError
from ocannl.ir.loops import AccessMode, Body, Buf, Fact, MemorySpace, Proc, region_body
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.opt.analysis.nests import AccessTable
from ocannl.opt.analysis.substitution import replace_buffers

KEPT_ROLES = {
    Role.DATA: "constant data",
    Role.PARAMETER: "parameter",
    Role.PLACEHOLDER: "placeholder",
    Role.STATE: "state",
}


def decide_placement(proc: Proc, keep_reasons: Mapping[TNode, str]) -> Proc:
    """Decides the placement of every node by the first rule that applies, and moves temporaries to the arena.

        proc step                       proc step
          x : f32[5]  in                  x : f32[5]  in           # kept: placeholder
          h : f32[5]  out                 h : f32[5]  arena        # temporary: read only inside `step`
          y : f32[5]  out                 y : f32[5]  out          # kept: written and not read later
          for i in 0..5:          ==>     for i in 0..5:
            h[i] = tanh(x[i])               h[i] = tanh(x[i])
          for i_2 in 0..5:                for i_2 in 0..5:
            y[i_2] = h[i_2] * 2             y[i_2] = h[i_2] * 2

    `keep_reasons` maps every node that is read after the program to the reason why it is kept. Raises `CodeError` if a
    node that must be kept has been requested to be temporary.
    """
    table = AccessTable(proc.body)
    facts: list[Fact] = []
    temporaries: dict[Buf, Buf] = {}
    for buf in proc.bufs:
        if buf.node is None or buf.access is AccessMode.MERGE:
            continue
        fact = _decide(buf, buf.node, proc, table, keep_reasons)
        facts.append(fact)
        if fact.placement is Placement.TEMPORARY:
            temporaries[buf] = replace(buf, space=MemorySpace.ARENA, access=AccessMode.TEMP)
    return replace(replace_buffers(proc, temporaries), facts=tuple(facts))


def keep_all_nodes(proc: Proc) -> Proc:
    """The plain form of `decide_placement`: contexts keep every node."""
    nodes = [buf.node for buf in proc.bufs if buf.node is not None and buf.access is not AccessMode.MERGE]
    return replace(proc, facts=tuple(Fact(node, Placement.KEPT, "plain placement") for node in nodes))


def _decide(buf: Buf, node: TNode, proc: Proc, table: AccessTable, keep_reasons: Mapping[TNode, str]) -> Fact:
    is_input = buf.access in (AccessMode.IN, AccessMode.INOUT, AccessMode.CONST)
    requested, requester = node.requested.value, node.requested.author or ""
    if requested is Placement.TEMPORARY:
        conflict = keep_reasons.get(node) or ("it is read before it is written" if is_input else None)
        if conflict is not None:
            raise CodeError(
                f"the placement of `{node.label}` is {requested}, settled by {requester}; "
                f"`{proc.name}` has to keep it: {conflict}"
            )
        return Fact(node, requested, requester)
    if requested is Placement.KEPT:
        return Fact(node, requested, requester)
    reason = KEPT_ROLES.get(node.role) or keep_reasons.get(node)
    if reason is None and is_input:
        reason = "read before it is written"
    if reason is None and not _is_read_after_last_write(buf, table, proc.body):
        reason = "written and not read later"
    if reason is not None:
        return Fact(node, Placement.KEPT, reason)
    return Fact(node, Placement.TEMPORARY, f"read only inside `{proc.name}`")


def _is_read_after_last_write(buf: Buf, table: AccessTable, body: Body) -> bool:
    read, written = table.readers.get(buf), table.writers.get(buf)
    if not read or not written or read[-1] < written[-1]:
        return False
    return read[-1] > written[-1] or region_body(body[read[-1]]) is not None
