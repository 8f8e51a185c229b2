"""Counted floating-point operations are those of the formulas, in lowered and in scheduled programs."""

from __future__ import annotations

import pytest

import ocannl as oc
from ocannl.ir.flops import flops
from ocannl.ir.loops import Proc


def stages(result: oc.Tensor, backend: str) -> dict[str, Proc]:
    procs: dict[str, Proc] = {}
    routine = oc.Context(backend).compile(result.forward, name="f")
    routine.program.rebuild(lambda name, proc: procs.__setitem__(name, proc))
    return procs


def test_formulas() -> None:
    a, b = oc.placeholder("a", o=[8, 24]), oc.placeholder("b", o=[24, 16])
    expected = {
        oc.einsum("mk; kn => mn", a, b): 2 * 8 * 24 * 16,
        a * 3 + 1: 2 * 8 * 24,
        oc.where(a > 0, -a, a): 0,
        oc.exp(a): 8 * 24,
        oc.placeholder("n", o=[5], dtype=oc.int32) + 1: 0,
    }
    for result, count in expected.items():
        assert flops(stages(result, "numpy")["lower"].body) == count


@pytest.mark.skipif(not any(row.name == "llvm" and row.usable for row in oc.backends()), reason="needs llvm")
def test_scheduled_products_have_the_operations_of_the_lowered_ones() -> None:
    a, b = oc.placeholder("a", o=[64, 128]), oc.placeholder("b", o=[128, 96])
    procs = stages(oc.einsum("mk; kn => mn", a, b), "llvm")
    first, *_, last = procs.values()
    assert flops(first.body) == 2 * 64 * 128 * 96
    assert flops(first.body) <= flops(last.body) <= 1.1 * flops(first.body)
