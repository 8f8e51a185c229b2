"""Settings, inputs, conditions and documentation shared by several declarations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ocannl.lang.declare.conditions import Condition
from ocannl.lang.declare.inputs import Input
from ocannl.lang.declare.settings import Setting


@dataclass(frozen=True)
class Part:
    """A reusable piece of declarations.

    The settings become keywords of every operation with the part; rules take those that their parameters name.
    """

    settings: Mapping[str, Setting] = field(default_factory=dict)
    inputs: Mapping[str, Input | str] = field(default_factory=dict)
    where: tuple[Condition, ...] = ()
    doc: str = ""
