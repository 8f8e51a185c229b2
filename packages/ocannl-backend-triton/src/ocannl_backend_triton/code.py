"""Compiled programs: their kernels as plain data, which are bytes as well."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ocannl.backend import CompileError
from ocannl_backend_triton.kernel import Argument, Kernel, Module

MAGIC = b"ocannl-triton 1 "


@dataclass(frozen=True, slots=True)
class TritonCode:
    """Implements `Code`."""

    modules: tuple[Module, ...]

    @property
    def source(self) -> str:
        return "\n\n".join(module.source for module in self.modules)

    @property
    def blob(self) -> bytes:
        data = json.dumps([asdict(module) for module in self.modules], sort_keys=True).encode("ascii")
        return MAGIC + hashlib.sha256(data).hexdigest().encode("ascii") + b"\n" + data

    def module(self, name: str) -> Module:
        return next(module for module in self.modules if module.name == name)


def restored(blob: bytes) -> TritonCode:
    """From bytes that are whole."""
    head, _, data = blob.partition(b"\n")
    if head != MAGIC + hashlib.sha256(data).hexdigest().encode("ascii"):
        raise CompileError("these bytes are not what this backend made")
    try:
        return TritonCode(_modules(json.loads(data)))
    except (KeyError, TypeError, ValueError) as error:
        raise CompileError(f"compiled code has another form: {error}") from None


def _modules(stored: Sequence[dict[str, Any]]) -> tuple[Module, ...]:
    return tuple([
        Module(**{
            **each,
            "kernels": tuple(map(_kernel, each["kernels"])),
            "regions": tuple([(name, size) for name, size in each["regions"]]),
        })
        for each in stored
    ])


def _kernel(stored: dict[str, Any]) -> Kernel:
    x, y, z = stored["grid"]
    return Kernel(**{
        **stored,
        "arguments": tuple([Argument(**argument) for argument in stored["arguments"]]),
        "grid": (x, y, z),
        "constants": tuple([(name, value) for name, value in stored["constants"]]),
    })
