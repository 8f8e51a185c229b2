"""The seam to whoever runs programs. A backend imports this, `ocannl.ir` and `ocannl.codegen`, and no more."""

from ocannl.backend.api import (
    API_VERSION,
    Backend,
    BackendInfo,
    Brief,
    Code,
    Device,
    Entry,
    Event,
    Location,
    Number,
    Pool,
    Queue,
    Tunable,
)
from ocannl.backend.hooks import hookimpl
from ocannl.base.errors import BackendUnavailable, CompileError, DeviceLost, OutOfMemory, Unsupported
from ocannl.ir.capabilities import Capabilities

__all__ = [
    "API_VERSION",
    "Backend",
    "BackendInfo",
    "BackendUnavailable",
    "Brief",
    "Capabilities",
    "Code",
    "CompileError",
    "Device",
    "DeviceLost",
    "Entry",
    "Event",
    "Location",
    "Number",
    "OutOfMemory",
    "Pool",
    "Queue",
    "Tunable",
    "Unsupported",
    "hookimpl",
]
