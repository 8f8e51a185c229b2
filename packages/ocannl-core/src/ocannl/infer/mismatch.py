"""The disagreement of two facts, as low code states it; `explain` adds the user's words."""

from __future__ import annotations

from typing import NamedTuple

from ocannl.infer.spec import Kind
from ocannl.infer.terms import Cause, Dim, Owner, Row, find, print_row


class Place(NamedTuple):
    """A row of a tensor that takes part in an operation, as an operand or as what is written."""

    owner: Owner
    kind: Kind
    is_result: bool = False

    def __str__(self) -> str:
        return f"the {self.kind} row of `{self.owner.provenance.label}`"


class Mismatch(Exception):
    """What is wrong in one sentence, with the cells and tensors it is about; never leaves this package."""

    def __init__(
        self,
        problem: str,
        *,
        dims: tuple[Dim, ...] = (),
        owners: tuple[Owner, ...] = (),
        cause: Cause | None = None,
        fix: str = "",
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.dims = tuple(map(find, dims))
        self.owners = owners
        self.cause = cause
        self.fix = fix


def state(dim: Dim) -> str:
    """`input axis 1 of `w` is 784`"""
    dim = find(dim)
    size = "?" if dim.size is None else f"{dim.unit} {dim.size}" if dim.unit else str(dim.size)
    return f"{dim.fact or 'an axis'} is {size}"


def sizes_differ(a: Dim, b: Dim) -> Mismatch:
    a, b = find(a), find(b)
    if a.size == b.size or a.size is None or b.size is None:
        return Mismatch(f"{state(a)}, but {state(b)}: their units differ", dims=(a, b), fix="give both the same unit")
    return Mismatch(f"{state(a)}, but {state(b)}", dims=(a, b))


def rows_differ(a: Row, b: Row, at_a: Place | None, at_b: Place | None, reason: str) -> Mismatch:
    """Rows whose numbers of axes cannot agree."""
    left = f"{at_a or 'one row'} is {print_row(a) or 'empty'}"
    right = f"{at_b or 'the other'} is {print_row(b) or 'empty'}"
    owners = tuple(p.owner for p in (at_a, at_b) if p)
    return Mismatch(f"{left}, but {right}: {reason}", dims=(*a.axes, *b.axes), owners=owners)
