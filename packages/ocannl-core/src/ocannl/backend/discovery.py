"""Discovery of installed backends from distribution metadata, without importing plugins."""

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
    """A backend as declared by the metadata of its distribution."""

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


def entry_points() -> list[EntryPoint]:
    """Returns the backend entry points of all installed distributions."""
    return plugins.entry_points(GROUP)


def discover() -> dict[str, tuple[Candidate, ...]]:
    """Returns the candidates for each backend name, the built-in one first."""
    from importlib.metadata import EntryPoint

    entry = EntryPoint(REFERENCE, "ocannl.backend.reference.backend", GROUP)
    builtin = Candidate(REFERENCE, CORE, core_version(), entry)
    candidates = [builtin]
    for entry in entry_points():
        dist = entry.dist
        name, version = (dist.name, dist.version) if dist is not None else ("an unknown distribution", "?")
        candidates.append(Candidate(entry.name, str(name), str(version), entry))
    candidates.sort(key=lambda c: (c.name, not c.is_builtin, c.distribution))
    return {name: tuple(c for c in candidates if c.name == name) for name in dict.fromkeys(c.name for c in candidates)}
