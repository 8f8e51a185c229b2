"""Random contents: streams depend on seed, path and ordinal only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.lang.core import random
from ocannl.lang.core.random import uniform_bits, unit_uniform

# --- streams ---------------------------------------------------------------------------------------------------------


def test_shorter_streams_are_prefixes() -> None:
    for count in (0, 1, 3, 4, 5, 100):
        assert np.array_equal(uniform_bits(42, "w", 0, count), uniform_bits(42, "w", 0, 1000)[:count])


def test_streams_differ_by_seed_path_and_ordinal() -> None:
    base = uniform_bits(42, "w", 0, 64)
    for stream in (
        uniform_bits(43, "w", 0, 64),
        uniform_bits(42 + 2**32, "w", 0, 64),
        uniform_bits(42, "v", 0, 64),
        uniform_bits(42, "w", 1, 64),
        uniform_bits(42, "", 0, 64),
    ):
        assert not np.array_equal(base, stream)
        assert np.mean(base == stream) < 0.05


def test_unit_uniform_numbers_are_in_the_half_open_interval() -> None:
    narrow, wide = unit_uniform(42, "w", 0, 20_000), unit_uniform(42, "w", 0, 20_000, 53)
    assert (narrow.dtype, wide.dtype) == (np.float32, np.float64)
    for numbers, grain in ((narrow, 2.0**-24), (wide, 2.0**-53)):
        assert numbers.min() >= 0
        assert numbers.max() < 1
        assert np.array_equal(numbers / grain, np.round(numbers / grain))
        assert abs(numbers.mean() - 0.5) < 0.01
        assert abs(numbers.var() - 1 / 12) < 0.002
        assert np.abs(np.histogram(numbers, 20)[0] / 1000 - 1).max() < 0.12


def test_the_maximum_is_below_1() -> None:
    top = np.full(4, 0xFFFFFFFF, np.uint32)
    assert np.float32(top[0] >> np.uint32(8)) * np.float32(2.0**-24) < 1
    assert np.float64(np.uint64(2**64 - 1) >> np.uint64(11)) * 2.0**-53 < 1


# --- parameters ------------------------------------------------------------------------------------------------------


def drawn(t: oc.Tensor, oracle: Any, **symbols: int) -> np.ndarray:
    return oracle(t * 1, **symbols)


def test_the_stream_of_a_parameter_depends_on_the_path_only(oracle: Any) -> None:
    def weights(before: int) -> np.ndarray:
        for n in range(before):
            oc.param(f"other{n}", o=[4]).init_params.elaborate()
            oc.uniform(o=[3], key="k")
        return drawn(oc.param("w", o=[5]), oracle)

    assert np.array_equal(weights(0), weights(7))
    assert np.array_equal(weights(0), unit_uniform(42, "w", 0, 5) * np.float32(0.5) - np.float32(0.25))


def test_parameters_of_a_graph_draw_from_different_streams(oracle: Any) -> None:
    a, b = oc.param("w", o=[50]), oc.param("w", o=[50])
    both = a * 1 + b * 0
    first = oracle(both)
    second = oracle(a * 0 + b * 1)
    assert not np.array_equal(first, second)


def test_random_leaves_of_an_initial_value_draw_from_different_streams(oracle: Any) -> None:
    w = oc.param("w", oc.uniform(o=[100]) - oc.uniform(o=[100]))
    difference = drawn(w, oracle)
    assert np.abs(difference).min() > 0
    assert abs(difference.mean()) < 0.2


def test_normal_numbers_have_their_moments(oracle: Any) -> None:
    numbers = drawn(oc.param("w", oc.normal(2.0, 0.5), o=[20_000]), oracle)
    assert numbers.mean() == pytest.approx(2.0, abs=0.02)
    assert numbers.std() == pytest.approx(0.5, abs=0.02)
    assert np.mean(np.abs(numbers - 2.0) < 0.5) == pytest.approx(0.6827, abs=0.02)
    assert np.isfinite(numbers).all()


def test_uniform_numbers_have_their_bounds(oracle: Any) -> None:
    numbers = drawn(oc.param("w", oc.uniform(-3.0, 5.0), o=[10_000]), oracle)
    assert numbers.min() >= -3
    assert numbers.max() < 5
    assert numbers.mean() == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(
    ("make", "variance"),
    [
        (lambda: oc.kaiming(), 2 / 300),
        (lambda: oc.kaiming(gain=1.0, normal=True), 1 / 300),
        (lambda: oc.xavier(), 2 / 400),
        (lambda: oc.xavier(normal=True), 2 / 400),
    ],
)
def test_fans_follow_from_the_inferred_shape(make: Any, variance: float, oracle: Any) -> None:
    w = oc.param("w", make(), o=[100])
    w @ oc.tensor(np.ones((30, 10)))
    numbers = drawn(w, oracle)
    assert numbers.shape == (100, 30, 10)
    assert numbers.var() == pytest.approx(variance, rel=0.03)
    assert abs(numbers.mean()) < 0.01


def test_float64_parameters_draw_53_bits(oracle: Any) -> None:
    numbers = drawn(oc.param("w", oc.uniform(), o=[100], dtype="float64"), oracle)
    assert not np.array_equal(numbers, numbers.astype("float32"))


def test_random_leaves_outside_parameters_need_a_key(oracle: Any) -> None:
    a, b = oc.uniform(o=[4], key="a"), oc.uniform(o=[4], key="b")
    assert not np.array_equal(oracle(a + 0), oracle(b + 0))
    assert np.array_equal(oracle(oc.uniform(o=[4], key="a") + 0), oracle(a + 0))
    with pytest.raises(oc.UninitializedError, match="give it one with `key=`"):
        oracle(oc.uniform(o=[4]) + 0)


def test_integers_are_not_drawn(oracle: Any) -> None:
    with pytest.raises(oc.DtypeError, match="random numbers are drawn as floats, not as int32"):
        oracle(oc.uniform(o=[4], key="a", dtype="int32") + 0)


def test_no_numbers_are_drawn_for_no_cells(oracle: Any) -> None:
    assert drawn(oc.param("w", o=[0, 3]), oracle).shape == (0, 3)


@pytest.mark.parametrize("normal", [False, True])
@pytest.mark.parametrize("bits", [8, 24, 53])
def test_blocks_of_large_draws(normal: bool, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution = random.Distribution(0.0, 0.5, normal)
    whole = distribution("w", 2, 1003, bits, 7)
    monkeypatch.setattr(random, "BLOCK_CELLS", 100)
    np.testing.assert_array_equal(distribution("w", 2, 1003, bits, 7), whole)
    assert distribution("w", 2, 0, bits, 7).shape == (0,)
