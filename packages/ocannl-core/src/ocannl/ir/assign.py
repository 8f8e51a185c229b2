"""Computations: sequences of assignments to tensor nodes, without a choice of loop order or storage.

    Comp   = Seq(items) | LabeledBlock(text, body) | Loop(sym, body) | Conditional(condition, body) | Assign | HostCall
    ParallelForm(items, sequential) is a Seq
    Assign : lhs <- lhs accum value, over the iteration spaces of its pieces; `clear` first sets lhs to the neutral
             element of accum; accum None is a plain store. All values read the nodes as they were before the statement,
             clearing included. A cell accumulates its values in the order of the pieces and of their loops.
    Value  = Read | Number | Index | Apply | Convert

Numbers are weakly typed: they take the type of the other operands. `Apply` computes in the promoted type of its
operands (except the condition of `where`), and floats narrower than float32 compute in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.host_call import HostCall
from ocannl.ir.ops import BY_NAME, Op
from ocannl.ir.precision import Precision
from ocannl.ir.tnode import TNode


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a statement. It does not take part in equality, hashes or cache keys."""

    label: str = ""  # of the tensor whose code this is
    where: str = ""  # file and line


NOWHERE = Origin()


@dataclass(frozen=True, slots=True)
class Read:
    """The value of a cell. `merge` selects the merge buffer of the node; `outside` is the value where the indices are
    out of bounds, None if they never are."""

    node: TNode
    indices: tuple[Affine, ...]
    outside: float | None = None
    merge: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    value: int | float


@dataclass(frozen=True, slots=True)
class Index:
    """The value of an index expression as a weakly typed int32."""

    index: Affine


@dataclass(frozen=True, slots=True)
class Call:
    op: Op
    args: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Convert:
    value: Value
    precision: Precision


Value = Read | Number | Index | Call | Convert


@dataclass(frozen=True, slots=True)
class IndirectIndex:
    """The index of a gather or scatter: a symbol whose value is computed in each iteration. Iterations where the value
    is out of the range of the symbol are skipped."""

    sym: Sym
    value: Value


@dataclass(frozen=True, slots=True)
class Piece:
    """One rectangular iteration space of an assignment. In each iteration of `loops` for which `when` holds and all
    `indirect` indices are in range, `value` is stored to or accumulated in the cell `indices` of the left-hand side.
    `when` and the values of indirect indices use only loops and static symbols."""

    loops: tuple[Sym, ...]
    indices: tuple[Affine, ...]
    value: Value
    when: Cond = TRUE
    indirect: tuple[IndirectIndex, ...] = ()

    @property
    def reads(self) -> Iterator[Read]:
        """The reads of the value and of the indirect indices."""
        for indirect in self.indirect:
            yield from reads(indirect.value)
        yield from reads(self.value)


@dataclass(frozen=True, slots=True)
class Assign:
    lhs: TNode
    accum: Op | None
    clear: bool
    pieces: tuple[Piece, ...]
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class LabeledBlock:
    """Code with a heading, which names generated functions, files and rows of profiles."""

    text: str
    body: Comp


@dataclass(frozen=True, slots=True)
class Seq:
    items: tuple[Comp, ...] = ()


@dataclass(frozen=True, slots=True)
class ParallelForm(Seq):
    """Assignments that are parallel over all cells, with an equivalent `sequential` form of less work for CPUs. The
    results of both are the same up to rounding. Tangents (`jvp`) and slices of code (gradient buckets) have only the
    parallel form. `parallel_inputs` are computed for the parallel form only."""

    sequential: Comp = field(kw_only=True)
    parallel_inputs: tuple[TNode, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class Loop:
    """Executes the body for each value of a symbol of kind ITERATION, in ascending order.

    No cell of the `private` nodes is read before the loop, or code before it, has written the cell. The same holds for
    the `overwritten` nodes from the start of the loop on; code before the loop may read them.
    """

    sym: Sym
    body: Comp
    private: tuple[TNode, ...] = ()
    overwritten: tuple[TNode, ...] = ()


@dataclass(frozen=True, slots=True)
class Conditional:
    """Executes the body if the condition, which has no loops, is not 0. `private` is as in `Loop`."""

    condition: Value
    body: Comp
    private: tuple[TNode, ...] = ()


Comp = Seq | LabeledBlock | Loop | Conditional | Assign | HostCall


def call(name: str, *args: Value) -> Call:
    """The primitive operation of a name."""
    return Call(BY_NAME[name], args)


def assigns(comp: Comp) -> Iterator[Assign]:
    """The assignments in order of the text: those in the body of a loop occur once."""
    return (statement for statement in statements(comp) if isinstance(statement, Assign))


def host_calls(comp: Comp) -> Iterator[HostCall]:
    """The host calls in order of the text."""
    return (statement for statement in statements(comp) if isinstance(statement, HostCall))


def written_nodes(comp: Comp) -> Iterator[TNode]:
    """The nodes that assignments and host calls write, in order of the text; with repetitions."""
    for statement in statements(comp):
        match statement:
            case HostCall():
                yield from statement.written
            case Assign(lhs):
                yield lhs


def read_nodes(comp: Comp) -> Iterator[TNode]:
    """The nodes that statements read, in order of the text; with repetitions."""
    for statement in statements(comp):
        match statement:
            case HostCall():
                yield from statement.read
            case Conditional(condition):
                yield from (read.node for read in reads(condition))
            case Assign(pieces=pieces):
                yield from (read.node for piece in pieces for read in piece.reads)


def statements(comp: Comp) -> Iterator[Assign | Conditional | HostCall]:
    """The assignments and host calls in order of the text, and each conditional before its statements."""
    stack: list[Comp] = [comp]
    while stack:
        match stack.pop():
            case Seq(items):
                stack.extend(reversed(items))
            case LabeledBlock(_, body) | Loop(_, body):
                stack.append(body)
            case Conditional(_, body) as conditional:
                yield conditional
                stack.append(body)
            case (Assign() | HostCall()) as statement:
                yield statement


def reads(value: Value) -> Iterator[Read]:
    """The reads of a value, from left to right."""
    match value:
        case Read():
            yield value
        case Call(_, args):
            for arg in args:
                yield from reads(arg)
        case Convert(inner, _):
            yield from reads(inner)
        case _:
            pass


def nodes(comp: Comp) -> tuple[TNode, ...]:
    """All nodes of the code, in order of first occurrence."""
    seen: dict[TNode, None] = {}
    for statement in statements(comp):
        match statement:
            case Conditional(condition):
                seen.update((read.node, None) for read in reads(condition) if read.node not in seen)
            case Assign(lhs, pieces=pieces):
                for piece in pieces:
                    for read in piece.reads:
                        seen.setdefault(read.node)
                seen.setdefault(lhs)
    for call in host_calls(comp):
        seen.update((node, None) for node in call.nodes if node not in seen)
    return tuple(seen)
