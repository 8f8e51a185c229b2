"""The settings of layers: which numbers they may be, and how those of one layer must fit each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from ocannl.base.user_functions import call_problem
from ocannl.infer.terms import MAX_AXES


@dataclass(frozen=True, slots=True)
class Limit:
    """The numbers that a setting may be, in words and as a condition."""

    text: str
    holds: Callable[[Any], bool]


MAX_LAYERS = 10_000  # of a stack, each of which is built
MAX_HEADS = 65_536

POSITIVE = Limit("positive", lambda n: n >= 1)
NOT_NEGATIVE = Limit("not negative", lambda n: n >= 0)
PROBABILITY = Limit("a probability below 1", lambda p: 0 <= p < 1)
SHARE = Limit("a number from 0 to 1", lambda p: 0 <= p <= 1)

LIMITS: Mapping[str, Limit] = {
    **dict.fromkeys(
        (
            "channels", "classes", "count", "dilation", "groups", "inner", "latent", "length", "multiplier", "patch",
            "segment_count", "size", "stride", "top_k", "vocabulary", "width", "widths", "window",
        ),
        POSITIVE,
    ),
    "axes": Limit(f"from 1 to {MAX_AXES}", lambda n: 1 <= n <= MAX_AXES),
    **dict.fromkeys(("heads", "kv_heads"), Limit(f"from 1 to {MAX_HEADS:,}", lambda n: 1 <= n <= MAX_HEADS)),
    "layers": Limit(f"from 1 to {MAX_LAYERS:,}", lambda n: 1 <= n <= MAX_LAYERS),
    **dict.fromkeys(("base", "rotary_base", "capacity_factor"), Limit("above 0", lambda n: n > 0)),
    "eps": NOT_NEGATIVE,
    "output_padding": NOT_NEGATIVE,
    "padding": NOT_NEGATIVE,
    "rate": PROBABILITY,
    "attention_rate": PROBABILITY,
    "momentum": SHARE,
}  # fmt: skip
"""The limits of settings by name, for all layers. Numbers in lists have the limit of the list."""

UNARY_FUNCTIONS = frozenset({"activation", "function", "shortcut"})
"""Settings that are functions of a tensor."""

DIVISORS = (("heads", "width"), ("kv_heads", "heads"), ("groups", "channels"))
"""Pairs of settings, the first of which divides the second."""

BOUNDS = (("top_k", "count"),)
"""Pairs of settings, the first of which is at most the second."""


def setting_problem(settings: Mapping[str, object]) -> str:
    """The first setting that is out of its limits, or does not fit another one, with its value; or an empty text."""
    for name, value in settings.items():
        if name in UNARY_FUNCTIONS and callable(value) and (problem := call_problem(value, (None,))):
            return f"`{name}` is a function of a tensor, not {value!r}: {problem}"
        limit = LIMITS.get(name)
        if limit is None:
            continue
        if isinstance(value, list | tuple) and not value:
            return f"`{name}` is a list of one number or more"
        for number in _numbers(value):
            if not limit.holds(number):
                within = "" if number is value else f" in {value!r}"
                return f"`{name}` is {limit.text}, not {number!r}{within}"
    for part, number in DIVISORS:
        if _are_integers(settings, part, number) and settings[number] % settings[part]:  # type: ignore[operator]
            return f"`{part}` is {settings[part]}, which does not divide `{number}`, {settings[number]}"
    for smaller, larger in BOUNDS:
        if _are_integers(settings, smaller, larger) and settings[smaller] > settings[larger]:  # type: ignore[operator]
            return f"`{smaller}` is {settings[smaller]}, and `{larger}` only {settings[larger]}"
    return ""


def _numbers(value: object) -> Iterator[Any]:
    """The numbers in a setting, a number itself or a list that may contain lists; nothing else."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, Real) and not isinstance(value, bool):
        yield value


def _are_integers(settings: Mapping[str, object], *names: str) -> bool:
    return all(isinstance(settings.get(name), int) for name in names)
