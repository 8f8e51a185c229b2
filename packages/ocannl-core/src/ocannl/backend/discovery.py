"""Discovery of installed backends from distribution metadata, without importing plugins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import attrgetter

from ocannl.base import entry_points as installed
from ocannl.base.config import DISCOVERY
from ocannl.base.entry_points import UNKNOWN, EntryPoint
from ocannl.base.plugins import single_line

GROUP = "ocannl.backends"
CORE = "ocannl-core"
REFERENCE = "numpy"
REFERENCE_MODULE = "ocannl.backend.reference.backend"
REFERENCE_DESCRIPTION = "the reference: NumPy on index grids, exact and slow"
REFERENCE_PRIORITY = -100
DISTRIBUTIONS = {  # first-party backends and their distributions, which own the names
    "c": "ocannl-backend-c",
    "llvm": "ocannl-backend-llvm",
    "triton": "ocannl-backend-triton",
}
BACKENDS_OF_DEVICES = {"cpu": "llvm", "cuda": "triton", "gpu": "triton", "rocm": "triton"}
"""The backends for what other frameworks call a device."""
MAX_NAME = 64
BACKEND_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A backend as declared by the metadata of its distribution."""

    entry: EntryPoint

    @property
    def name(self) -> str:
        return single_line(self.entry.name, MAX_NAME)

    @property
    def distribution(self) -> str:
        return self.entry.distribution

    @property
    def version(self) -> str:
        return self.entry.version

    @property
    def defect(self) -> str | None:
        """A fault of the declaration itself."""
        is_name = BACKEND_NAME.fullmatch(self.entry.name)
        return None if is_name else "a name has up to 64 letters, digits and `_ . -`"

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
        return self.entry.owner


@cache
def core_version() -> str:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return installed.identity(distribution(CORE))[1]
    except PackageNotFoundError:
        return "(source)"


def entry_points() -> list[EntryPoint]:
    """Returns the backend entry points of all installed distributions."""
    return installed.entry_points(GROUP)


def discover() -> dict[str, tuple[Candidate, ...]]:
    """Returns the candidates for each backend name, those of the distribution that owns the name first."""
    candidates = [*map(Candidate, entry_points())]
    if not any(candidate.is_builtin for candidate in candidates):  # the core is imported from a source tree
        candidates.append(Candidate(EntryPoint(GROUP, REFERENCE, REFERENCE_MODULE, CORE, core_version())))
    candidates.sort(key=lambda c: (c.name, not c.is_builtin, not c.is_first_party, c.distribution))
    return {name: tuple(group) for name, group in groupby(candidates, key=attrgetter("name"))}


def considered() -> dict[str, tuple[Candidate, ...]]:
    """Returns the candidates among which a default is chosen: with the setting `discovery` off, only first-party
    ones."""
    candidates_by_name = discover()
    if DISCOVERY.get():
        return candidates_by_name
    first_party = {name: tuple(c for c in group if c.is_first_party) for name, group in candidates_by_name.items()}
    return {name: candidates for name, candidates in first_party.items() if candidates}
