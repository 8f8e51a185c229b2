"""Row relations of the built-in operations."""

from __future__ import annotations

import pytest

from ocannl.infer.logic import COMPOSE, COMPOSE_ACCUMULATE, TRANSPOSE, Logic, einsum, pointwise, slice_batch
from ocannl.infer.parse import parse
from ocannl.infer.spec import KINDS, Fixed
from ocannl.ir.affine import Sym, SymKind


def relations(logic: Logic) -> set[str]:
    """Relations in the notation `C.o <= A.o`, with `=` for rows that are not stretched."""
    tensors = "ABD"[: logic.arity] + "C"

    def row(use):
        return f"{tensors[use.slot // 3]}.{KINDS[use.slot % 3][0]}"

    targets = {use.spec.var: row(use) for use in (*logic.equal, *logic.result)}
    relations = {f"{targets[use.spec.var]} <= {row(use)}" for use in logic.stretch}
    equal = [(targets[use.spec.var], row(use)) for use in logic.equal]
    return relations | {f"{target} = {source}" for target, source in equal if target != source}


COMPOSED = "A.i <= B.o, C.b <= A.b, C.b <= B.b, C.i <= B.i, C.o <= A.o"


@pytest.mark.parametrize(
    ("logic", "want"),
    [
        (pointwise(1), "C.b <= A.b, C.i <= A.i, C.o <= A.o"),
        (pointwise(2), "C.b <= A.b, C.i <= A.i, C.o <= A.o, C.b <= B.b, C.i <= B.i, C.o <= B.o"),
        (COMPOSE, COMPOSED),
        (COMPOSE_ACCUMULATE, f"{COMPOSED}, C.b <= D.b, C.i <= D.i, C.o <= D.o"),
        (TRANSPOSE, "C.b <= A.b, C.i <= A.o, C.o <= A.i"),
        (einsum(parse("...|...->... => ...|...->...")), "C.b = A.b, C.i = A.i, C.o = A.o"),
    ],
    ids=lambda value: value.name if isinstance(value, Logic) else "",
)
def test_constraints_of_operations(logic, want):
    """S10"""
    assert relations(logic) == set(want.split(", "))


def test_operands_meet_along_rows_that_the_result_lacks():
    assert {use.slot for use in (*COMPOSE.equal, *COMPOSE.stretch) if use.meets} == {1, 5}
    assert [use.slot for use in COMPOSE.stretch if use.inner] == [5]
    assert not any(use.meets for use in einsum(parse("... => 0")).equal)


def test_logic_is_data():
    assert pointwise(2) is pointwise(2) and pointwise(2) != pointwise(3)
    assert einsum(parse("ij=>ji")) == einsum(parse("i, j => j, i")) and len({COMPOSE, TRANSPOSE, pointwise(1)}) == 3
    n = Sym("n", 0, 9, SymKind.STATIC)
    assert slice_batch(n) == slice_batch(n) != slice_batch(Sym("n", 0, 9, SymKind.STATIC))
    assert slice_batch(2).spec.operands[0].batch.lead == (Fixed(2),)
    assert [str(x) for x in (COMPOSE, pointwise(1), einsum(parse("ij => ji")), slice_batch(0))] == [
        "a compose", "a pointwise", "`ij => ji`", "a slice",
    ]  # fmt: skip
