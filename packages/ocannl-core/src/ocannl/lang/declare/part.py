"""What several declarations share: settings, inputs, conditions and words, written once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ocannl.lang.declare.conditions import Condition
from ocannl.lang.declare.inputs import Input
from ocannl.lang.declare.settings import Setting


@dataclass(frozen=True)
class Part:
    """A reusable piece of declarations. Settings become keywords of every operation that has the part; its rules take
    those that they name."""

    settings: Mapping[str, Setting] = field(default_factory=dict)
    inputs: Mapping[str, Input | str] = field(default_factory=dict)
    where: tuple[Condition, ...] = ()
    doc: str = ""
