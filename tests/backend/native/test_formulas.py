"""Formulas satisfy their error bounds, and do not depend on vectorization."""

import numpy as np
import pytest

from ocannl.codegen.formulas import ALL_FORMULAS, FORMULAS
from ocannl.ir.affine import Affine, Bound, Sym
from ocannl.ir.loops import AccessMode, Apply, For, Load, Mode, Proc, Ref, Store, loop
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import bfloat16, float16
from ocannl.ir.threefry import ROUNDS
from ocannl.testing.function_accuracy import max_ulp_error, samples, specials, stated_bound

LANES = 16
all_formulas = pytest.mark.parametrize("name", FORMULAS)
both_precisions = pytest.mark.parametrize("formula", ALL_FORMULAS, ids=lambda f: f"{f.name}-{f.precision}")


def mapped(run, op, args, lanes=LANES):
    """Applies an operation to arrays by a vectorized loop and a scalar remainder loop."""
    x = [run.like(f"x{n}", a, AccessMode.IN) for n, a in enumerate(args)]
    y = run.like("y", args[0], AccessMode.OUT)

    def store(at):
        return Store(Ref(y, (at,)), Apply(op, tuple(Load(Ref(buf, (at,))) for buf in x)))

    num_vectors, count = args[0].size // lanes, args[0].size
    i, lane, remainder = Sym("i", 0, max(0, num_vectors - 1)), Sym("l", 0, lanes - 1), Sym("r", 0, count - 1)
    vector = loop(lane, (store(lanes * Affine.of(i) + lane),), mode=Mode.VECTORIZED)
    body = (
        For(i, Bound.lower(0), Bound.upper(num_vectors), (vector,)),
        For(remainder, Bound.lower(num_vectors * lanes), Bound.upper(count), (store(Affine.of(remainder)),)),
    )
    return run(Proc("mapped", (*x, y), (), body), *args, np.zeros_like(args[0]))[-1]


@both_precisions
def test_error_bounds(run, formula):
    op, kind = BY_NAME[formula.name], formula.precision.numpy.type
    for args in (samples(op, 2_000_000, kind=kind), specials(op, kind)):
        error, message = max_ulp_error(op, mapped(run, op, args), *args)
        assert error <= stated_bound(formula), message


@both_precisions
@pytest.mark.parametrize("lanes", [2, 5, 16, 32])
def test_vectorization_does_not_change_results(run, formula, lanes):
    op, kind = BY_NAME[formula.name], formula.precision.numpy.type
    pairs = zip(specials(op, kind), samples(op, 1001, kind=kind), strict=True)
    args = [np.concatenate(pair) for pair in pairs]
    scalar_results = mapped(run, op, args, lanes=2 * args[0].size)
    assert np.array_equal(mapped(run, op, args, lanes).view(np.uint8), scalar_results.view(np.uint8))


@all_formulas
@pytest.mark.parametrize("p", [bfloat16, float16], ids=str)
def test_all_narrow_numbers(run, name, p):
    op = BY_NAME[name]
    values = np.arange(2**16, dtype=np.uint16).view(p.numpy)
    args = [values, np.roll(values, 12345)][: op.arity]
    got = mapped(run, op, args).astype(np.float64)
    with np.errstate(all="ignore"):
        want = op.numpy(*(x.astype(np.float64) for x in args))
        nearest = want.astype(p.numpy)
        error = np.abs(got - want) / np.spacing(np.abs(nearest)).astype(np.float64)
    is_equal = (got == nearest) | (np.isnan(got) & np.isnan(nearest.astype(np.float64)))
    error = np.where(is_equal, 0, np.where(np.isfinite(got), error, np.inf))
    assert error.max() <= 0.51, args[0][error.argmax()]


@both_precisions
def test_zeros_keep_their_sign(run, formula):
    op = BY_NAME[formula.name]
    args = specials(op, formula.precision.numpy.type)
    with np.errstate(all="ignore"):
        want = op.numpy(*args)
    number = ~np.isnan(want)
    assert np.array_equal(np.signbit(mapped(run, op, args))[number], np.signbit(want)[number])


@pytest.mark.parametrize("lanes", [1, 2, 5, 16])
@pytest.mark.parametrize("rounds", ROUNDS)
def test_vectorized_threefry(run, rounds, lanes):
    op = BY_NAME[f"threefry4x32_{rounds}"]
    random = np.random.default_rng(rounds)
    args = [*random.integers(0, 2**32, (8, 1003), np.uint32), np.arange(1003, dtype=np.uint32) % 4]
    assert np.array_equal(mapped(run, op, args, lanes), op.numpy(*args))
