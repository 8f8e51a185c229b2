"""Internal contradiction between constraints; `explain` turns it into a user-facing error."""

from __future__ import annotations

from ocannl.infer.terms import Cause, DimVar, Evidence, Owner, Row, find, print_dim, print_row


class Mismatch(Exception):
    """Contradiction: a one-sentence problem with the cells and tensors involved. Never leaves this package."""

    def __init__(
        self,
        problem: str,
        *,
        dims: tuple[DimVar, ...] = (),
        owners: tuple[Owner, ...] = (),
        causes: tuple[Cause | None, ...] = (),
        fix: str = "",
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.cells = tuple(map(find, dims))
        self.evidence = tuple(cell.evidence for cell in self.cells)
        self.owners = owners
        self.causes = causes
        self.fix = fix


def state(dim: DimVar) -> str:
    """`input axis 1 of `w` is 784`"""
    dim = find(dim)
    return f"{dim.evidence or 'an axis'} is {print_dim(dim).replace('=', ' ')}"


def sizes_differ(a: DimVar, b: DimVar) -> Mismatch:
    a, b = find(a), find(b)
    problem = f"{state(a)}, but {state(b)}"
    if a.unit is not None and b.unit is not None and a.unit != b.unit:
        return Mismatch(f"{problem}: their units differ", dims=(a, b), fix="give both the same unit, or leave one out")
    if any(d.size == 1 and d.unit is not None for d in (a, b)):
        return Mismatch(problem, dims=(a, b), fix="leave out the unit of the axis of size 1, so that it stretches")
    return Mismatch(problem, dims=(a, b))


def too_small(dim: DimVar, size: int, fact: Evidence | None) -> Mismatch:
    index = dim.min_size - 1
    return Mismatch(
        f"{fact or 'an axis'} is {size}, but it is indexed up to {index}",
        dims=(DimVar(size, None, fact),),
        fix=f"make the axis {dim.min_size} or longer" + (f", or use indices below {size}" if size else ""),
    )


def rows_differ(cause: Cause | None, slot: int, expected: Row, actual: Row, reason: str) -> Exception:
    """Reports that the row required by an operation and the row of a tensor cannot have the same rank."""
    if cause is not None:
        return cause.rows_differ(slot, expected, actual, reason)
    return Mismatch(f"one row is {print_row(expected) or 'empty'}, another is {print_row(actual) or 'empty'}: {reason}")
