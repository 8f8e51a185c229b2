"""Results of an operation: their data types and documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.precision import Precision
from ocannl.lang.declare.inputs import require_types


@public_class()
@dataclass(frozen=True, slots=True)
class Output:
    """One result of an operation. `kind` is its data type, or a function of inputs and settings that computes it; None
    infers the type from the inputs."""

    kind: Any = None
    doc: str = ""

    def __post_init__(self) -> None:
        require_types(self, doc=str)


def as_output(value: object) -> Output:
    """Converts a data type to an `Output`."""
    if isinstance(value, Output):
        return value
    if value is None or isinstance(value, str | Precision):
        return Output(value)
    raise CodeError(f"an output is declared by a type such as 'float32', or a declare.Output, not {value!r}")
