"""What a step of training minimizes, and how: the same for all libraries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Loss = Callable[..., Any]
"""A function of a library, weights by path and a batch by name, to a number."""


@dataclass(frozen=True)
class Objective:
    """A loss, and the beginning of the paths of the parameters that minimize it."""

    loss: Loss
    params: str = ""


@dataclass(frozen=True)
class Adam:
    """AdamW; the rate decays to 0 on half a period of a cosine over `steps` steps, if there are any."""

    rate: float
    decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    steps: int | None = None

    def rate_at(self, step: Any, cos: Callable[[Any], Any] = math.cos) -> Any:
        return self.rate if self.steps is None else self.rate * 0.5 * (1 + cos(math.pi / self.steps * step))


@dataclass(frozen=True)
class Training:
    """A model as a trainer of a library receives it: `states` are the weights that are no parameters."""

    objectives: Sequence[Objective]
    predict: Loss
    optimizer: Adam
    weights: Mapping[str, Any]
    states: frozenset[str]

    def paths(self, objective: Objective) -> list[str]:
        """Of the parameters that an objective trains."""
        return [path for path in self.weights if path not in self.states and path.startswith(objective.params)]
