"""What a demonstration reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ocannl.train.fit import Fitted


@dataclass(frozen=True, slots=True)
class Report:
    """Lines by name. A run succeeds if `score` is at least `required`; `draw` writes a picture of it to a path."""

    score: float
    required: float
    lines: Mapping[str, str] = field(default_factory=dict)
    draw: Callable[[Path], Path] | None = None


def timing(fitted: Fitted) -> dict[str, str]:
    """Lines with the times of a training run."""
    return {
        "compile time": f"{fitted.compile_seconds:.3f} s",
        "time per step": f"{fitted.step_seconds * 1e3:.3f} ms, {1 / fitted.step_seconds:.0f} steps/s",
    }
