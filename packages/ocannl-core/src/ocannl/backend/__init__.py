"""The plugin API of backends, which import this package, `ocannl.ir`, `ocannl.codegen` and `ocannl.base` only."""

from ocannl.backend.api import (
    API_MINOR,
    API_VERSION,
    OLDEST_API_VERSION,
    Backend,
    BackendInfo,
    CompiledCode,
    Device,
    DirectCallable,
    Entry,
    Event,
    FallibleEvent,
    HasObjectFiles,
    HasSourceSuffix,
    Location,
    Pool,
    Queue,
    SharedInt64,
    SupportsHostMemory,
    Tunable,
    ZeroedPool,
)
from ocannl.backend.hookspecs import hookimpl
from ocannl.backend.saved_source import save_source
from ocannl.base.config import ConfigSetting
from ocannl.base.errors import BackendUnavailable, CompileError, DeviceLost, OutOfMemory, Unsupported
from ocannl.ir.capabilities import Capabilities, TileUnit

__all__ = [
    "API_MINOR",
    "API_VERSION",
    "OLDEST_API_VERSION",
    "Backend",
    "BackendInfo",
    "BackendUnavailable",
    "DirectCallable",
    "Capabilities",
    "CompiledCode",
    "CompileError",
    "ConfigSetting",
    "Device",
    "DeviceLost",
    "Entry",
    "Event",
    "FallibleEvent",
    "HasObjectFiles",
    "HasSourceSuffix",
    "Location",
    "SharedInt64",
    "SupportsHostMemory",
    "OutOfMemory",
    "Pool",
    "Queue",
    "TileUnit",
    "Tunable",
    "Unsupported",
    "ZeroedPool",
    "hookimpl",
    "save_source",
]
