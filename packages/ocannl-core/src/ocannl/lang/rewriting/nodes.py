"""Which tensors are nodes of a graph, their names, and what they read."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from ocannl.ir.tnode import Role
from ocannl.lang.core import graph
from ocannl.lang.core.region_tensor import RegionTensor
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.random_streams import is_random_source
from ocannl.lang.record.states import StateRead
from ocannl.lang.rewriting.copies import call_of


def leaf_kind(t: Tensor) -> str:
    if t.is_parameter:
        return "parameter"
    if t.node.role is Role.STATE:
        return "state"
    return "input" if t.node.contents is None else "constant"


def readers_of(tensors: Iterable[Tensor]) -> Mapping[Tensor, list[Tensor]]:
    readers: dict[Tensor, list[Tensor]] = {t: [] for t in tensors}
    for t in tensors:
        for operand in graph.all_operands(t):
            readers[operand].append(t)
    return readers


def is_hidden(t: Tensor, readers: Sequence[Tensor]) -> bool:
    """Whether a tensor is no node: a number, a read of a state, a loop (its results are nodes), the key or the counter
    of a random stream, an intermediate result of a composite function, or a copy of one result for the next."""
    if t.literal is not None or isinstance(t, RegionTensor | StateRead) or is_random_source(t):
        return True
    if readers and all(_reads_result(reader, t) for reader in readers):
        return True
    call = call_of(t)
    return call is not None and bool(readers) and all(call_of(reader) is call for reader in readers)


def _reads_result(reader: Tensor, t: Tensor) -> bool:
    """Whether `t` is an earlier result of the operation that the reader is a result of."""
    application = reader.application
    if application is None or application.operation.inputs is None:
        return False
    return t in application.operands[application.operation.inputs :]


def sources_of(t: Tensor, visible: Container[Tensor]) -> tuple[Tensor, ...]:
    """The visible tensors that a tensor reads, directly or through hidden ones, in order."""
    sources: dict[Tensor, None] = {}
    pending = list(reversed(list(graph.all_operands(t))))
    seen = set(pending)
    while pending:
        operand = pending.pop()
        if operand in visible:
            sources[operand] = None
        else:
            following = [o for o in graph.all_operands(operand) if o not in seen or o in visible]
            seen.update(following)
            pending.extend(reversed(following))
    return tuple(sources)


def name_of(t: Tensor) -> str:
    if t.application is None:
        return t.path or t.label
    if t.block_results:
        return t.block_results[-1]
    return f"{t.scope}.{t.label}" if t.scope else t.label


def unique_name(name: str, taken: set[str]) -> str:
    unique, n = name, 2
    while unique in taken:
        unique, n = f"{name}_{n}", n + 1
    taken.add(unique)
    return unique
