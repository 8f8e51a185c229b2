"""The choice between the parallel and the sequential form of code."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from ocannl.ir.assign import Assign, Comp, Conditional, LabeledBlock, Loop, ParallelForm, Seq, read_nodes
from ocannl.ir.tnode import TNode


def sequential_form(code: Comp, kept: Container[TNode] = ()) -> Comp:
    """Replaces each `ParallelForm` by its sequential form. Assignments to nodes that only parallel forms read are left
    out, unless the node is kept."""
    unread: dict[TNode, None] = {}
    result = _replaced(code, unread)
    if not unread:
        return result
    dropped = {node for node in unread if node not in kept} - set(read_nodes(result))
    return _without_assignments(result, dropped) if dropped else result


def _replaced(code: Comp, unread: dict[TNode, None]) -> Comp:
    match code:
        case ParallelForm(sequential=sequential, parallel_inputs=inputs):
            unread.update(dict.fromkeys(inputs))
            return sequential
        case Seq(items):
            return Seq(tuple([_replaced(item, unread) for item in items]))
        case LabeledBlock(_, body) | Loop(_, body) | Conditional(_, body):
            return replace(code, body=_replaced(body, unread))
        case _:
            return code


def _without_assignments(code: Comp, dropped: set[TNode]) -> Comp:
    """Returns the code without assignments to some nodes."""
    match code:
        case Assign(lhs) if lhs in dropped:
            return Seq()
        case Seq(items):
            return Seq(tuple([_without_assignments(item, dropped) for item in items]))
        case LabeledBlock(_, body) | Loop(_, body) | Conditional(_, body):
            return replace(code, body=_without_assignments(body, dropped))
        case _:
            return code
