"""What has a formula is as near as it says, and the same in lanes and one by one."""

import numpy as np
import pytest

from ocannl.codegen.formulas import FORMULAS
from ocannl.ir.index import Affine, Bound, Sym
from ocannl.ir.loops import Access, Apply, For, Load, Mode, Proc, Ref, Store, loop
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import bfloat16, float16
from ocannl.ir.threefry import ROUNDS
from ocannl.testing.functions import farthest, samples, specials, stated

LANES = 16
each = pytest.mark.parametrize("name", FORMULAS)


def mapped(run, op, given, lanes=LANES):
    """The operation on arrays, some lanes at a time, the rest one by one."""
    x = [run.like(f"x{n}", a, Access.IN) for n, a in enumerate(given)]
    y = run.like("y", given[0], Access.OUT)

    def store(at):
        return Store(Ref(y, (at,)), Apply(op, tuple(Load(Ref(buf, (at,))) for buf in x)))

    whole, count = given[0].size // lanes, given[0].size
    i, lane, rest = Sym("i", 0, max(0, whole - 1)), Sym("l", 0, lanes - 1), Sym("r", 0, count - 1)
    vector = loop(lane, (store(lanes * Affine.of(i) + lane),), mode=Mode.LANES)
    body = (
        For(i, Bound.lower(0), Bound.upper(whole), (vector,)),
        For(rest, Bound.lower(whole * lanes), Bound.upper(count), (store(Affine.of(rest)),)),
    )
    return run(Proc("mapped", (*x, y), (), body), *given, np.zeros_like(given[0]))[-1]


@each
def test_the_bound_holds(run, name):
    op = BY_NAME[name]
    for given in (samples(op, 2_000_000), specials(op)):
        off, where = farthest(op, mapped(run, op, given), *given)
        assert off <= stated(FORMULAS[name]), where


@each
@pytest.mark.parametrize("lanes", [2, 5, 16, 32])
def test_lanes_compute_what_numbers_do(run, name, lanes):
    op = BY_NAME[name]
    given = [np.concatenate([a, b]) for a, b in zip(specials(op), samples(op, 1001), strict=True)]
    one_by_one = mapped(run, op, given, lanes=2 * given[0].size)
    assert np.array_equal(mapped(run, op, given, lanes).view(np.uint32), one_by_one.view(np.uint32))


@each
@pytest.mark.parametrize("p", [bfloat16, float16], ids=str)
def test_all_narrow_numbers(run, name, p):
    op = BY_NAME[name]
    every = np.arange(2**16, dtype=np.uint16).view(p.numpy)
    given = [every, np.roll(every, 12345)][: op.arity]
    got = mapped(run, op, given).astype(np.float64)
    with np.errstate(all="ignore"):
        want = op.numpy(*(x.astype(np.float64) for x in given))
        near = want.astype(p.numpy)
        off = np.abs(got - want) / np.spacing(np.abs(near)).astype(np.float64)
    same = (got == near) | (np.isnan(got) & np.isnan(near.astype(np.float64)))
    off = np.where(same, 0, np.where(np.isfinite(got), off, np.inf))
    assert off.max() <= 0.51, given[0][off.argmax()]


@each
def test_zeros_keep_their_sign(run, name):
    op = BY_NAME[name]
    given = specials(op)
    with np.errstate(all="ignore"):
        want = op.numpy(*given)
    number = ~np.isnan(want)
    assert np.array_equal(np.signbit(mapped(run, op, given))[number], np.signbit(want)[number])


@pytest.mark.parametrize("lanes", [1, 2, 5, 16])
@pytest.mark.parametrize("rounds", ROUNDS)
def test_words_in_lanes(run, rounds, lanes):
    op = BY_NAME[f"threefry4x32_{rounds}"]
    random = np.random.default_rng(rounds)
    given = [*random.integers(0, 2**32, (8, 1003), np.uint32), np.arange(1003, dtype=np.uint32) % 4]
    assert np.array_equal(mapped(run, op, given, lanes), op.numpy(*given))
