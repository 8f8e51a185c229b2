"""Random choices that are recorded, so that a network can be rebuilt from fewer or smaller ones.

A generator that draws all it decides from a `Choices` is shrunk without knowing anything of it: a recorded sequence is
edited and replayed, and a sequence that ends early is continued by zeros, the simplest choices. After: MacIver and
Donaldson 2020, "Test-case reduction via test-case generation".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Integers from a random generator, or from a recorded sequence."""

    def __init__(self, source: Random | Sequence[int]) -> None:
        self._random = source if isinstance(source, Random) else None
        self._replayed = () if isinstance(source, Random) else tuple(source)
        self.drawn: list[int] = []
        self.spans: list[tuple[int, int]] = []  # what was drawn for one layer or block

    def integer(self, count: int) -> int:
        """One of 0, 1, ..., count - 1; 0 is the simplest."""
        if self._random is not None:
            value = self._random.randrange(count)
        else:
            position = len(self.drawn)
            value = min(self._replayed[position], count - 1) if position < len(self._replayed) else 0
        self.drawn.append(value)
        return value

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; the first is the simplest."""
        return options[self.integer(len(options))]

    def weighted(self, options: Sequence[tuple[T, int]]) -> T:
        """One of the options, as often as its weight says."""
        ticket = self.integer(sum(weight for _, weight in options))
        for option, weight in options:
            if ticket < weight:
                return option
            ticket -= weight
        raise AssertionError("weights are positive")

    def chance(self, percent: int) -> bool:
        return self.integer(100) >= 100 - percent

    @contextmanager
    def span(self) -> Iterator[None]:
        """Choices that may be deleted together."""
        start = len(self.drawn)
        yield
        self.spans.append((start, len(self.drawn)))
