"""Verdicts: what is known of an installed backend without importing its plugin here."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ocannl.backend.discovery import Candidate
from ocannl.base import errors, plugins
from ocannl.base.errors import BackendError, BackendImportError, BackendUnavailable


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a backend can be used, and its description. `error` is the class of the error that naming the backend
    would raise, `reason` its message; None if the backend is usable. The priority is None where it is unknown."""

    error: str | None = None
    reason: str | None = None
    description: str = ""
    priority: int | None = None

    @property
    def is_usable(self) -> bool:
        return self.error is None

    @property
    def is_fault(self) -> bool:
        """Whether the backend is broken, rather than unavailable on this machine."""
        return self.error not in (None, BackendUnavailable.__name__)

    def tree(self) -> dict[str, object]:
        return asdict(self)


def refused(error: BackendError, description: str = "", priority: int | None = None) -> Verdict:
    return Verdict(type(error).__name__, plugins.single_line(str(error)), description, priority)


def failed(candidate: Candidate, failure: str) -> Verdict:
    """The verdict on a plugin that crashes or hangs, so that it must not be imported here."""
    message = (
        f"backend `{candidate.name}` of {candidate} is passed over: {plugins.single_line(failure)};"
        f" {candidate.remedy}"
    )
    return Verdict(BackendImportError.__name__, message)


def verdict_from_tree(tree: object) -> Verdict:
    """The verdict of a child process or of the cache. Raises: ValueError for anything else."""
    try:
        verdict = Verdict(**tree)  # type: ignore[arg-type]
    except TypeError as error:
        raise ValueError(f"not a verdict: {error}") from None
    kinds = {"error": str | None, "reason": str | None, "description": str, "priority": int | None}
    if not all(isinstance(getattr(verdict, field), kind) for field, kind in kinds.items()):
        raise ValueError("a verdict with fields of wrong types")
    if (verdict.error is None) != (verdict.reason is None) or (verdict.is_usable and verdict.priority is None):
        raise ValueError("a verdict without a reason or a priority")
    if verdict.error is not None and not issubclass(getattr(errors, verdict.error, object), BackendError):
        raise ValueError("a verdict with an unknown error")
    return verdict
