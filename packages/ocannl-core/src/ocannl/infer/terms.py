"""Terms of shape inference: mutable cells for axes and rows of axes.

    DimVar   one axis: a size and a unit, each known or unknown
    RowVar   row variable: a part of a row whose number of axes is unknown
    Row      lead  var  trail        the axes of one kind, in order

Equal cells are merged by union-find (`DimVar.link` points to the representative, Tarjan 1975). Inequalities are stored
in lists at the cells they bound, so that no global table keeps tensors alive. The trail logs all changes, for undo.

The order `res <= opnd` means that an operand can be broadcast to a result. An axis fits under an equal axis, and under
an axis of size 1 without a unit. A row fits under another row if axes can be inserted in front of the latter, as in
NumPy, so that each pair of axes fits, counted from the last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from numbers import Integral
from typing import NamedTuple, Protocol, TypeVar

from ocannl.base.errors import ArgumentError
from ocannl.infer.spec import KINDS, Kind
from ocannl.infer.tensor_description import Provenance

T = TypeVar("T")

MAX_AXES = 64
"""Maximum rank of a row; a longer row is taken as proof of unbounded growth."""


Sizes = tuple[int, ...]
Extents = tuple[Sizes, Sizes, Sizes]
"""Sizes of the batch, input and output rows."""


class Owner(Protocol):
    """Interface of `Shape` used by the inference modules below it."""

    provenance: Provenance
    role: str
    origin: Cause | None
    rows: tuple[Row, Row, Row]
    is_required: bool  # an operation needs its axes
    explicit_kinds: tuple[Kind, ...]  # rows specified by the user
    is_finished: bool  # all shapes it depends on are decided
    decided_at: str  # user line whose shape query defaulted the unknowns of this leaf
    relations: list[Cause]  # operations that may still constrain the shape
    uses: tuple[Callable[[], Cause | None], ...]  # weak references to operations that constrained the shape

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

    def rows_differ(self, slot: int, expected: Row, actual: Row, reason: str) -> Exception:
        """Returns the `Mismatch` of two rows of different ranks."""
        ...


class CapturedSize(Protocol):
    """An inferred number that users query or constrain, bound to names of specs."""

    cell: DimVar

    def owners(self) -> list[Owner]:
        """Shapes of all operations that the number is connected to."""
        ...


class Constraint(Protocol):
    """A propagator: fires when a watched cell changes."""

    cause: Cause | None

    def fire(self, trail: Trail) -> None: ...


class Evidence(NamedTuple):
    """Origin of a size: an axis of a tensor, or the noun phrase `text`."""

    owner: Owner | None = None
    kind: Kind = "output"
    position: int = 0  # from 1
    text: str = ""
    decision: str = ""  # description of the default that set the size
    unit: str | None = None  # unit specified together with the size

    def __str__(self) -> str:
        return f"{self.kind} axis {self.position} of `{self.owner.provenance.label}`" if self.owner else self.text


class Axis(NamedTuple):
    """A solved axis."""

    size: int
    unit: str | None

    def __eq__(self, value: object) -> bool:
        if isinstance(value, Integral):
            raise ArgumentError(f"an axis has a size and a unit: write axis.size == {value}")
        return tuple.__eq__(self, value)

    def __ne__(self, value: object) -> bool:
        return not self == value

    def __hash__(self) -> int:
        return tuple.__hash__(self)


class DimVar:
    """Size and unit of an axis; a union-find node.

    evidence        origin of the size
    lower_bound     size of the known axes that fit under this axis, while its own size is unknown
    min_size        minimum size, because the axis is read at a fixed index
    leaf            a tensor that is not computed and has this axis; the axis defaults to the size of its uses
    is_required   operands of an operation meet along the axis: a parameter it comes from needs an inferred size
    meets_one       the axis is broadcast with an axis of size 1, which is a sufficient size of a parameter
    above           axes that this axis fits under
    below           axes that fit under this axis
    size_equations  equations that contain this size
    """

    __slots__ = (
        "above", "below", "evidence", "leaf", "link", "lower_bound", "meets_one", "min_size", "is_required", "rank",
        "size", "size_equations", "unit",
    )  # fmt: skip

    def __init__(self, size: int | None = None, unit: str | None = None, fact: Evidence | None = None) -> None:
        self.link: DimVar | None = None
        self.rank = 0
        self.size = size
        self.unit = unit
        self.evidence = fact
        self.lower_bound: int | None = None
        self.min_size = 0
        self.leaf: Owner | None = None
        self.is_required = False
        self.meets_one = False
        self.above: list[DimVar] | None = None
        self.below: list[DimVar] | None = None
        self.size_equations: list[Constraint] | None = None

    @property
    def is_stretchable(self) -> bool:
        """True for size 1 without a unit."""
        return self.size == 1 and not self.is_rigid

    @property
    def is_rigid(self) -> bool:
        """True for an axis that is never stretched: every axis that fits under it is equal to it."""
        return self.unit is not None or self.min_size > 1 or (self.size is not None and self.size != 1)


class Row:
    """Leading axes, an optional row variable, trailing axes."""

    __slots__ = ("lead", "trail", "var")

    def __init__(
        self, lead: tuple[DimVar, ...] = (), var: RowVar | None = None, trail: tuple[DimVar, ...] = ()
    ) -> None:
        self.lead = lead
        self.var = var
        self.trail = trail

    @property
    def axes(self) -> tuple[DimVar, ...]:
        return self.lead + self.trail

    @property
    def count(self) -> int:
        return len(self.lead) + len(self.trail)


class RowVar(Row):
    """Unknown number of unknown axes; `value` once determined. A variable is also a row without axes of its own.

    leaf, is_required   as for axes
    constrained           a known row constrains this variable, or known axes of a leaf are beside it, so that it may
                          default to the empty row
    depth                 number of axes inferred around this variable since it was created
    """

    __slots__ = ("constrained", "depth", "leaf", "is_required", "value", "watchers")
    lead = ()
    trail = ()

    def __init__(self, leaf: Owner | None = None, depth: int = 0) -> None:
        self.value: Row | None = None
        self.watchers: list[Constraint] | None = None
        self.leaf = leaf
        self.is_required = False
        self.constrained = False
        self.depth = depth

    @property
    def var(self) -> RowVar:  # type: ignore[override]
        return self


EMPTY = Row()


class Trail:
    """State of one transaction: relating an operation, or finishing connected tensors.

    log     entries to restore: an attribute of a cell, or an item to remove from a list (no attribute)
    queue   changed cells and constraints to fire
    cause   the operation that causes the changes
    """

    __slots__ = ("cause", "log", "queue")

    def __init__(self, cause: Cause | None = None) -> None:
        self.log: list[tuple[object, str | None, object]] = []
        self.queue: deque[DimVar | Constraint] = deque()
        self.cause = cause

    def set(self, cell: object, attribute: str, value: object) -> None:
        self.log.append((cell, attribute, getattr(cell, attribute)))
        setattr(cell, attribute, value)

    def push(self, items: list[T], item: T) -> None:
        items.append(item)
        self.log.append((items, None, None))

    def add(self, cell: DimVar | RowVar, attribute: str, item: object) -> None:
        """Appends to a list attribute of a cell, creating the list if needed."""
        items = getattr(cell, attribute)
        if items is None:
            self.log.append((cell, attribute, None))
            setattr(cell, attribute, [item])
        else:
            items.append(item)
            self.log.append((items, None, None))

    def undo(self) -> None:
        for cell, attribute, old in reversed(self.log):
            if attribute is None:
                assert isinstance(cell, list)
                cell.pop()
            else:
                setattr(cell, attribute, old)
        self.log.clear()
        self.queue.clear()


def fresh(count: int) -> tuple[DimVar, ...]:
    """Returns `count` new unconstrained axes."""
    return tuple([DimVar() for _ in range(count)])


def find(dim: DimVar) -> DimVar:
    """Returns the representative of an axis (union-find)."""
    while dim.link is not None:
        dim = dim.link
    return dim


def resolve(row: Row) -> Row:
    """Substitutes the value of the row variable."""
    var = row.var
    while var is not None and (value := var.value) is not None:
        row = Row(row.lead + value.lead, value.var, value.trail + row.trail) if row.lead or row.trail else value
        var = row.var
    return row


def is_solved(row: Row) -> bool:
    row = resolve(row)
    return row.var is None and all(find(d).size is not None for d in row.axes)


def sizes_of(row: Row) -> Sizes:
    """Sizes of a solved row."""
    sizes = [find(axis).size for axis in resolve(row).axes]
    assert None not in sizes
    return tuple(sizes)  # type: ignore[arg-type]


def print_dim(dim: DimVar) -> str:
    """Size prefixed by the unit, if any: `3`, `rgb=3`, `?`."""
    dim = find(dim)
    size = "?" if dim.size is None else str(dim.size)
    return size if dim.unit is None else f"{dim.unit}={size}"


def print_row(row: Row) -> str:
    """Row with `?` for an unknown size and `...` for a row variable."""
    row = resolve(row)
    gap = () if row.var is None else ("...",)
    return ",".join((*map(print_dim, row.lead), *gap, *map(print_dim, row.trail)))


def print_rows(rows: tuple[Row, Row, Row]) -> str:
    batch, input, output = map(print_row, rows)
    return (f"{batch}|" if batch else "") + (f"{input}->" if input else "") + output


__all__ = [
    "EMPTY",
    "KINDS",
    "MAX_AXES",
    "Axis",
    "CapturedSize",
    "Cause",
    "Constraint",
    "DimVar",
    "Extents",
    "Evidence",
    "Owner",
    "Row",
    "RowVar",
    "Sizes",
    "Trail",
    "find",
    "fresh",
    "is_solved",
    "print_dim",
    "print_row",
    "print_rows",
    "resolve",
    "sizes_of",
]
