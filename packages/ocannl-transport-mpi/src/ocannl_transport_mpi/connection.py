"""The connection to the processes of `MPI.COMM_WORLD`, by persistent requests of MPI and windows of shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from ocannl.transport import Bytes, TransportUnavailable

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as cause:
    raise TransportUnavailable(f"there is no library of MPI: {cause}; run: pip install mpich") from cause

ALIGNMENT_BYTES = 64


class MpiRequest:
    """A persistent request; holds the memory that MPI accesses."""

    __slots__ = ("_memory", "_request", "start")

    def __init__(self, request: MPI.Prequest, *memory: Bytes) -> None:
        self._request, self._memory = request, memory
        self.start = request.Start

    def is_done(self) -> bool:
        return bool(self._request.Test())


class MpiConnection:
    """Implements `Transport`."""

    name = "mpi"

    def __init__(self) -> None:
        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise TransportUnavailable("this MPI does not support calls by several threads (MPI_THREAD_MULTIPLE)")
        self._world = MPI.COMM_WORLD.Dup()  # messages of other users of MPI are apart
        self.rank, self.size = self._world.Get_rank(), self._world.Get_size()
        self._host = self._world.Split_type(MPI.COMM_TYPE_SHARED)
        self.hosts = tuple(self._world.allgather(self._host.allgather(self.rank)[0]))
        self._windows: list[MPI.Win] = []
        self._host.Barrier()  # all have opened the segments of MPICH
        if MPI.Get_library_version().startswith("MPICH"):
            _unlink_segments()

    def window(self, sizes_bytes: Sequence[int]) -> list[Bytes]:
        size = sizes_bytes[self.rank]
        window = MPI.Win.Allocate_shared(size + ALIGNMENT_BYTES, 1, comm=self._world)
        self._windows.append(window)
        return [_aligned(window, rank, size) for rank, size in enumerate(sizes_bytes)]

    def sender(self, memory: Bytes, target: int, tag: int) -> MpiRequest:
        return MpiRequest(self._world.Send_init([memory, MPI.BYTE], target, tag), memory)

    def receiver(self, memory: Bytes, source: int, tag: int) -> MpiRequest:
        return MpiRequest(self._world.Recv_init([memory, MPI.BYTE], source, tag), memory)

    def gatherer(self, memory: Bytes, out: Bytes) -> MpiRequest:
        request = self._world.Allgather_init([memory, MPI.BYTE], [out, memory.nbytes, MPI.BYTE])
        return MpiRequest(request, memory, out)

    def abort(self, status: int) -> None:
        self._world.Abort(status)

    def close(self) -> None:
        """Frees all windows; the communicators are freed with the process."""
        for window in self._windows:
            window.Free()
        self._windows.clear()


def _unlink_segments() -> None:
    """Removes the names of the shared memory of MPICH, which would remain after a kill; the memory stays mapped."""
    with suppress(OSError):  # a system without this file has none of these names
        mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
        for name in mapped:
            if name.startswith("/dev/shm/mpich_"):
                Path(name).unlink(missing_ok=True)


def _aligned(window: MPI.Win, rank: int, size_bytes: int) -> Bytes:
    """The part of a rank, from an address that is a multiple of the alignment in all processes: segments are mapped
    from whole pages, and the offset in the segment decides."""
    memory, _ = window.Shared_query(rank)
    raw: Bytes = np.frombuffer(memory, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[start : start + size_bytes]
