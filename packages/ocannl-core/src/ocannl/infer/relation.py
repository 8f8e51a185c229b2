"""One operation: its tensors, and what the names in its spec stand for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ocannl.infer.logic import Logic
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.spec import KINDS, Coef, Kind, Label, RowSpec, ShapeSpec, print_shape
from ocannl.infer.terms import Dim, Owner, Provenance, Row, print_row

if TYPE_CHECKING:
    from ocannl.infer.capture import Capture


class Relation:
    """The rows of tensors are numbered: row `k` of operand `n` is slot `3 * n + k`, the result counts as one more."""

    __slots__ = (
        "__weakref__", "captured", "captures", "labels", "logic", "operands", "provenance", "result", "row_vars",
        "sizes",
    )  # fmt: skip

    def __init__(
        self,
        logic: Logic,
        operands: tuple[Owner, ...],
        provenance: Provenance,
        sizes: Mapping[str, int],
        captured: Collection[str] = (),
    ) -> None:
        self.logic = logic
        self.operands = operands
        self.provenance = provenance
        self.sizes = sizes
        self.result: Owner | None = None
        self.captured = frozenset(captured)  # names of the spec, which equations may size later
        self.captures: tuple[Capture, ...] = ()
        self.labels: dict[str, Dim] = {}
        self.row_vars: dict[str, Row] = {}

    @property
    def owners(self) -> tuple[Owner, ...]:
        return self.operands if self.result is None else (*self.operands, self.result)

    def coefficient(self, value: Coef) -> int:
        number = self.sizes.get(value, 0) if isinstance(value, str) else value
        if number < 1:
            said = f"is {number}" if value in self.sizes or isinstance(value, int) else "has no value"
            fix = f"pass {value}=..., a number from 1" if isinstance(value, str) else "use a number from 1"
            raise Mismatch(f"the coefficient `{value}` {said}", causes=(self,), fix=fix)
        return number

    # --- disagreement -----------------------------------------------------------------------------------------------

    def rows_differ(self, slot: int, said: Row, actual: Row, reason: str) -> Mismatch:
        """The row of a tensor cannot have as many axes as the operation says."""
        owner = self.owner(slot)
        home = self.home(slot)
        other = None if home is None else self.owner(home)
        kind = KINDS[slot % 3]
        shown = f"the {kind} row of {name(owner)} is {print_row(actual) or 'empty'}"
        if home is not None:
            first = f"the {KINDS[home % 3]} row of {name(other)} is {print_row(said) or 'empty'}"
            problem = f"{first}, but {shown}: {reason}"
            fix = "give both rows the same number of axes; `(a b)` in a spec merges axes"
        elif self.logic.name == "slice" and not actual.count:
            problem = f"`{self.provenance.expression}` is a slice along the first batch axis, but {shown}"
            fix = f"give {name(owner)} a batch axis, or take a part by a spec"
        elif (twin := self.twin(slot)) is not None and (other := self.owner(twin)) is not None:
            first = f"the {KINDS[twin % 3]} row of {name(other)} is {print_row(other.rows[twin % 3]) or 'empty'}"
            problem = f"{first}, but {shown}: {reason}, since both are {self.written(slot)}"
            fix = "give both rows the same number of axes"
            if self.logic.name == "einsum":
                fix += ", or different names in the spec"
        else:
            problem = f"{self.written(slot)} has {count(said)}, but {shown}"
            fix = f"give {name(owner)} {count(said)} there"
            if self.logic.name == "einsum":
                fix = f"write {count(actual)} there, or `...` for any number"
                if actual.var is not None:
                    problem, fix = f"{problem}: {reason}", "give one of the tensors all its axes"
                fix = self.letters_apart(slot, actual) or fix
        owners = tuple(o for o in (other, owner) if o is not None)
        return Mismatch(problem, dims=said.axes + actual.axes, owners=owners, causes=(self,), fix=fix)

    def letters_apart(self, slot: int, actual: Row) -> str | None:
        """The remedy where names of several letters would be as many axes as there are, were they letters."""
        row = self.said(slot)
        names = [axis.name for axis in (*row.lead, *row.trail) if isinstance(axis, Label)]
        long = next((name for name in names if len(name) > 1 and name.isalpha()), None)
        letters = sum(map(len, names))
        fits = actual.count <= letters if actual.var is not None else actual.count == letters
        if long is None or not fits:
            return None
        return f"write `{','.join(long)}` for {len(long)} axes; names in this spec are whole words, so `{long}` is one"

    def owner(self, slot: int) -> Owner | None:
        return self.owners[slot // 3] if slot // 3 < len(self.owners) else None

    def home(self, slot: int) -> int | None:
        """The slot of the row that a row may be stretched to."""
        equal = (*self.logic.equal, *self.logic.result)
        stretched = next((use for use in self.logic.stretch if use.slot == slot), None)
        return next((use.slot for use in equal if stretched is not None and use.spec == stretched.spec), None)

    def twin(self, slot: int) -> int | None:
        """Another row of which the spec says the same."""
        uses = (*self.logic.equal, *self.logic.result)
        spec = next((use.spec for use in uses if use.slot == slot), None)
        if spec is None or spec.var is None:
            return None
        others = (use.slot for use in uses if use.spec == spec and use.slot < slot)
        return next(others, None)

    def said(self, slot: int) -> RowSpec:
        """What the spec says of a row."""
        return next(use.spec for use in (*self.logic.equal, *self.logic.result) if use.slot == slot)

    def written(self, slot: int) -> str:
        """The row as the spec has it."""
        kind: Kind = KINDS[slot % 3]
        row = self.said(slot)
        if row == RowSpec():
            return f"the {kind} row that is not written in {self.logic}"
        return f"`{print_shape(ShapeSpec(**{kind: row})).removesuffix('|').removesuffix('->')}` in {self.logic}"


def name(owner: Owner | None) -> str:
    return f"`{owner.provenance.label}`" if owner is not None else "the result"


def count(row: Row) -> str:
    """How many axes a row has, or has at least."""
    if row.var is not None and not row.count:
        return "any number of axes"
    number = {0: "no axes", 1: "1 axis"}.get(row.count, f"{row.count} axes")
    return number if row.var is None else f"at least {number}"
