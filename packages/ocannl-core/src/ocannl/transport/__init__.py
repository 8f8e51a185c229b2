"""The plugin API of transports, which import this package and `ocannl.base` only."""

from ocannl.base.errors import TransportUnavailable
from ocannl.transport.api import API_VERSION, Bytes, PersistentRequest, Transport, TransportInfo
from ocannl.transport.hookspecs import hookimpl

__all__ = [
    "API_VERSION", "Bytes", "PersistentRequest", "Transport", "TransportInfo", "TransportUnavailable", "hookimpl",
]  # fmt: skip
