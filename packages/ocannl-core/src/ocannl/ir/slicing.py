"""Program slices: the statements of a computation that the values of given nodes depend on.

Source: Weiser 1981, "Program slicing". A statement depends on those before it that write a node which it accesses, or
read a node which it writes, so slices taken out in order compute the same as the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ocannl.ir.assign import Comp, LabeledBlock, Seq, host_calls, nodes, written_nodes
from ocannl.ir.tnode import TNode


@dataclass(frozen=True, slots=True)
class SliceStatement:
    """A statement under its headings; a loop or conditional is one statement. `dependencies` has a bit for each
    statement before, and for this one."""

    headings: tuple[str, ...]
    code: Comp
    dependencies: int


class Slicer:
    """The statements of a computation, and their dependencies."""

    def __init__(self, code: Comp) -> None:
        self._statements: list[SliceStatement] = []
        self._accesses: dict[TNode, int] = {}  # all statements that access a node
        writers: dict[TNode, int] = {}  # the dependencies of the last write of a node
        readers: dict[TNode, int] = {}  # those of its reads since
        calls = 0
        for number, (headings, statement) in enumerate(_flat(code, ())):
            accessed, written = nodes(statement), set(written_nodes(statement))
            dependencies = 1 << number
            for node in accessed:
                dependencies |= writers.get(node, 0)
                if node in written:
                    dependencies |= readers.pop(node, 0)
            if next(host_calls(statement), None) is not None:  # these have effects, and stay in order
                calls = dependencies = dependencies | calls
            for node in accessed:
                target = writers if node in written else readers
                target[node] = target.get(node, 0) | dependencies
                self._accesses[node] = self._accesses.get(node, 0) | dependencies
            self._statements.append(SliceStatement(headings, statement, dependencies))

    def count(self, node: TNode) -> int:
        """The number of statements that all accesses of a node depend on."""
        return self._accesses.get(node, 0).bit_count()

    def slices(self, groups: Sequence[Sequence[TNode]]) -> list[Comp]:
        """Divides the computation into as many parts as there are groups of nodes: after a part, the computation does
        not access the nodes of its group. The last part has all remaining statements."""
        taken, parts = 0, []
        everything = (1 << len(self._statements)) - 1
        for number, group in enumerate(groups):
            needed = everything if number == len(groups) - 1 else 0
            for node in group:
                needed |= self._accesses.get(node, 0)
            parts.append(self._code(needed & ~taken))
            taken |= needed
        return parts

    def _code(self, selected: int) -> Comp:
        chosen = [statement for number, statement in enumerate(self._statements) if selected >> number & 1]
        return _nested([(statement.headings, statement.code) for statement in chosen])


def _flat(code: Comp, headings: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Comp]]:
    match code:
        case Seq(items):
            for item in items:
                yield from _flat(item, headings)
        case LabeledBlock(text, body):
            yield from _flat(body, (*headings, text))
        case _:
            yield headings, code


def _nested(statements: Sequence[tuple[tuple[str, ...], Comp]]) -> Comp:
    """The statements in blocks of their headings."""
    items: list[Comp] = []
    for heading, group in groupby(statements, lambda statement: statement[0][:1]):
        if heading:
            items.append(LabeledBlock(heading[0], _nested([(headings[1:], code) for headings, code in group])))
        else:
            items += [code for _, code in group]
    return Seq(tuple(items))
