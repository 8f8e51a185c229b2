"""Which backends are installed, read from the metadata of distributions alone: nothing of a plugin is imported."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ocannl.base import plugins

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ocannl.backends"
CORE = "ocannl-core"
REFERENCE = "numpy"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A backend as the metadata of its distribution announces it."""

    name: str
    distribution: str
    version: str
    entry: EntryPoint

    @property
    def is_builtin(self) -> bool:
        return self.distribution == CORE

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


@cache
def core_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(CORE)
    except PackageNotFoundError:
        return "(source)"


def entries() -> list[EntryPoint]:
    """The entry points of installed distributions, from their metadata; the first distribution of a name counts."""
    return plugins.entries(GROUP)


def discover() -> dict[str, tuple[Candidate, ...]]:
    """The candidates of each name, by name; the one built in keeps its own."""
    from importlib.metadata import EntryPoint

    entry = EntryPoint(REFERENCE, "ocannl.backend.reference.backend", GROUP)
    builtin = Candidate(REFERENCE, CORE, core_version(), entry)
    found = [builtin]
    for entry in entries():
        dist = entry.dist
        name, version = (dist.name, dist.version) if dist is not None else ("an unknown distribution", "?")
        found.append(Candidate(entry.name, str(name), str(version), entry))
    found.sort(key=lambda c: (c.name, not c.is_builtin, c.distribution))
    return {name: tuple(c for c in found if c.name == name) for name in dict.fromkeys(c.name for c in found)}
