"""Formulas, evaluated with NumPy."""

import numpy as np
import pytest

from ocannl.codegen.formula_ir import RELATIONS, expand_scale
from ocannl.codegen.formulas import ALL_FORMULAS, FORMULAS, formula_of
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import bool_, float32, float64
from ocannl.testing.function_accuracy import max_ulp_error, samples, specials, stated_bound

DOUBLE_ROUNDING_ULP = 0.5  # additional error if `fma` is two operations

all_formulas = pytest.mark.parametrize("formula", FORMULAS.values(), ids=list(FORMULAS))


@pytest.mark.parametrize("formula", ALL_FORMULAS, ids=lambda formula: f"{formula.name}-{formula.precision}")
def test_steps_use_defined_operands(formula):
    assert formula_of(formula.name, formula.precision) is formula
    assert len(formula.params) == BY_NAME[formula.name].arity
    types = dict.fromkeys(formula.params, formula.precision)
    for step in formula.steps:
        args = step.args[1:] if step.op == "where" else step.args
        assert all(types[a] is step.source for a in args if isinstance(a, str))
        assert (step.precision is bool_) == (step.op in RELATIONS)
        assert step.op in ("bits", "cast", "scale") or BY_NAME[step.op].arity == len(step.args)
        types[step.name] = step.precision
    assert types[formula.result] is formula.precision
    assert types.get(formula.slow_path_test, bool_) is bool_


@all_formulas
def test_formulas_satisfy_their_error_bounds(formula):
    op = BY_NAME[formula.name]
    for args in (samples(op, 500_000), specials(op)):
        off, message = max_ulp_error(op, formula.numpy(*args), *args)
        assert off <= stated_bound(formula) + DOUBLE_ROUNDING_ULP, message


@pytest.mark.parametrize(
    ("name", "precision"), [("exp", float32), ("exp2", float32), ("pow", float32), ("exp", float64)]
)
def test_expanded_scale_is_equal(name, precision):
    formula, op, kind = formula_of(name, precision), BY_NAME[name], precision.numpy.type
    assert any(step.op == "scale" for step in formula.steps)
    assert not any(step.op == "scale" for step in expand_scale(formula).steps)
    for args in (samples(op, 500_000, kind=kind), specials(op, kind)):
        assert np.array_equal(formula.numpy(*args), expand_scale(formula).numpy(*args), equal_nan=True)


@all_formulas
def test_formulas_preserve_the_sign_of_zero(formula):
    op = BY_NAME[formula.name]
    args = specials(op)
    with np.errstate(all="ignore"):
        want = op.numpy(*args)
    number = ~np.isnan(want)
    assert np.array_equal(np.signbit(formula.numpy(*args))[number], np.signbit(want)[number])


def test_error_in_ulp():
    op = BY_NAME["exp"]
    ones = np.ones(3, np.float32)
    assert max_ulp_error(op, np.exp(ones) + np.array([0, 2, 1], np.float32) * np.spacing(np.exp(ones)), ones)[0] > 1.4
    assert max_ulp_error(op, np.array([np.nan], np.float32), ones[:1])[0] == np.inf
    assert max_ulp_error(op, np.array([np.inf], np.float32), np.array([100], np.float32))[0] == 0
