"""What a checkpoint holds of a model or of its training: nodes by unique path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from ocannl.base.errors import CheckpointError, CodeError
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.blocks import Block
from ocannl.lang.core import graph
from ocannl.lang.core.random import CallCounter, Stream, assign_streams
from ocannl.lang.core.tensor import Tensor
from ocannl.runtime.routine import Routine
from ocannl.runtime.routine_sequence import RoutineSequence

PARAMETER, STATE, NODE, RANDOM = "parameter", "state", "node", "random"
RESERVED = "__metadata__"


@runtime_checkable
class HasCheckpointParts(Protocol):
    """An object that is saved as its parts: a tensor, a block, a routine, or a mapping of these."""

    def checkpoint_parts(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """A node under its key in a checkpoint. `kind` is one of "parameter", "state" (of a block), "node" (of code, such
    as an optimizer's) and "random" (the key of a stream, or its number of calls)."""

    key: str
    node: TNode
    kind: str


def entries_of(subject: object) -> list[Entry]:
    """The entries of a tensor, a block, a routine or a mapping, each node once.

    Raises: CheckpointError if there are no entries, or if two nodes have one key.
    """
    entries = listed_entries(subject)
    by_key: dict[str, Entry] = {}
    for entry in entries:
        namesake = by_key.setdefault(entry.key, entry)
        if namesake is not entry:
            lines = " and ".join(e.node.where or "an unknown line" for e in (namesake, entry))
            raise CheckpointError(
                f"two nodes are called `{entry.key}`, made in {lines}: a checkpoint holds nodes by name; give one of "
                "them another label"
            )
    if RESERVED in by_key:
        raise CheckpointError(f"a node is called `{RESERVED}`, which files of safetensors use otherwise: rename it")
    if not entries:
        raise CheckpointError(f"{_shown(subject)} has no parameters and no state: there is nothing to save or to load")
    return entries


def listed_entries(subject: object) -> list[Entry]:
    """The entries of a subject as in `entries_of`; there may be none, and two nodes may have one key."""
    first: dict[TNode, Entry] = {}
    for entry in _entries(subject):
        first.setdefault(entry.node, entry)
    return _with_numbered_streams(first.values())


def _entries(subject: object) -> Iterator[Entry]:
    match subject:
        case Routine() | RoutineSequence():
            yield from map(_entry, _persistent_nodes(subject))
        case Block():
            for leaves in (subject.params, subject.states):
                yield from (replace(_entry(t.node), key=path) for path, t in leaves.items())
        case Tensor() if _is_leaf(subject):
            yield _entry(subject.node)
        case Tensor():
            yield from map(_entry, _nodes_of_expression(subject))
        case HasCheckpointParts():
            yield from _entries(subject.checkpoint_parts())
        case Mapping():
            for name, part in subject.items():
                yield from _named(name, part)
        case _:
            raise CodeError(
                f"a checkpoint holds a tensor, a block, a routine, or a mapping of these, not {_shown(subject)}"
            )


def _named(name: object, part: object) -> Iterator[Entry]:
    if not isinstance(name, str) or not name:
        raise CodeError(f"the parts of a checkpoint have names, not {name!r}"[:200])
    if isinstance(part, Tensor) and _is_leaf(part):
        yield replace(_entry(part.node), key=name)
    else:
        yield from (replace(entry, key=f"{name}.{entry.key}") for entry in _entries(part))


def _is_leaf(t: Tensor) -> bool:
    return t.application is None and t.literal is None


def _entry(node: TNode) -> Entry:
    contents = node.contents
    if isinstance(contents, Stream):
        return Entry(f"{_stream_name(contents)}.key", node, RANDOM)
    if isinstance(contents, CallCounter):
        return Entry(f"{_stream_name(contents.stream)}.calls", node, RANDOM)
    if node.role is Role.PARAMETER:
        return Entry(node.path or node.label, node, PARAMETER)
    if node.gradient_of is not None:
        return Entry(f"{node.gradient_of.path or node.gradient_of.label}.grad", node, NODE)
    return Entry(node.path or node.label, node, NODE if node.path is None else STATE)


def _stream_name(stream: Stream) -> str:
    assign_streams([stream])
    path, ordinal = stream.stream()
    return f"random.{path}.{ordinal}"


def _with_numbered_streams(entries: Iterable[Entry]) -> list[Entry]:
    """The entries; streams with the same key, which draw the same numbers, are numbered in order of creation."""
    ordered, used = sorted(entries, key=lambda entry: entry.node.id), set()
    numbered: dict[TNode, str] = {}
    for entry in ordered:
        key, n = entry.key, 2
        while entry.kind == RANDOM and key in used:
            key, n = f"{entry.key}_{n}", n + 1
        used.add(key)
        numbered[entry.node] = key
    return [replace(entry, key=numbered[entry.node]) for entry in ordered]


def _persistent_nodes(routine: Routine | RoutineSequence) -> Iterator[TNode]:
    """The nodes of a routine whose values its later calls depend on."""
    outputs = set(routine.outputs)
    for node in dict.fromkeys((*routine.inputs, *routine.outputs)):
        is_updated = node in outputs and node in routine.inputs
        if node.role in (Role.PARAMETER, Role.STATE) or isinstance(node.contents, Stream) or is_updated:
            yield node


def _nodes_of_expression(t: Tensor) -> Iterator[TNode]:
    """The parameters and states that an expression depends on, and its random streams."""
    tensors = graph.everything([t])
    assign_streams(s.node.contents for s in tensors if isinstance(s.node.contents, Stream))
    for node in dict.fromkeys(s.node for s in tensors):
        if node.role in (Role.PARAMETER, Role.STATE) or isinstance(node.contents, Stream):
            yield node


def _shown(subject: object) -> str:
    return f"`{subject.label}`" if isinstance(subject, Tensor | Block) else repr(subject)[:100]
