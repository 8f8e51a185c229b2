"""Programs as tensors of ocannl: statement by statement, as a user writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ocannl as oc
from ones.program import Program, Statement, cells, zeros
from ones.rows import Axis, Rows


@dataclass
class Built:
    """`refused` are the errors of statements, by their names; `asking` the errors of tensors that were asked for their
    shape, and `answers` what they answered while the program was written."""

    tensors: dict[str, oc.Tensor] = field(default_factory=dict)
    refused: dict[str, oc.OcannlError] = field(default_factory=dict)
    asking: dict[str, oc.OcannlError] = field(default_factory=dict)
    answers: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def errors(self) -> dict[str, oc.OcannlError]:
        return self.refused | self.asking


def build(program: Program, values: bool = False, until_refused: bool = False) -> Built:
    """Write every statement, and ask for the shapes that the program asks for. What is refused is left out, and so is
    what would use it. With `values`, data hold their cells, else zeros."""
    built = Built()
    scope: dict[str, Any] = {"oc": oc, "np": np, "cells": cells if values else zeros}
    for statement in program.statements:
        if not all(name in built.tensors for name in statement.operands):
            continue
        if not write(statement, scope, built) and until_refused:
            return built
        if statement.name in program.requested and statement.name in built.tensors:
            dims = ask(statement.name, built)
            if dims is not None:
                built.answers[statement.name] = dims
    return built


def write(statement: Statement, scope: dict[str, Any], built: Built) -> bool:
    try:
        exec(statement.code, scope)
    except oc.OcannlError as error:
        built.refused[statement.name] = error
        return False
    built.tensors[statement.name] = scope[statement.name]
    return True


def ask(name: str, built: Built) -> tuple[int, ...] | None:
    """The dims of a tensor; None if they are refused."""
    try:
        return built.tensors[name].dims
    except oc.OcannlError as error:
        built.asking.setdefault(name, error)
        return None


def rows_of(tensor: oc.Tensor) -> Rows:
    """The rows that inference gives a tensor."""
    batch, input, output = (
        tuple(Axis(axis.size, axis.unit) for axis in row)
        for row in (tensor.shape.batch, tensor.shape.input, tensor.shape.output)
    )
    return batch, input, output
