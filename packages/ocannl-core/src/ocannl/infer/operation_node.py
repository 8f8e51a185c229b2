"""Operation node of the constraint graph: tensors, and bindings of the names in the spec."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ocannl.infer.logic import Logic
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.spec import KINDS, Coef, Kind, Label, RowSpec, ShapeSpec, print_shape
from ocannl.infer.tensor_description import Provenance
from ocannl.infer.terms import CapturedSize, DimVar, Owner, Row, print_row

NO_MATRIX = (
    "`@` sums over the input row of its left operand: give it input axes (input=[n], or input_axes=1 of an array), or "
    'write oc.einsum("...|i,k; ...|k,j => ...|i,j", x, y)'
)
"""What to do about a left operand without input axes."""


class Relation:
    """Rows are numbered by slots: row `k` of operand `n` is slot `3 * n + k`; the result follows the last operand."""

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
        self.captured = frozenset(captured)  # names of the spec that equations may size later
        self.captures: tuple[CapturedSize, ...] = ()
        self.labels: dict[str, DimVar] = {}
        self.row_vars: dict[str, Row] = {}

    @property
    def owners(self) -> tuple[Owner, ...]:
        return self.operands if self.result is None else (*self.operands, self.result)

    def coefficient(self, value: Coef) -> int:
        number = self.sizes.get(value, 0) if isinstance(value, str) else value
        if number < 1:
            problem = f"is {number}" if value in self.sizes or isinstance(value, int) else "has no value"
            fix = f"pass {value}=..., a number from 1" if isinstance(value, str) else "use a number from 1"
            raise Mismatch(f"the coefficient `{value}` {problem}", causes=(self,), fix=fix)
        return number

    # --- disagreement -----------------------------------------------------------------------------------------------

    def rows_differ(self, slot: int, expected: Row, actual: Row, reason: str) -> Mismatch:
        """Reports that a row of a tensor cannot have the rank required by the operation."""
        owner = self.owner(slot)
        target = self.broadcast_target(slot)
        peer = None if target is None else self.owner(target)
        kind = KINDS[slot % 3]
        shown = f"the {kind} row of {quoted_name(owner)} is {print_row(actual) or 'empty'}"
        if target is not None:
            first = f"the {KINDS[target % 3]} row of {quoted_name(peer)} is {print_row(expected) or 'empty'}"
            problem = f"{first}, but {shown}: {reason}"
            fix = "give both rows the same number of axes; `(a b)` in a spec merges axes"
            if self.logic.name == "compose" and not expected.count:
                fix = NO_MATRIX
        elif self.logic.name == "slice" and not actual.count:
            problem = f"`{self.provenance.expression}` is a slice along the first batch axis, but {shown}"
            fix = f"give {quoted_name(owner)} a batch axis, or take a part by a spec"
        elif (equal_slot := self.equal_row(slot)) is not None and (peer := self.owner(equal_slot)) is not None:
            row = print_row(peer.rows[equal_slot % 3]) or "empty"
            first = f"the {KINDS[equal_slot % 3]} row of {quoted_name(peer)} is {row}"
            problem = f"{first}, but {shown}: {reason}, since both are {self.row_text(slot)}"
            fix = "give both rows the same number of axes"
            if self.logic.name == "einsum":
                fix += ", or different names in the spec"
        else:
            problem = f"{self.row_text(slot)} has {count_text(expected)}, but {shown}"
            fix = f"give {quoted_name(owner)} {count_text(expected)} there"
            if self.logic.name == "einsum":
                fix = f"write {count_text(actual)} there, or `...` for any number"
                if actual.var is not None:
                    problem, fix = f"{problem}: {reason}", "give one of the tensors all its axes"
                fix = self.split_letters_fix(slot, actual) or fix
        owners = tuple(o for o in (peer, owner) if o is not None)
        dims, fix = expected.axes + actual.axes, self.logic.fix or fix
        return Mismatch(problem, dims=dims, owners=owners, causes=(self,), fix=fix)

    def split_letters_fix(self, slot: int, actual: Row) -> str | None:
        """Suggests commas if the rank would match with every letter of a multi-letter name as an axis."""
        row = self.row_spec(slot)
        names = [axis.name for axis in (*row.lead, *row.trail) if isinstance(axis, Label)]
        long = next((name for name in names if len(name) > 1 and name.isalpha()), None)
        letters = sum(map(len, names))
        fits = actual.count <= letters if actual.var is not None else actual.count == letters
        if long is None or not fits:
            return None
        return f"write `{','.join(long)}` for {len(long)} axes; names in this spec are whole words, so `{long}` is one"

    def owner(self, slot: int) -> Owner | None:
        return self.owners[slot // 3] if slot // 3 < len(self.owners) else None

    def broadcast_target(self, slot: int) -> int | None:
        """Slot of the row that the row at `slot` is broadcast to."""
        equal = (*self.logic.equal, *self.logic.result)
        stretched = next((use for use in self.logic.stretch if use.slot == slot), None)
        return next((use.slot for use in equal if stretched is not None and use.spec == stretched.spec), None)

    def equal_row(self, slot: int) -> int | None:
        """Slot of an earlier row with the same spec."""
        uses = (*self.logic.equal, *self.logic.result)
        spec = next((use.spec for use in uses if use.slot == slot), None)
        if spec is None or spec.var is None:
            return None
        candidates = (use.slot for use in uses if use.spec == spec and use.slot < slot)
        return next(candidates, None)

    def row_spec(self, slot: int) -> RowSpec:
        """Spec of the row at `slot`."""
        return next(use.spec for use in (*self.logic.equal, *self.logic.result) if use.slot == slot)

    def row_text(self, slot: int) -> str:
        """Row at `slot` as written in the spec."""
        kind: Kind = KINDS[slot % 3]
        row = self.row_spec(slot)
        if row == RowSpec():
            return f"the {kind} row that is not written in {self.logic}"
        return f"`{print_shape(ShapeSpec(**{kind: row})).removesuffix('|').removesuffix('->')}` in {self.logic}"


def quoted_name(owner: Owner | None) -> str:
    return f"`{owner.provenance.label}`" if owner is not None else "the result"


def count_text(row: Row) -> str:
    """Number of axes of a row, or its lower bound, as text."""
    if row.var is not None and not row.count:
        return "any number of axes"
    number = {0: "no axes", 1: "1 axis"}.get(row.count, f"{row.count} axes")
    return number if row.var is None else f"at least {number}"
