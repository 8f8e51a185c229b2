"""Conversions between all precisions."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ocannl.ir.loops import Apply, Cast, Const
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import PRECISIONS, Precision, float32, float64
from ocannl.testing.edge_values import near, patterns
from ocannl.testing.kit.area import Area
from ocannl.testing.kit.bench import Bench
from ocannl.testing.kit.cases import Case, elementwise
from ocannl.testing.kit.numbers import TURNS, agree_signed, converted, differences, narrowed, specials

NARROW = [p for p in PRECISIONS if p.is_float and p.nbytes < 4]
WIDE = [float32, float64]
NO_ROOM = [p for p in PRECISIONS if not p.is_float and p.name != "bool"]


@cache
def casts(target: Precision) -> dict[str, Case]:
    """From each type: values that have room."""
    made = {}
    for source in PRECISIONS:
        given, want = converted(specials(source, TURNS), source, target)
        made[source.name] = elementwise(f"from_{source}", [given], want, lambda x: Cast(x, target))
    return made


@cache
def widened(p: Precision, wide: Precision) -> Case:
    with np.errstate(invalid="ignore"):
        want = patterns(p).astype(wide.numpy)
    return elementwise("widen", [patterns(p)], want, lambda x: Cast(x, wide))


@cache
def rounded(p: Precision, wide: Precision) -> Case:
    return elementwise("round", [near(p, wide)], narrowed(near(p, wide), p)[0], lambda x: Cast(x, p))


class Casts(Area):
    """Numbers keep their value where the other type has it, and are rounded to the nearest, or cut off, where not."""

    @pytest.mark.parametrize("target", PRECISIONS, ids=str)
    @pytest.mark.parametrize("source", PRECISIONS, ids=str)
    def test_a_cast(self, bench: Bench, source: Precision, target: Precision) -> None:
        one = casts(target)[source.name]
        if not bench.claims(source, target):
            bench.refuses(one.proc)
            return
        given, got = bench.run(one, casts(target).values())
        agree_signed(f"{source} as {target}", got, one.wanted()[-1], given)

    @pytest.mark.parametrize("wide", WIDE, ids=str)
    @pytest.mark.parametrize("p", NARROW, ids=str)
    def test_narrow_numbers_widen(self, bench: Bench, p: Precision, wide: Precision) -> None:
        one = widened(p, wide)
        if not bench.claims(p, wide):
            bench.refuses(one.proc)
            return
        given, got = bench.run(one)
        agree_signed(f"{p} as {wide}", got, one.wanted()[-1], given)

    @pytest.mark.parametrize("wide", WIDE, ids=str)
    @pytest.mark.parametrize("p", NARROW, ids=str)
    def test_rounding_to_narrow_numbers(self, bench: Bench, p: Precision, wide: Precision) -> None:
        one = rounded(p, wide)
        if not bench.claims(p, wide):
            bench.refuses(one.proc)
            return
        given, got = bench.run(one)
        at_once, by_way = narrowed(given, p)
        wrong = np.intersect1d(differences(got, at_once), differences(got, by_way))
        agree_signed(f"{wide} as {p}", got[wrong], at_once[wrong], given[wrong])

    @pytest.mark.parametrize("target", NO_ROOM, ids=str)
    @pytest.mark.parametrize("source", WIDE, ids=str)
    def test_a_number_without_room_becomes_any(self, bench: Bench, source: Precision, target: Precision) -> None:
        x = np.array([1e30, -1e30, np.inf, -np.inf, np.nan], source.numpy)
        one = elementwise("no_room", [x], np.zeros(5, target.numpy), lambda x: Cast(x, target))
        if bench.claims(source, target):
            bench.run(one)
        else:
            bench.refuses(one.proc)

    @pytest.mark.parametrize("p", PRECISIONS, ids=str)
    def test_a_comparison_becomes_a_number_of_another_type(self, bench: Bench, p: Precision) -> None:
        kind = bench.number
        x = np.arange(7).astype(kind.numpy)
        want = (x > 3).astype(p.numpy)
        one = elementwise("above", [x], want, lambda x: Cast(Apply(BY_NAME["gt"], (x, Const(3, kind))), p))
        if bench.claims(p):
            bench.check(one)
        else:
            bench.refuses(one.proc)

    @pytest.mark.parametrize("p", PRECISIONS, ids=str)
    def test_a_value_between_casts_has_its_type(self, bench: Bench, p: Precision) -> None:
        """A type may be met in the middle of an expression alone."""
        kind = bench.number
        x = np.arange(200).astype(kind.numpy)
        with np.errstate(all="ignore"):
            want = x.astype(p.numpy).astype(kind.numpy)
        one = elementwise("there_and_back", [x], want, lambda x: Cast(Cast(x, p), kind))
        if bench.claims(p):
            bench.check(one)
        else:
            bench.refuses(one.proc)
