"""Origins, numbered: the tensor and source line that link the columns of the page."""

from __future__ import annotations

from ocannl.base.source_positions import path_of
from ocannl.ir.assign import Origin
from ocannl_explorer.source_files import SourceFiles


class Origins:
    """Numbers origins in the order of their first use."""

    def __init__(self, files: SourceFiles) -> None:
        self._files = files
        self._numbers: dict[Origin, int] = {}

    def number(self, origin: Origin) -> int:
        return self._numbers.setdefault(origin, len(self._numbers))

    def table(self) -> list[tuple[str, str, int, int]]:
        """For each origin: the label, the position, the number of its file (-1 if there is none), and the line."""
        rows = []
        for origin in self._numbers:
            path, (name, _, line) = path_of(origin.where), origin.where.rpartition(":")
            file = -1 if path is None else self._files.number(path, name)
            rows.append((origin.label, origin.where, file, int(line or 0)))
        return rows
