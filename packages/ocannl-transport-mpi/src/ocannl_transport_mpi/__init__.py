"""The plugin: its descriptor, created without MPI, which starts when it is imported."""

from __future__ import annotations

from importlib.util import find_spec

from ocannl.transport import API_VERSION, Transport, TransportInfo, hookimpl


@hookimpl
def ocannl_transport() -> TransportInfo:
    return TransportInfo(
        name="mpi",
        api_version=API_VERSION,
        description="MPI by mpi4py: processes of one host or several",
        probe=_probe,
        connect=_connect,
    )


def _probe() -> str | None:
    if find_spec("mpi4py") is None:
        return "mpi4py is not installed; run: pip install mpi4py mpich"
    return None


def _connect() -> Transport:
    from ocannl_transport_mpi.connection import MpiConnection

    return MpiConnection()
