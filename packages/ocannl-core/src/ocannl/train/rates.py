"""Learning rates: numbers, tensors, and schedules, which compute the rate of each step from its number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.base.user_functions import call_problem
from ocannl.ir.precision import float64, int32
from ocannl.lang.core.leaf_constructors import embed, node
from ocannl.lang.core.literals import is_bool, is_number, python_number
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.casts import cast
from ocannl.lang.record.code import Code, seq
from ocannl.lang.record.recorder import cd

Schedule = Callable[[Tensor], Any]
"""A function from the number of previous steps, a float64 tensor without axes, to the rate of a step."""
Rate = float | Tensor | Symbol | Schedule


def rate_of(rate: Rate, title: str, first_path: str) -> tuple[Code, Tensor | float]:
    """The code that computes the rate of a group of parameters, and its value: a number, or a node without axes."""
    if is_number(rate) and not is_bool(rate):
        return seq(), float(python_number(rate))
    advance: Code = seq()
    if not isinstance(rate, Tensor | Symbol) and callable(rate):
        problem = call_problem(rate, [0.0])
        if problem:
            raise CodeError(f"a schedule is called with the number of previous steps; {rate!r} cannot be: {problem}")
        steps = node(f"{title}_schedule_steps.{first_path}", dtype=int32, batch=[], input=[], output=[])
        rate = rate(cast(steps, float64))
        with cd() as advance:
            steps += 1
    if is_bool(rate) or not isinstance(rate, Tensor | Symbol | int | float):
        raise CodeError(f"a learning rate must be a number, a tensor without axes or a schedule, not {rate!r}")
    value, current = embed(rate), node(f"{title}_rate.{first_path}", dtype=float64, batch=[], input=[], output=[])
    with cd() as store:
        current["=:"] = value
    return seq(value.forward, store, advance), current
