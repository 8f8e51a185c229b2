"""Accumulation of gradients: one update for several batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ocannl.base.errors import ArgumentError
from ocannl.ir.precision import float32, int32, promote
from ocannl.lang.core.leaf_constructors import node, state_like
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import Code, seq, titled
from ocannl.lang.record.recorder import cd
from ocannl.train.conditional import ConditionalCode
from ocannl.train.parameters import Trained, gradient_of, trainable_parameters


def accumulate(loss: Tensor, update: Code, steps: int, *, params: Trained = None) -> Code:
    """Averages the gradients of `steps` consecutive calls, and runs `update` with the mean in the last of them.

        train.accumulate(loss, train.adamw(loss, 1e-3), steps=4)

    The update and its schedules count updates, not calls. `params` are those of `train.sgd`.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ArgumentError(f"train.accumulate: `steps` is an integer of at least 1, not {steps!r}"[:200])
    parameters = trainable_parameters(loss, params)
    first_path = next(iter(parameters), "")
    count, is_last = (
        node(f"accumulated_{name}.{first_path}", dtype=int32, batch=[], input=[], output=[])
        for name in ("steps", "is_complete")
    )
    totals = gradient_totals(loss, steps, params=params)
    with cd("accumulate") as add:
        count += 1
        is_last["=:"] = count >= steps
        totals.add()
    with cd() as take:
        totals.take()
        count["=:"] = 0
    return seq(add, titled("if all are accumulated", ConditionalCode(is_last, seq(take, update))))


@dataclass(frozen=True, slots=True)
class GradientTotals:
    """Sums of gradients over several calls, by path: `add` adds the gradients of a call, `take` makes the sums the
    gradients, and begins anew."""

    nodes: Mapping[str, Tensor]
    add: Code
    take: Code


def gradient_totals(loss: Tensor, steps: int, *, params: Trained = None) -> GradientTotals:
    """The sums whose value after `steps` calls is the mean of the gradients. Raises: ArgumentError"""
    parameters = trainable_parameters(loss, params)
    totals = {path: state_like(f"accumulated.{path}", p, promote(p.dtype, float32)) for path, p in parameters.items()}
    with cd("accumulate") as add:
        for path, total in totals.items():
            total += gradient_of(parameters[path]) / steps
    with cd() as take:
        for path, total in totals.items():
            gradient_of(parameters[path])["=:"] = total
            total["=:"] = 0.0
    return GradientTotals(totals, add, take)
