"""What is inferred: sizes of axes and rows of axes, as cells that learn.

    Dim      one axis: a size and a unit, each known or not
    RowVar   a part of a row of which not even the number of axes is known
    Row      lead  var  trail        the axes of one kind, in order

Two cells that must agree become one (a cell that was joined to another has a `link`). What is only bounded keeps lists
of its neighbours, so that unrelated tensors never meet and everything is collected with the last tensor that needs it.

The order `res <= opnd` says that an operand may be stretched to a result. An axis fits under an equal one, and under
one of size 1 without a unit. A row fits under another if axes can be inserted in front of the latter, as in NumPy, so
that each pair fits, counted from the last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ocannl.infer.spec import KINDS, Kind

if TYPE_CHECKING:
    from ocannl.infer.mismatch import Mismatch
    from ocannl.infer.trail import Trail

MAX_AXES = 64
"""No row has more; a row that would is growing without end."""


class Provenance:
    """Who a tensor is, in the user's words; labels may be bound after the shape exists, so words are asked for late."""

    __slots__ = ("name", "role", "text", "where")

    def __init__(
        self,
        name: str | Callable[[], str],
        role: str = "result",
        text: Callable[[], str] | None = None,
        where: str = "",
    ) -> None:
        self.name = name
        self.role = role
        self.text = text
        self.where = where

    @property
    def label(self) -> str:
        return self.name() if callable(self.name) else self.name

    @property
    def expression(self) -> str:
        return self.text() if self.text else self.label


Sizes = tuple[int, ...]
Extents = tuple[Sizes, Sizes, Sizes]
"""The sizes of each row."""


class Owner(Protocol):
    """The shape of a tensor, as inference below it sees it."""

    provenance: Provenance
    role: str
    origin: Cause | None
    rows: tuple[Row, Row, Row]
    asked: bool  # an operation needs to know its axes
    given: tuple[Kind, ...]  # the kinds of rows that were given with it
    is_finished: bool  # everything that it depends on is decided
    decided_at: str  # where the user asked for a shape, which ended what was open about this leaf
    relations: list[Cause]  # the operations that are still to tell something about it
    uses: tuple[Callable[[], Cause | None], ...]  # those that have told it, as long as they exist

    @property
    def is_param(self) -> bool: ...

    @property
    def is_solved(self) -> bool: ...

    @property
    def known(self) -> str: ...

    @property
    def extents(self) -> Extents: ...


class Cause(Protocol):
    """An operation that emits constraints."""

    provenance: Provenance

    def rows_differ(self, slot: int, said: Row, actual: Row, reason: str) -> Mismatch: ...


class Constraint(Protocol):
    """Something that looks again when a cell it watches has learned."""

    cause: Cause | None

    def fire(self, trail: Trail) -> None: ...


class Fact(NamedTuple):
    """Who said a size: an axis of a tensor, or whatever `text` says."""

    owner: Owner | None = None
    kind: Kind = "output"
    position: int = 0  # from 1
    text: str = ""
    why: str = ""  # a decision made it: in which words
    unit: str | None = None  # that was given as well

    def __str__(self) -> str:
        return f"{self.kind} axis {self.position} of `{self.owner.provenance.label}`" if self.owner else self.text


class Axis(NamedTuple):
    """A solved axis."""

    size: int
    unit: str | None


class Dim:
    """The size and the unit of an axis.

    fact     who said the size
    lower    the size of everything known to fit under this axis, while its own size is not known
    least    the size must be at least this much, since the axis is read at a fixed place
    leaf     a tensor that is not computed and has this axis: it is as large as its uses
    asked    operands of an operation meet along it: a parameter that it comes from must be told its size by something
    above    axes that this one fits under
    below    axes that fit under this one
    laws     arithmetic in which this size takes part
    """

    __slots__ = ("above", "asked", "below", "fact", "laws", "leaf", "least", "link", "lower", "rank", "size", "unit")

    def __init__(self, size: int | None = None, unit: str | None = None, fact: Fact | None = None) -> None:
        self.link: Dim | None = None
        self.rank = 0
        self.size = size
        self.unit = unit
        self.fact = fact
        self.lower: int | None = None
        self.least = 0
        self.leaf: Owner | None = None
        self.asked = False
        self.above: list[Dim] | None = None
        self.below: list[Dim] | None = None
        self.laws: list[Constraint] | None = None

    @property
    def is_stretchable(self) -> bool:
        """The size is 1, without a unit."""
        return self.size == 1 and not self.is_rigid

    @property
    def is_rigid(self) -> bool:
        """Never stretched: what fits under it equals it."""
        return self.unit is not None or self.least > 1 or (self.size is not None and self.size != 1)


class Row:
    """Axes in front, a variable or none, axes behind."""

    __slots__ = ("lead", "trail", "var")

    def __init__(self, lead: tuple[Dim, ...] = (), var: RowVar | None = None, trail: tuple[Dim, ...] = ()) -> None:
        self.lead = lead
        self.var = var
        self.trail = trail

    @property
    def axes(self) -> tuple[Dim, ...]:
        return self.lead + self.trail

    @property
    def count(self) -> int:
        return len(self.lead) + len(self.trail)


class RowVar(Row):
    """Axes not known yet, not even their number; `value` once they are. It is a row with no other axes, too.

    leaf, asked    as for axes
    told           something known has met this row, so that it may end here
    depth          how many axes were found to stand around this variable since it appeared
    """

    __slots__ = ("asked", "depth", "leaf", "told", "value", "watchers")
    lead = ()
    trail = ()

    def __init__(self, leaf: Owner | None = None, depth: int = 0) -> None:
        self.value: Row | None = None
        self.watchers: list[Constraint] | None = None
        self.leaf = leaf
        self.asked = False
        self.told = depth > 0
        self.depth = depth

    @property
    def var(self) -> RowVar:  # type: ignore[override]
        return self


EMPTY = Row()


def fresh(count: int) -> tuple[Dim, ...]:
    """Axes of which nothing is known."""
    return tuple([Dim() for _ in range(count)])


def find(dim: Dim) -> Dim:
    """The cell that this one was joined to."""
    while dim.link is not None:
        dim = dim.link
    return dim


def resolve(row: Row) -> Row:
    """The row with what its variable was found to be."""
    var = row.var
    while var is not None and (value := var.value) is not None:
        row = Row(row.lead + value.lead, value.var, value.trail + row.trail) if row.lead or row.trail else value
        var = row.var
    return row


def is_solved(row: Row) -> bool:
    row = resolve(row)
    return row.var is None and all(find(d).size is not None for d in row.axes)


def sizes_of(row: Row) -> Sizes:
    """Those of a row that is solved."""
    sizes = [find(axis).size for axis in resolve(row).axes]
    assert None not in sizes
    return tuple(sizes)  # type: ignore[arg-type]


def print_dim(dim: Dim) -> str:
    """The size behind the unit, if there is one: `3`, `rgb=3`, `?`."""
    dim = find(dim)
    size = "?" if dim.size is None else str(dim.size)
    return size if dim.unit is None else f"{dim.unit}={size}"


def print_row(row: Row) -> str:
    """The row as far as it is known: `?` for a size, `...` for a variable."""
    row = resolve(row)
    gap = () if row.var is None else ("...",)
    return ",".join((*map(print_dim, row.lead), *gap, *map(print_dim, row.trail)))


def print_rows(rows: tuple[Row, Row, Row]) -> str:
    batch, input, output = map(print_row, rows)
    return (f"{batch}|" if batch else "") + (f"{input}->" if input else "") + output


__all__ = [
    "EMPTY", "KINDS", "MAX_AXES",
    "Axis", "Cause", "Constraint", "Dim", "Extents", "Fact", "Owner", "Provenance", "Row", "RowVar", "Sizes",
    "find", "fresh", "is_solved", "print_dim", "print_row", "print_rows", "resolve", "sizes_of",
]
