"""Smaller networks with the same defect: layers are left out, then sizes become smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

from .choices import Choices
from .generate import generate
from .program import Network

Failing = Callable[[Network], bool]


def shrunk(drawn: list[int], fails: Failing, seconds: float) -> Network:
    """The smallest network found in this time, from the choices of one that fails."""
    end = monotonic() + seconds
    best, network = Choices(drawn), generate(Choices(drawn))
    generate(best)
    progress = True
    while progress and monotonic() < end:
        progress = False
        for candidate in _candidates(best):
            if monotonic() >= end:
                break
            choices = Choices(candidate)
            smaller = generate(choices)
            if _size(choices) < _size(best) and fails(smaller):
                best, network, progress = choices, smaller, True
                break
    return network


def _size(choices: Choices) -> tuple[int, int]:
    return len(choices.drawn), sum(choices.drawn)


def _candidates(choices: Choices) -> Iterator[list[int]]:
    drawn = choices.drawn
    for start, end in sorted(choices.spans, key=lambda span: span[0] - span[1]):
        yield drawn[:start] + drawn[end:]
    for length in (8, 4, 2, 1):
        for start in range(0, len(drawn), length):
            part = drawn[start : start + length]
            if any(part):
                yield drawn[:start] + [0] * len(part) + drawn[start + length :]
    for n, value in enumerate(drawn):
        for less in (value // 2, value - 1):
            if 0 < less < value:
                yield [*drawn[:n], less, *drawn[n + 1 :]]
