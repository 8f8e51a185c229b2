"""The disagreement of two facts, as low code states it; `explain` adds the user's words."""

from __future__ import annotations

from ocannl.infer.terms import Cause, Dim, Fact, Owner, Row, find, print_row


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
        self.facts = tuple(find(dim).fact for dim in dims)
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


def too_small(dim: Dim, size: int, fact: Fact | None) -> Mismatch:
    return Mismatch(
        f"{fact or 'an axis'} is {size}, but it is indexed up to {dim.least - 1}",
        dims=(Dim(size, None, fact),),
        fix=f"use an index below {size}, or an axis of size {dim.least} or more" if size else "use a larger axis",
    )


def rows_differ(cause: Cause | None, slot: int, a: Row, b: Row, reason: str) -> Mismatch:
    """What the operation says of a row, and the row of a tensor, cannot have the same number of axes."""
    if cause is None:
        return Mismatch(f"one row is {print_row(a) or 'empty'}, another is {print_row(b) or 'empty'}: {reason}")
    left, right = cause.sides(slot)
    problem = f"{left.words} is {print_row(a) or 'empty'}, but {right.words} is {print_row(b) or 'empty'}: {reason}"
    owners = tuple(side.owner for side in (left, right) if side.owner is not None)
    return Mismatch(problem, dims=a.axes + b.axes, owners=owners, cause=cause)
