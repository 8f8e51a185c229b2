"""The plugin API of transports, which import this package and `ocannl.base` only."""

from ocannl.base.errors import TransportUnavailable
from ocannl.transport.api import (
    ALIGNMENT_BYTES,
    API_VERSION,
    Bytes,
    PersistentRequest,
    Transport,
    TransportInfo,
    aligned,
)  # fmt: skip
from ocannl.transport.hookspecs import hookimpl

__all__ = [
    "ALIGNMENT_BYTES", "API_VERSION", "Bytes", "PersistentRequest", "Transport", "TransportInfo",
    "TransportUnavailable", "aligned", "hookimpl",
]  # fmt: skip
