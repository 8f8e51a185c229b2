"""Sums that continue in memory, such as the gradient of a weight that several steps use: each step is summed apart."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ocannl.ir.loops import Apply, Const, Load, Store
from ocannl.ir.ops import ADD
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, is_rounded_sum


def separate_continued_sum(group: FusionGroup) -> FusionGroup:
    """Adds a short sum to the cell that it continues after the last term, instead of adding each term to the cell:

        acc = y[i]                       acc = 0
        for k in 0..7:                   for k in 0..7:
          acc += w[i, k]       ==>         acc += w[i, k]
        y[i] = acc                       y[i] = y[i] + acc

    A term of the first of n steps then takes part in n - 1 further additions, instead of n - 1 times the length of a
    step. Long sums, which are added in blocks anyway, may store partial sums in the cell and are left as they are.
    """
    match group:
        case FusionGroup(reductions=(reduction,), epilogue=(Store(ref, Load(stored)) as store,)) if (
            reduction.init == Load(ref) and stored == reduction.update.ref
        ):
            terms = prod(sym.extent for sym in reduction.syms)
            if not is_rounded_sum(reduction.update) or not 1 < terms < machine.MIN_REDUCTION_PER_BLOCK:
                return group
            step = replace(reduction, init=Const(0.0, reduction.acc.precision))
            total = replace(store, value=Apply(ADD, (Load(ref), Load(stored))))
            return replace(group, reductions=(step,), epilogue=(total,))
        case _:
            return group
