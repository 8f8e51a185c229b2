"""The rows of a tile in which a guard holds, as at the border of a padded image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.opt import machine_model as machine
from ocannl.opt.schedule.loop_generation.tile_region import TileRegion, TileRows


def guarded_regions(region: TileRegion, cond: Cond, tile_sizes: Mapping[Sym, int]) -> list[TileRegion] | None:
    """Returns the parts of the region, other than itself, that may consist of exactly the cells in which the condition
    holds, the largest first; None if they are too many, or if a fact depends on rows of several symbols.

    A tile with fewer rows than `tile_sizes` is the last one along its loop.
    """
    syms = {row.sym for row in region.rows}
    facts = [fact for fact in cond.ge0 if not syms.isdisjoint(fact.syms)]
    if any(len(syms.intersection(fact.syms)) > 1 for fact in facts) or not syms.isdisjoint(Cond((), cond.eq0).syms):
        return None
    choices: list[list[TileRows]] = []
    for row in region.rows:
        row_facts = [fact for fact in facts if row.sym in fact.syms]
        ranges = _guarded_ranges(row, row_facts, row.count < tile_sizes[row.sym])
        if ranges is None or len(ranges) * prod(map(len, choices)) > machine.MAX_GUARDED_REGIONS:
            return None
        choices.append([row.part(first, end) for first, end in ranges])
    parts = [replace(region, rows=rows) for rows in product(*choices) if rows != region.rows]
    return sorted(parts, key=lambda part: prod(row.count for row in part.rows), reverse=True)


def _guarded_ranges(rows: TileRows, facts: Sequence[Affine], is_last: bool) -> list[tuple[int, int]] | None:
    """Returns the ranges of rows (first and end) in which all facts hold for some values of the other symbols; None if
    these have too many values to be tried."""
    if not facts:
        return [(0, rows.count)]
    slopes = [fact.coef(rows.sym) for fact in facts]
    margins = [fact.substitute({rows.sym: rows.first}) for fact in facts]  # in the first row
    syms = list(dict.fromkeys(sym for form in (rows.first, *margins) for sym in form.syms))
    if prod(sym.extent for sym in syms) > machine.MAX_GUARD_VALUES:
        return None
    axes = dict(zip(syms, np.ix_(*(np.arange(sym.lo, sym.hi + 1) for sym in syms)), strict=True))

    def values(form: Affine) -> NDArray[np.int64]:
        return sum((coef * axes[sym] for coef, sym in form.terms), np.array(form.const))

    first, end = np.array(0), np.array(rows.count)
    for slope, margin in zip(slopes, margins, strict=True):
        if slope > 0:
            first = np.maximum(first, -(values(margin) // slope))
        else:
            end = np.minimum(end, values(margin) // -slope + 1)
    iterations_after = rows.sym.hi + 1 - rows.count - values(rows.first)
    occurs = (first < end) & (iterations_after == 0 if is_last else iterations_after >= 0)
    firsts, ends, occurs = np.broadcast_arrays(first, end, occurs)
    return sorted(set(zip(firsts[occurs].tolist(), ends[occurs].tolist(), strict=True)))
