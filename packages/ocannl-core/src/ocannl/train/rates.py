"""Learning rates: numbers, tensors, and schedules, which compute the rate of each step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ocannl.base.errors import ArgumentError, CodeError
from ocannl.ir.precision import float32, float64, int32
from ocannl.lang.core.leaf_constructors import embed, node
from ocannl.lang.core.literals import is_bool, is_number, python_number
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.casts import cast
from ocannl.lang.ops.einsum import maximum, minimum
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.record.code import Code, seq
from ocannl.lang.record.recorder import cd

cos = PRIMITIVES["cos"]
Schedule = Callable[[Tensor], Any]
"""A function from the number of previous steps, a float32 tensor without axes, to the rate of a step."""
Rate = float | Tensor | Symbol | Schedule


def rate_of(rate: Rate, title: str) -> tuple[Code, Tensor | float]:
    """The code that computes a rate, and its value: a number, or a node without axes."""
    if is_number(rate) and not is_bool(rate):
        return seq(), float(python_number(rate))
    advance: Code = seq()
    if not isinstance(rate, Tensor | Symbol) and callable(rate):
        steps = node(f"{title}_steps", dtype=int32, batch=[], input=[], output=[])
        rate = rate(cast(steps, float32))
        with cd() as advance:
            steps += 1
    if is_bool(rate) or not isinstance(rate, Tensor | Symbol | int | float):
        raise CodeError(f"a learning rate must be a number, a tensor without axes or a schedule, not {rate!r}")
    value, current = embed(rate), node(f"{title}_rate", dtype=float64, batch=[], input=[], output=[])
    with cd() as store:
        current["=:"] = value
    return seq(value.forward, store, advance), current


def check_numbers(title: str, **settings: object) -> None:
    """Checks the settings of an optimizer: numbers, or tensors without axes. Raises: ArgumentError."""
    for name, value in settings.items():
        if not isinstance(value, Tensor | Symbol) and (is_bool(value) or not is_number(value)):
            raise ArgumentError(f"train.{title}: `{name}` is a number, not {value!r}"[:200])


# --- schedules -------------------------------------------------------------------------------------------------------


def linear_decay(initial: float, steps: int, *, final: float = 0.0, warmup: int = 0) -> Schedule:
    """From `initial` to `final` on a line over `steps` steps, the first `warmup` of which rise from 0 to `initial`."""
    return _decay(lambda progress: initial + (final - initial) * progress, initial, steps, warmup)


def cosine_decay(initial: float, steps: int, *, final: float = 0.0, warmup: int = 0) -> Schedule:
    """From `initial` to `final` on half a period of a cosine over `steps` steps, after a linear warmup.

    Source: Loshchilov, Hutter 2017, "SGDR: Stochastic gradient descent with warm restarts".
    """

    def value(progress: Tensor) -> Tensor:
        result: Tensor = final + (initial - final) * 0.5 * (1.0 + cos(math.pi * progress))
        return result

    return _decay(value, initial, steps, warmup)


def exponential_decay(initial: float, steps: int, *, final: float, warmup: int = 0) -> Schedule:
    """From `initial` to `final` by a constant factor in each of `steps` steps, after a linear warmup."""
    if final <= 0 or initial <= 0:
        raise CodeError(f"an exponential decay runs between positive rates, not {initial} and {final}")
    return _decay(lambda progress: initial * (final / initial) ** progress, initial, steps, warmup)


def _decay(value: Callable[[Tensor], Tensor], initial: float, steps: int, warmup: int) -> Schedule:
    if not 0 <= warmup < steps:
        raise CodeError(f"a schedule needs 0 <= warmup < steps, not {warmup=} and {steps=}")

    def schedule(step: Tensor) -> Tensor:
        progress = minimum(maximum((step - warmup) / (steps - warmup), 0.0), 1.0)
        decayed = value(progress)
        if not warmup:
            return decayed
        result: Tensor = PRIMITIVES["where"](step < warmup, initial * (step + 1.0) / warmup, decayed)
        return result

    return schedule
