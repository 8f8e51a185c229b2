"""Errors of reading and importing models."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.base.errors import DataError, Unsupported


class ModelError(DataError):
    """A file or message that is not a valid ONNX model, or a part of one."""


class UnsupportedModel(Unsupported):
    """A model with operators, types or attributes that the importer does not support; `problems` lists all found."""

    def __init__(self, message: str, problems: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class NeedsConstant(UnsupportedModel):
    """A size depends on values of the named inputs, which are only known when the model runs."""

    def __init__(self, message: str, inputs: Sequence[str]) -> None:
        super().__init__(message)
        self.inputs = tuple(inputs)
