"""The report header of the conformance kit: backend, distribution, version, devices and capabilities."""

from __future__ import annotations

from dataclasses import fields

import pytest

from ocannl.backend.discovery import core_version, discover
from ocannl.backend.registry import resolve
from ocannl.base.errors import BackendError


def describe_backend(name: str) -> list[str]:
    """Returns the lines of the header; raises `pytest.UsageError` for an unusable backend."""
    try:
        backend = resolve(name)
    except BackendError as error:
        raise pytest.UsageError(str(error)) from None
    candidates = discover().get(name)
    source = str(candidates[0]) if candidates else "no distribution"
    lines = [
        f"ocannl backend: {name} of {source}, on ocannl-core {core_version()}",
        f"  version: {backend.version}",
        f"  devices: {backend.device_count()}",
    ]
    for field in fields(backend.capabilities):
        value = getattr(backend.capabilities, field.name)
        text = ", ".join(sorted(map(str, value))) if isinstance(value, frozenset) else value
        lines.append(f"  {field.name}: {text}")
    return lines
