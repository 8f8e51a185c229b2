"""Origins, numbered: the tensor and source line that link the columns of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ocannl.base.source_positions import line_of, path_of
from ocannl.ir.assign import Origin
from ocannl_explorer.source_files import SourceFiles


def distinct(origins: Sequence[Origin]) -> Iterable[Origin]:
    """The distinct objects, in order: most lines share theirs, whose identity is faster to compare than its value."""
    return {id(origin): origin for origin in origins}.values()


class Origins:
    """Numbers origins in the order of their first use."""

    def __init__(self, files: SourceFiles) -> None:
        self._files = files
        self._numbers: dict[Origin, int] = {}

    def number(self, origin: Origin) -> int:
        return self._numbers.setdefault(origin, len(self._numbers))

    def numbers(self, origins: Sequence[Origin]) -> list[int]:
        numbers = {id(origin): self.number(origin) for origin in distinct(origins)}
        return [numbers[id(origin)] for origin in origins]

    def table(self) -> list[tuple[str, str, int, int]]:
        """For each origin: the label, the position, the number of its file (-1 if there is none), and the line."""
        files = [self._files.number(path) if (path := path_of(o.where)) is not None else -1 for o in self._numbers]
        names = self._files.names()
        return [
            (origin.label, f"{names[file]}:{line}" if file >= 0 else origin.where, file, line)
            for origin, file in zip(self._numbers, files, strict=True)
            for line in (line_of(origin.where),)
        ]
