"""Bookkeeping of the cases that upstream's tests and documents give, by area."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., None])


class Cases:
    """Says of a test which cases it runs, or of which it shows what happens instead.

    `areas` are the numbers of the printed cases; `overridden` names those that are not copied, and what decides so.
    """

    def __init__(self, areas: Mapping[str, str], overridden: Mapping[str, str]) -> None:
        self.printed = {f"{area}-{number}" for area, numbers in areas.items() for number in numbers.split()}
        self.overridden = overridden
        self.seen: set[str] = set()

    def __call__(self, *ids: str) -> Callable[[Test], Test]:
        def counted(test: Test) -> Test:
            self.seen.update(ids)
            return test

        return counted

    def check(self) -> None:
        assert self.seen == self.printed
        assert self.overridden.keys() <= self.printed and all(self.overridden.values())
