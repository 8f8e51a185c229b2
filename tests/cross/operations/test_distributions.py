"""Random numbers of distributions: Kolmogorov-Smirnov and chi-square tests at fixed seeds, equal numbers on all
backends and for any number of threads, and refusals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.lang.ops.normal_quantile import normal_distribution

stats = pytest.importorskip("scipy.stats")

Array = np.ndarray[Any, Any]
COUNT = 20_000
MIN_PROBABILITY = 1e-3  # of a statistic as bad, at a fixed seed
KINDS = ("float32", "float64")


@dataclass(frozen=True)
class Case:
    """A distribution, by the call that draws numbers, and in SciPy."""

    name: str
    draw: Callable[..., oc.Tensor]
    peer: Any


CONTINUOUS = (
    Case("exponential", lambda **s: oc.exponential(2.0, **s), stats.expon(scale=2)),
    Case("laplace", lambda **s: oc.laplace(1.0, 2.0, **s), stats.laplace(1, 2)),
    Case("logistic", lambda **s: oc.logistic(1.0, 2.0, **s), stats.logistic(1, 2)),
    Case("gumbel", lambda **s: oc.gumbel(1.0, 2.0, **s), stats.gumbel_r(1, 2)),
    Case("truncated_normal", lambda **s: oc.truncated_normal(**s), stats.truncnorm(-2, 2)),
    Case("truncated_normal one-sided", lambda **s: oc.truncated_normal(1.0, 2.0, 2.0, inf, **s),
         stats.truncnorm(0.5, inf, 1, 2)),
    Case("truncated_normal tail", lambda **s: oc.truncated_normal(0.0, 1.0, -inf, -9.0, **s),
         stats.truncnorm(-inf, -9)),
    Case("gamma below 1", lambda **s: oc.gamma(0.3, 2.0, **s), stats.gamma(0.3, scale=2)),
    Case("gamma 1", lambda **s: oc.gamma(1.0, **s), stats.gamma(1)),
    Case("gamma 25", lambda **s: oc.gamma(25.0, 0.5, **s), stats.gamma(25, scale=0.5)),
    Case("beta", lambda **s: oc.beta(2.0, 3.0, **s), stats.beta(2, 3)),
    Case("beta of small parameters", lambda **s: oc.beta(0.5, 0.3, **s), stats.beta(0.5, 0.3)),
)  # fmt: skip
DISCRETE = (
    Case("rademacher", lambda **s: oc.rademacher(**s), stats.rv_discrete(values=([-1, 1], [0.5, 0.5]))),
    Case("poisson of 0.3", lambda **s: oc.poisson(0.3, **s), stats.poisson(0.3)),
    Case("poisson of 4", lambda **s: oc.poisson(4.0, **s), stats.poisson(4)),
    Case("poisson of 300", lambda **s: oc.poisson(300.0, **s), stats.poisson(300)),
)
named = {"ids": lambda case: getattr(case, "name", case)}


def values(backend: str, *tensors: oc.Tensor, threads: int | None = None) -> list[Array]:
    ctx = oc.Context(backend, threads=threads)
    ctx.compile(oc.forward(*tensors))()
    return [ctx[t] for t in tensors]


def every_distribution(kind: str) -> list[oc.Tensor]:
    """Samples of all distributions, some with tensors as parameters."""
    shape: dict[str, Any] = {"b": [3], "i": [], "o": [5, 7]}
    positive = oc.tensor(np.linspace(0.2, 5.0, 6).reshape(2, 3), batch_axes=1, dtype=kind)
    return [
        *(case.draw(key=case.name, dtype=kind, **shape) for case in CONTINUOUS),
        oc.gamma(positive, key="g"), oc.gamma(2.0, positive, key="h"), oc.beta(positive, positive, key="b"),
    ]  # fmt: skip


def every_integer() -> list[oc.Tensor]:
    probabilities = oc.tensor(np.array([[0.1, 0.4, 0.5], [0.7, 0.2, 0.1]], "float32"), batch_axes=1)
    rows = oc.tensor(np.arange(20.0).reshape(10, 2))
    return [
        *(case.draw(key=case.name, output=[4, 5]) for case in DISCRETE), oc.permutation(50, key="p"),
        oc.multinomial(100, probabilities, key="m"), oc.choice(rows, 4, key="r"), oc.choice(30, 4, key="i"),
        oc.choice(rows, 4, replace=False, key="u"), oc.choice(3, 6, p=np.array([0.2, 0.5, 0.3]), key="w"),
    ]  # fmt: skip


# --- distributions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CONTINUOUS, **named)
def test_samples_are_distributed_as_scipy_says(case: Case, kind: str) -> None:
    (drawn,) = values("llvm", case.draw(key="ks", dtype=kind, output=[COUNT]))
    assert drawn.dtype == kind and np.isfinite(drawn).all()
    numbers = drawn.astype("float64")
    assert stats.kstest(numbers, case.peer.cdf).pvalue > MIN_PROBABILITY
    error = case.peer.std() / np.sqrt(COUNT)
    assert abs(numbers.mean() - case.peer.mean()) < 4 * error
    assert abs(numbers.std() / case.peer.std() - 1) < 0.05
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03


@pytest.mark.parametrize("case", DISCRETE, **named)
def test_integers_are_distributed_as_scipy_says(case: Case) -> None:
    (drawn,) = values("llvm", case.draw(key="chi", output=[COUNT]))
    numbers, counts = np.unique(drawn, return_counts=True)
    expected = COUNT * case.peer.pmf(numbers)
    is_common = expected >= 5
    statistic = float(np.sum((counts - expected)[is_common] ** 2 / expected[is_common]))
    assert stats.chi2.sf(statistic, is_common.sum() - 1) > MIN_PROBABILITY
    assert abs(drawn.mean() - case.peer.mean()) < 4 * case.peer.std() / np.sqrt(COUNT)


def test_rates_may_be_tensors(backend: str) -> None:
    rates = np.array([0.0, 0.5, 3.0, 20.0])
    (drawn, few) = values(
        backend,
        oc.poisson(oc.tensor(np.tile(rates, (1000, 1))), bound=80, key="p"),
        oc.poisson(oc.tensor(rates), bound=1, key="p"),
    )
    assert drawn.dtype == np.int32 and few.max() == 1
    np.testing.assert_allclose(drawn.mean(0), rates, atol=0.5)
    assert not drawn[:, 0].any()
    (same,) = values(backend, oc.poisson(3.0, key="p", output=[1000, 4]))
    np.testing.assert_array_equal(same[:, 2], drawn[:, 2])


def test_parameters_may_be_tensors() -> None:
    shape = np.array([0.2, 1.0, 5.0])
    tiled = oc.tensor(np.tile(shape, (4000, 1)))
    scaled, fractions = values("llvm", oc.gamma(tiled, 3.0, key="g"), oc.beta(tiled, 2.0, key="b"))
    for n, a in enumerate(shape):
        assert stats.kstest(scaled[:, n], stats.gamma(a, scale=3).cdf).pvalue > MIN_PROBABILITY
        assert stats.kstest(fractions[:, n], stats.beta(a, 2).cdf).pvalue > MIN_PROBABILITY


def test_beta_of_tiny_parameters_is_a_number(backend: str) -> None:
    (drawn,) = values(backend, oc.beta(1e-3, 1e-3, key="b", output=[2000]))
    assert ((drawn >= 0) & (drawn <= 1)).all()
    assert 0.45 < drawn.mean() < 0.55


def test_the_normal_quantile_inverts_the_distribution_function(backend: str) -> None:
    """The largest and smallest numbers of a truncated normal distribution are inside its bounds."""
    for low, high in ((-1.0, 0.5), (3.0, 4.0), (-30.0, -29.0), (20.0, inf)):
        (drawn,) = values(backend, oc.truncated_normal(0.0, 1.0, low, high, key="t", dtype="float64", output=[3000]))
        assert low <= drawn.min() and drawn.max() <= high
        uniform = stats.truncnorm(low, high).cdf(drawn)
        assert stats.kstest(uniform, "uniform").pvalue > MIN_PROBABILITY
    assert normal_distribution(0.0) == 0.5


# --- classes and permutations ----------------------------------------------------------------------------------------


def test_classes_have_the_probabilities_of_a_softmax() -> None:
    logits = np.array([[0.0, 1.0, -np.inf, 2.0], [5.0, -5.0, 0.0, 0.0]])
    (drawn,) = values("llvm", oc.categorical(oc.tensor(logits, batch_axes=1), samples=COUNT, key="c"))
    assert drawn.dtype == np.int32 and drawn.shape == (2, COUNT)
    for scores, classes in zip(logits, drawn, strict=True):
        shares = np.exp(scores) / np.exp(scores).sum()
        np.testing.assert_allclose(np.bincount(classes, minlength=4) / COUNT, shares, atol=0.015)
    assert 2 not in drawn[0]


def test_one_class_is_drawn_for_each_cell_of_the_batch_row(backend: str) -> None:
    logits = np.full((3, 2, 4), -np.inf)
    certain = np.array([[0, 1], [2, 3], [3, 0]])
    np.put_along_axis(logits, certain[..., None], 7.0, -1)
    (drawn,) = values(backend, oc.categorical(oc.tensor(logits, batch_axes=2), key="c"))
    np.testing.assert_array_equal(drawn, certain)


def test_counts_of_classes_add_up(backend: str) -> None:
    weights = oc.tensor(np.array([[1.0, 3.0, 0.0], [0.0, 0.0, 2.0]]), batch_axes=1)
    (counts,) = values(backend, oc.multinomial(400, weights, key="m"))
    np.testing.assert_array_equal(counts.sum(1), [400, 400])
    assert abs(counts[0, 0] - 100) < 40 and counts[0, 2] == 0
    np.testing.assert_array_equal(counts[1], [0, 0, 400])


@pytest.mark.parametrize("n", [0, 1, 2, 5, 1000])
def test_a_permutation_has_each_integer_once(n: int, backend: str) -> None:
    (drawn,) = values(backend, oc.permutation(n, key="p"))
    assert drawn.dtype == np.int32
    np.testing.assert_array_equal(np.sort(drawn), np.arange(n))


def test_all_permutations_are_equally_likely() -> None:
    orders, calls = 4, 2400
    tensors = oc.permutation(orders, key="p")
    ctx = oc.Context("llvm")
    step = ctx.compile(tensors.forward)
    codes = []
    for _ in range(calls):
        step()
        codes.append(int(np.dot(ctx[tensors], 4 ** np.arange(orders))))
    numbers, counts = np.unique(codes, return_counts=True)
    assert len(numbers) == 24
    assert stats.chisquare(counts).pvalue > MIN_PROBABILITY


def test_choice_with_and_without_replacement(backend: str) -> None:
    table = np.arange(24.0).reshape(12, 2)
    all_rows, few, ids, weighted, distinct = values(
        backend,
        oc.choice(oc.tensor(table), 12, replace=False, key="a"), oc.choice(oc.tensor(table), 3, key="b"),
        oc.choice(1000, 500, key="c"), oc.choice(3, 300, p=np.array([0.0, 3.0, 1.0]), key="d"),
        oc.choice(4, 3, replace=False, p=np.array([1e-6, 0.0, 0.7, 0.3]), key="e"),
    )  # fmt: skip
    np.testing.assert_array_equal(np.sort(all_rows, 0), table)
    assert all(row in table.tolist() for row in few.tolist())
    assert ids.min() >= 0 and ids.max() < 1000 and len(set(ids.tolist())) > 300
    np.testing.assert_allclose(np.bincount(weighted, minlength=3) / 300, [0, 0.75, 0.25], atol=0.1)
    assert sorted(distinct[:2]) == [2, 3] and distinct[2] == 0


# --- bits and streams ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_backend_draws_the_same_integers(backends: list[str]) -> None:
    want = values("numpy", *every_integer())
    for backend in backends:
        for threads in (1, 3):
            for got, wanted in zip(values(backend, *every_integer(), threads=threads), want, strict=True):
                np.testing.assert_array_equal(got, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_agree_to_the_last_places(kind: str, backends: list[str]) -> None:
    """Logarithms and cosines of backends differ in the last bit of float64, and so do few numbers in float32."""
    want = values("numpy", *every_distribution(kind))
    for backend in backends:
        serial = values(backend, *every_distribution(kind), threads=1)
        for got, wanted, again in zip(serial, want, values(backend, *every_distribution(kind), threads=3), strict=True):
            np.testing.assert_array_equal(got, again)
            close = 2e-7 if kind == "float32" else 1e-12
            np.testing.assert_allclose(got, wanted, rtol=close, atol=close)
            assert np.mean(got == wanted) > (0.99 if kind == "float32" else 0.3)


def test_counters_and_keys_name_streams(backend: str) -> None:
    def numbers(key: str, counter: int) -> list[oc.Tensor]:
        named: dict[str, Any] = {"key": key, "counter": counter}
        return [
            oc.exponential(**named, output=[40]), oc.gamma(2.0, **named, output=[40]),
            oc.poisson(50.0, **named, output=[40]), oc.categorical(oc.full(0.0, output=[50]), samples=40, **named),
            oc.permutation(40, **named),
        ]  # fmt: skip

    first, again, later, other_key = (
        values(backend, *numbers(key, counter)) for key, counter in (("k", 0), ("k", 0), ("k", 1), ("l", 0))
    )
    for a, b, c, d in zip(first, again, later, other_key, strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.mean(a == c) < 0.3 and np.mean(a == d) < 0.3


def test_parameters_are_drawn_from_any_distribution(backend: str) -> None:
    w = oc.param("w", oc.truncated_normal(0.0, 0.02, -0.04, 0.04), i=[], o=[500])
    loss = (w * oc.param("s", oc.gamma(2.0), o=[500])).sum()
    ctx = oc.Context(backend)
    ctx.init(loss)
    assert abs(ctx[w]).max() <= 0.04 and 0.01 < ctx[w].std() < 0.02


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: oc.exponential(-1.0, key="k"), oc.DataError, "not negative"),
        (lambda: oc.gumbel(inf, key="k"), oc.DataError, "finite"),
        (lambda: oc.laplace(key="k", dtype="int32"), oc.DtypeError, "drawn as floats"),
        (lambda: oc.truncated_normal(0.0, 0.0, key="k"), oc.DataError, "positive standard deviation"),
        (lambda: oc.truncated_normal(0.0, 1.0, 2.0, 1.0, key="k"), oc.DataError, "the lower first"),
        (lambda: oc.truncated_normal(0.0, 1.0, 50.0, 51.0, key="k"), oc.DataError, "no number of the normal"),
        (lambda: oc.gamma(0.0, key="k"), oc.DataError, "positive"),
        (lambda: oc.gamma(oc.tensor([1.0]), key="k", o=[1]), oc.CodeError, "leave out 'o'"),
        (lambda: oc.gamma(oc.tensor(np.array([1, 2])), key="k"), oc.DtypeError, "floats"),
        (lambda: oc.beta(1.0, -2.0, key="k"), oc.DataError, "`beta` of oc.beta"),
        (lambda: oc.poisson(-1.0, key="k"), oc.DataError, "from 0"),
        (lambda: oc.poisson(oc.tensor([1.0]), key="k"), oc.CodeError, "give `bound=`"),
        (lambda: oc.poisson(oc.tensor([1.0]), bound=0, key="k"), oc.DataError, "from 1 to"),
        (lambda: oc.poisson(oc.tensor([1.0]), bound=2**63, key="k"), oc.DataError, "from 1 to"),
        (lambda: oc.poisson(1.0, dtype="float32", key="k"), oc.DtypeError, "draws integers"),
        (lambda: oc.categorical(oc.tensor(np.arange(3)), key="k"), oc.DtypeError, "floats"),
        (lambda: oc.categorical(oc.tensor([0.0, 1.0]), samples=-1, key="k"), oc.DataError, "number of its elements"),
        (lambda: oc.permutation(-1, key="k"), oc.DataError, "number of its elements"),
        (lambda: oc.choice(3, 4, replace=False, key="k"), oc.DataError, "cannot be drawn"),
    ],
)
def test_refusals(make: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()
