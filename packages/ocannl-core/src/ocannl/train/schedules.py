"""Schedules: functions from the number of previous steps, a float64 tensor without axes, to the rate of a step.

A schedule is an expression, whose code is part of the compiled step. Functions of schedules compose them:
`warmup(cosine_decay(0.1, 900), 100)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.lang.core.literals import is_bool, is_number
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.einsum import maximum, minimum
from ocannl.lang.ops.elementwise import floor
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.train.rates import Schedule

cos, where = PRIMITIVES["cos"], PRIMITIVES["where"]


def constant(rate: float) -> Schedule:
    """The same rate in all steps, to be joined with other schedules."""
    _check_numbers("constant", rate=rate)
    return lambda step: 0.0 * step + rate


def linear_decay(initial: float, steps: int, *, final: float = 0.0, warmup: int = 0) -> Schedule:
    """From `initial` to `final` on a line over `steps` steps, the first `warmup` of which rise from 0 to `initial`."""
    return polynomial_decay(initial, steps, final=final, warmup=warmup)


def polynomial_decay(
    initial: float, steps: int, *, power: float = 1.0, final: float = 0.0, warmup: int = 0
) -> Schedule:  # fmt: skip
    """From `initial` to `final` in proportion to `(1 - step / steps)**power`, after a linear warmup."""
    _check_numbers("polynomial_decay", initial=initial, final=final, power=power)

    def value(progress: Tensor) -> Any:
        remaining = 1.0 - progress
        return final + (initial - final) * (remaining if power == 1 else remaining**power)

    return _decay(value, initial, steps, warmup)


def cosine_decay(initial: float, steps: int, *, final: float = 0.0, warmup: int = 0) -> Schedule:
    """From `initial` to `final` on half a period of a cosine over `steps` steps, after a linear warmup.

    Source: Loshchilov, Hutter 2017, "SGDR: Stochastic gradient descent with warm restarts".
    """
    _check_numbers("cosine_decay", initial=initial, final=final)
    return _decay(lambda progress: _cosine(initial, final, progress), initial, steps, warmup)


def exponential_decay(initial: float, steps: int, *, final: float, warmup: int = 0) -> Schedule:
    """From `initial` to `final` by a constant factor in each of `steps` steps, after a linear warmup."""
    _check_numbers("exponential_decay", initial=initial, final=final)
    if final <= 0 or initial <= 0:
        raise CodeError(f"an exponential decay runs between positive rates, not {initial} and {final}")
    return _decay(lambda progress: initial * (final / initial) ** progress, initial, steps, warmup)


def step_decay(initial: float, every: int | Sequence[int], *, factor: float = 0.1) -> Schedule:
    """Multiplies the rate by `factor` after `every` steps, or at the steps of a list."""
    _check_numbers("step_decay", initial=initial, factor=factor)
    if isinstance(every, Sequence):
        _check_increasing(every, "the steps of a schedule")
        return lambda step: initial * math.prod((where(step < n, 1.0, factor) for n in every), start=1.0 + 0.0 * step)
    _check_steps(every, "every")
    return lambda step: initial * factor ** floor(step / every)


def one_cycle(
    peak: float, steps: int, *, rise: float = 0.3, initial_factor: float = 25.0, final_factor: float = 1e4
) -> Schedule:  # fmt: skip
    """A rise from `peak / initial_factor` to `peak` in the fraction `rise` of `steps` steps, then a fall to
    `peak / initial_factor / final_factor`, both on half a period of a cosine.

    Source: Smith, Topin 2019, "Super-convergence", in the variant of PyTorch.
    """
    _check_numbers("one_cycle", peak=peak, rise=rise, initial_factor=initial_factor, final_factor=final_factor)
    _check_steps(steps, "steps")
    top = rise * steps - 1
    if not 0 < top < steps - 1:
        raise CodeError(f"a cycle needs at least one step before and after its peak, not {steps=} and {rise=}")
    initial = peak / initial_factor

    def schedule(step: Tensor) -> Any:
        rising = _cosine(initial, peak, step / top)
        falling = _cosine(peak, initial / final_factor, _clipped((step - top) / (steps - 1 - top)))
        return where(step <= top, rising, falling)

    return schedule


def warmup(schedule: Schedule | float, steps: int, *, start: float = 0.0) -> Schedule:
    """A linear rise over `steps` steps, from the fraction `start` of its first rate, before a schedule."""
    _check_steps(steps, "steps")
    _check_numbers("warmup", start=start)
    following = _as_schedule(schedule)
    return lambda step: following(maximum(step - steps, 0.0)) * minimum(start + (1 - start) * step / steps, 1.0)


def join(schedules: Sequence[Schedule | float], boundaries: Sequence[int]) -> Schedule:
    """One schedule after another: schedule `n + 1` starts, with its own step 0, at step `boundaries[n]`."""
    if len(schedules) != len(boundaries) + 1:
        raise CodeError(f"{len(schedules)} schedules have {len(schedules) - 1} boundaries, not {len(boundaries)}")
    _check_increasing(boundaries, "boundaries")
    first, *following = map(_as_schedule, schedules)

    def schedule(step: Tensor) -> Any:
        rate = first(step)
        for start, current in zip(boundaries, following, strict=True):
            rate = where(step < start, rate, current(maximum(step - start, 0.0)))
        return rate

    return schedule


# ---------------------------------------------------------------------------------------------------------------------


def _decay(value: Callable[[Tensor], Any], initial: float, steps: int, warmup: int) -> Schedule:
    if not 0 <= warmup < steps:
        raise CodeError(f"a schedule needs 0 <= warmup < steps, not {warmup=} and {steps=}")

    def schedule(step: Tensor) -> Any:
        decayed = value(_clipped((step - warmup) / (steps - warmup)))
        return where(step < warmup, initial * (step + 1.0) / warmup, decayed) if warmup else decayed

    return schedule


def _clipped(progress: Tensor) -> Any:
    return minimum(maximum(progress, 0.0), 1.0)


def _cosine(start: float, end: float, progress: Tensor) -> Any:
    return end + (start - end) * 0.5 * (1.0 + cos(math.pi * progress))


def _as_schedule(schedule: Schedule | float) -> Schedule:
    if callable(schedule):
        return schedule
    return constant(schedule)


def _check_numbers(title: str, **values: object) -> None:
    for name, value in values.items():
        if is_bool(value) or not is_number(value):
            raise CodeError(f"train.{title}: `{name}` is a number, not {value!r}"[:200])


def _check_steps(steps: object, name: str) -> None:
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise CodeError(f"`{name}` of a schedule is an integer of at least 1, not {steps!r}"[:200])


def _check_increasing(steps: Sequence[int], name: str) -> None:
    if not all(isinstance(n, int) and n > 0 for n in steps) or any(a >= b for a, b in pairwise(steps)):
        raise CodeError(f"{name} are increasing positive integers, not {list(steps)}"[:200])
