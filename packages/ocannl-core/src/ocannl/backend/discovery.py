"""Discovery of installed backends from distribution metadata, without importing plugins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ocannl.base import plugins
from ocannl.base.config import DISCOVERY

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ocannl.backends"
CORE = "ocannl-core"
REFERENCE = "numpy"
REFERENCE_DESCRIPTION = "the reference: NumPy on index grids, exact and slow"
REFERENCE_PRIORITY = -100
DISTRIBUTIONS = {  # first-party backends and their distributions, which own the names
    "c": "ocannl-backend-c",
    "llvm": "ocannl-backend-llvm",
    "triton": "ocannl-backend-triton",
}
UNKNOWN = "an unknown distribution"
MAX_NAME = 64
BACKEND_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A backend as declared by the metadata of its distribution. `defect` is a fault of the declaration itself."""

    name: str
    distribution: str
    version: str
    entry: EntryPoint
    defect: str | None = None

    @property
    def is_builtin(self) -> bool:
        return self.distribution == CORE

    @property
    def is_first_party(self) -> bool:
        return self.is_builtin or self.distribution == DISTRIBUTIONS.get(self.name)

    @property
    def remedy(self) -> str:
        return "repair it" + ("" if self.distribution == UNKNOWN else f" or run: pip uninstall {self.distribution}")

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".strip()


@cache
def core_version() -> str:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return plugins.identity(distribution(CORE))[1]
    except PackageNotFoundError:
        return "(source)"


def entry_points() -> list[EntryPoint]:
    """Returns the backend entry points of all installed distributions."""
    return plugins.entry_points(GROUP)


def discover() -> dict[str, tuple[Candidate, ...]]:
    """Returns the candidates for each backend name, those of the distribution that owns the name first."""
    from importlib.metadata import EntryPoint

    entry = EntryPoint(REFERENCE, "ocannl.backend.reference.backend", GROUP)
    candidates = [Candidate(REFERENCE, CORE, core_version(), entry), *_announced()]
    candidates.sort(key=lambda c: (c.name, not c.is_builtin, not c.is_first_party, c.distribution))
    return {name: tuple(c for c in candidates if c.name == name) for name in dict.fromkeys(c.name for c in candidates)}


def considered() -> dict[str, tuple[Candidate, ...]]:
    """Returns the candidates among which a default is chosen: with the setting `discovery` off, only first-party
    ones."""
    candidates_by_name = discover()
    if DISCOVERY.get():
        return candidates_by_name
    first_party = {name: tuple(c for c in group if c.is_first_party) for name, group in candidates_by_name.items()}
    return {name: candidates for name, candidates in first_party.items() if candidates}


def _announced() -> Iterator[Candidate]:
    for entry in entry_points():
        with suppress(OSError, ValueError):  # uninstalled in the meantime
            distribution, version = (UNKNOWN, "") if entry.dist is None else plugins.identity(entry.dist)
            name = plugins.single_line(entry.name, MAX_NAME)
            defect = None if BACKEND_NAME.fullmatch(entry.name) else "a name has up to 64 letters, digits and `_ . -`"
            yield Candidate(name, distribution, version, entry, defect)
