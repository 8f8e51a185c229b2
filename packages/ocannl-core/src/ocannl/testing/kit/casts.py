"""Conversions between all precisions."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ocannl.ir.loops import Apply, Cast, Const
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import PRECISIONS, Precision, float32, float64
from ocannl.testing.edge_values import near, patterns
from ocannl.testing.kit.backend_tests import Area
from ocannl.testing.kit.cases import Case, elementwise
from ocannl.testing.kit.harness import Bench
from ocannl.testing.kit.numbers import CONVERSION_EDGES, agree_signed, converted, differences, narrowed, specials

NARROW = [p for p in PRECISIONS if p.is_float and p.nbytes < 4]
WIDE = [float32, float64]


@cache
def casts(target: Precision) -> dict[str, Case]:
    """Conversions from each type."""
    cases = {}
    for source in PRECISIONS:
        inputs = specials(source, CONVERSION_EDGES)
        want = converted(inputs, source, target)
        cases[source.name] = elementwise(f"from_{source}", [inputs], want, lambda x: Cast(x, target))
    return cases


@cache
def widened(p: Precision, wide: Precision) -> Case:
    with np.errstate(invalid="ignore"):
        want = patterns(p).astype(wide.numpy)
    return elementwise("widen", [patterns(p)], want, lambda x: Cast(x, wide))


@cache
def rounded(p: Precision, wide: Precision) -> Case:
    return elementwise("round", [near(p, wide)], narrowed(near(p, wide), p)[0], lambda x: Cast(x, p))


class Casts(Area):
    """Conversions are exact where possible; otherwise they round to nearest, or truncate to integers and saturate."""

    @pytest.mark.parametrize("target", PRECISIONS, ids=str)
    @pytest.mark.parametrize("source", PRECISIONS, ids=str)
    def test_a_cast(self, bench: Bench, source: Precision, target: Precision) -> None:
        example = casts(target)[source.name]
        if not bench.claims(source, target):
            bench.refuses(example.proc)
            return
        inputs, got = bench.run(example, casts(target).values())
        agree_signed(f"{source} as {target}", got, example.expected()[-1], inputs)

    @pytest.mark.parametrize("wide", WIDE, ids=str)
    @pytest.mark.parametrize("p", NARROW, ids=str)
    def test_narrow_numbers_widen(self, bench: Bench, p: Precision, wide: Precision) -> None:
        example = widened(p, wide)
        if not bench.claims(p, wide):
            bench.refuses(example.proc)
            return
        inputs, got = bench.run(example)
        agree_signed(f"{p} as {wide}", got, example.expected()[-1], inputs)

    @pytest.mark.parametrize("wide", WIDE, ids=str)
    @pytest.mark.parametrize("p", NARROW, ids=str)
    def test_rounding_to_narrow_numbers(self, bench: Bench, p: Precision, wide: Precision) -> None:
        example = rounded(p, wide)
        if not bench.claims(p, wide):
            bench.refuses(example.proc)
            return
        inputs, got = bench.run(example)
        directly, via_float32 = narrowed(inputs, p)
        wrong = np.intersect1d(differences(got, directly), differences(got, via_float32))
        agree_signed(f"{wide} as {p}", got[wrong], directly[wrong], inputs[wrong])

    @pytest.mark.parametrize("p", PRECISIONS, ids=str)
    def test_a_comparison_becomes_a_number_of_another_type(self, bench: Bench, p: Precision) -> None:
        kind = bench.number
        x = np.arange(7).astype(kind.numpy)
        want = (x > 3).astype(p.numpy)
        example = elementwise("above", [x], want, lambda x: Cast(Apply(BY_NAME["gt"], (x, Const(3, kind))), p))
        if bench.claims(p):
            bench.check(example)
        else:
            bench.refuses(example.proc)

    @pytest.mark.parametrize("p", PRECISIONS, ids=str)
    def test_a_value_between_casts_has_its_type(self, bench: Bench, p: Precision) -> None:
        """The type occurs only inside an expression. All values are in the range of integer types."""
        kind = bench.number
        x = np.arange(128).astype(kind.numpy)
        with np.errstate(all="ignore"):
            want = x.astype(p.numpy).astype(kind.numpy)
        example = elementwise("there_and_back", [x], want, lambda x: Cast(Cast(x, p), kind))
        if bench.claims(p):
            bench.check(example)
        else:
            bench.refuses(example.proc)
