"""Formulas, as NumPy computes them."""

import numpy as np
import pytest

from ocannl.codegen.formula import RELATIONS, spelled
from ocannl.codegen.formulas import FORMULAS
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import bool_, float32
from ocannl.testing.functions import farthest, samples, specials, stated

ROUNDED_TWICE = 0.5  # units more, where `fma` is two operations

each = pytest.mark.parametrize("formula", FORMULAS.values(), ids=list(FORMULAS))


@each
def test_steps_use_what_is_there(formula):
    assert len(formula.params) == BY_NAME[formula.name].arity
    there = dict.fromkeys(formula.params, float32)
    for step in formula.steps:
        given = step.args[1:] if step.op == "where" else step.args
        assert all(there[a] is step.source for a in given if isinstance(a, str))
        assert (step.precision is bool_) == (step.op in RELATIONS)
        assert step.op in ("bits", "cast", "scale") or BY_NAME[step.op].arity == len(step.args)
        there[step.name] = step.precision
    assert there[formula.result] is float32
    assert there.get(formula.beyond, bool_) is bool_


@each
def test_a_formula_keeps_its_bound(formula):
    op = BY_NAME[formula.name]
    for given in (samples(op, 500_000), specials(op)):
        off, where = farthest(op, formula.numpy(*given), *given)
        assert off <= stated(formula) + ROUNDED_TWICE, where


@pytest.mark.parametrize("name", ["exp", "exp2", "pow"])
def test_powers_of_two_spelled_out_are_the_same(name):
    formula, op = FORMULAS[name], BY_NAME[name]
    assert any(step.op == "scale" for step in formula.steps)
    assert not any(step.op == "scale" for step in spelled(formula).steps)
    for given in (samples(op, 500_000), specials(op)):
        assert np.array_equal(formula.numpy(*given), spelled(formula).numpy(*given), equal_nan=True)


@each
def test_a_formula_keeps_the_sign_of_zero(formula):
    op = BY_NAME[formula.name]
    given = specials(op)
    with np.errstate(all="ignore"):
        want = op.numpy(*given)
    number = ~np.isnan(want)
    assert np.array_equal(np.signbit(formula.numpy(*given))[number], np.signbit(want)[number])


def test_numbers_that_units_are_counted_from():
    op = BY_NAME["exp"]
    one = np.ones(3, np.float32)
    assert farthest(op, np.exp(one) + np.array([0, 2, 1], np.float32) * np.spacing(np.exp(one)), one)[0] > 1.4
    assert farthest(op, np.array([np.nan], np.float32), one[:1])[0] == np.inf
    assert farthest(op, np.array([np.inf], np.float32), np.array([100], np.float32))[0] == 0
