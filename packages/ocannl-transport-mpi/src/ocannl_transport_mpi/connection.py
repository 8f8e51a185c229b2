"""The connection to the processes of `MPI.COMM_WORLD`, by persistent requests of MPI and windows of shared memory."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from ocannl.transport import ALIGNMENT_BYTES, Bytes, TransportUnavailable, aligned

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as cause:
    raise TransportUnavailable(f"there is no library of MPI: {cause}; run: pip install mpich") from cause


class MpiRequest:
    """A persistent request; holds the memory that MPI accesses."""

    __slots__ = ("_memory", "_request", "start")

    def __init__(self, request: MPI.Prequest, *memory: Bytes) -> None:
        self._request, self._memory = request, memory
        self.start = request.Start

    def is_done(self) -> bool:
        return bool(self._request.Test())


class RepeatedGather:
    """Gathers at each start by a new request, as a persistent one would: before version 4, as in Open MPI 4, MPI has no
    persistent collectives."""

    def __init__(self, communicator: MPI.Intracomm, memory: Bytes, out: Bytes) -> None:
        self._communicator, self._memory, self._out = communicator, memory, out
        self._request = MPI.REQUEST_NULL

    def start(self) -> None:
        out = [self._out, self._memory.nbytes, MPI.BYTE]
        self._request = self._communicator.Iallgather([self._memory, MPI.BYTE], out)

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
        self._groups: dict[tuple[int, ...], MPI.Intracomm] = {tuple(range(self.size)): self._world}
        atexit.register(self._free)  # after the end of the world, and before that of MPI
        self._host.Barrier()  # all have opened the segments of MPICH
        if MPI.Get_library_version().startswith("MPICH"):
            _unlink_segments()

    def window(self, ranks: Sequence[int], sizes_bytes: Sequence[int]) -> list[Bytes]:
        group = self._group(tuple(ranks))
        size = sizes_bytes[group.Get_rank()]
        window = MPI.Win.Allocate_shared(size + ALIGNMENT_BYTES, 1, comm=group)
        window.Lock_all(MPI.MODE_NOCHECK)  # all parts may be accessed until the end
        self._windows.append(window)
        memory = [window.Shared_query(rank)[0] for rank in range(len(ranks))]
        return [aligned(np.frombuffer(m, np.uint8), size) for m, size in zip(memory, sizes_bytes, strict=True)]

    def _group(self, ranks: tuple[int, ...]) -> MPI.Intracomm:
        """The communicator of some ranks, which all of them request in the same order."""
        if ranks not in self._groups:
            self._groups[ranks] = self._world.Create_group(self._world.Get_group().Incl(ranks))
        return self._groups[ranks]

    def fence(self) -> None:
        if self._windows:
            self._windows[0].Sync()  # a memory barrier for all windows in shared memory

    def sender(self, memory: Bytes, target: int, tag: int) -> MpiRequest:
        return MpiRequest(self._world.Send_init([memory, MPI.BYTE], target, tag), memory)

    def receiver(self, memory: Bytes, source: int, tag: int) -> MpiRequest:
        return MpiRequest(self._world.Recv_init([memory, MPI.BYTE], source, tag), memory)

    def gatherer(self, memory: Bytes, out: Bytes) -> MpiRequest | RepeatedGather:
        if MPI.Get_version() < (4, 0):
            return RepeatedGather(self._world, memory, out)
        request = self._world.Allgather_init([memory, MPI.BYTE], [out, memory.nbytes, MPI.BYTE])
        return MpiRequest(request, memory, out)

    def abort(self, status: int) -> None:
        self._world.Abort(status)

    def close(self) -> None:
        """Without effect: windows, whose memory arrays may use, are freed at the end of the process."""

    def _free(self) -> None:
        for window in self._windows:
            window.Unlock_all()
            window.Free()
        self._windows.clear()


def _unlink_segments() -> None:
    """Removes the names of the shared memory of MPICH, which would remain after a kill; the memory stays mapped."""
    with suppress(OSError):  # a system without this file has none of these names
        mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
        for name in mapped:
            if name.startswith("/dev/shm/mpich_"):
                Path(name).unlink(missing_ok=True)

