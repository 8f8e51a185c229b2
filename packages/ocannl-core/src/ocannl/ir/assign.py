"""Comp: what to compute, before anyone says how.

    Comp   = Seq(items) | Block(text, body) | Assign
    Assign : lhs <- lhs accum value, over the boxes of its pieces; `clear` first sets lhs to the neutral element of
             accum; accum None is a plain store. Every value reads its nodes as they were before the statement,
             clearing included. A cell meets its values in the order of the pieces and of their loops.
    Value  = Read | Number | Index | Apply | Convert

Numbers are weak: they take the type of their partner. `Apply` computes in the promoted type of its operands (conditions
of `where` apart), floats narrower than float32 in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.ops import Op
from ocannl.ir.precision import Precision
from ocannl.ir.tnode import TNode


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a statement came from: never part of equality, hashes or cache keys."""

    label: str = ""  # of the tensor whose code this is
    where: str = ""  # file and line


NOWHERE = Origin()


@dataclass(frozen=True, slots=True)
class Read:
    """One cell. `merge` reads the merge buffer of the node; `outside` is the value where the indices are out of bounds,
    None if they never are."""

    node: TNode
    indices: tuple[Affine, ...]
    outside: float | None = None
    merge: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    value: int | float


@dataclass(frozen=True, slots=True)
class Index:
    """The value of an index expression, as a number (int32, weakly)."""

    index: Affine


@dataclass(frozen=True, slots=True)
class Apply:
    op: Op
    args: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Convert:
    value: Value
    precision: Precision


Value = Read | Number | Index | Apply | Convert


@dataclass(frozen=True, slots=True)
class IndirectIndex:
    """A symbol whose value is read from memory at each point of a box: the index of a gather or scatter. Points where
    the value is out of the range of the symbol are skipped."""

    sym: Sym
    value: Value


@dataclass(frozen=True, slots=True)
class Piece:
    """At every point of `loops` where `when` holds and then all `indirect` indices are in range, `value` is stored or
    accumulated in the cell `indices` of the left side. `when` and the values of indirect indices refer only to loops
    and static symbols."""

    loops: tuple[Sym, ...]
    indices: tuple[Affine, ...]
    value: Value
    when: Cond = TRUE
    indirect: tuple[IndirectIndex, ...] = ()

    @property
    def reads(self) -> Iterator[Read]:
        """The cells that it reads."""
        for pick in self.indirect:
            yield from reads(pick.value)
        yield from reads(self.value)


@dataclass(frozen=True, slots=True)
class Assign:
    lhs: TNode
    accum: Op | None
    clear: bool
    pieces: tuple[Piece, ...]
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Block:
    """Code under a heading: names functions, files and rows of a profile."""

    text: str
    body: Comp


@dataclass(frozen=True, slots=True)
class Seq:
    items: tuple[Comp, ...] = ()


Comp = Seq | Block | Assign


def assigns(comp: Comp) -> Iterator[Assign]:
    """The assignments in order of execution."""
    stack: list[Comp] = [comp]
    while stack:
        match stack.pop():
            case Seq(items):
                stack.extend(reversed(items))
            case Block(_, body):
                stack.append(body)
            case Assign() as assign:
                yield assign


def reads(value: Value) -> Iterator[Read]:
    """The cells a value reads, left to right."""
    match value:
        case Read():
            yield value
        case Apply(_, args):
            for arg in args:
                yield from reads(arg)
        case Convert(inner, _):
            yield from reads(inner)
        case _:
            pass


def nodes(comp: Comp) -> tuple[TNode, ...]:
    """Every node of the code, in order of first mention."""
    seen: dict[TNode, None] = {}
    for assign in assigns(comp):
        for piece in assign.pieces:
            for read in piece.reads:
                seen.setdefault(read.node)
        seen.setdefault(assign.lhs)
    return tuple(seen)
