"""The transport of a single process, which is its own and only rank."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from ocannl.transport.api import ALIGNMENT_BYTES, API_VERSION, Bytes, PersistentRequest, TransportInfo, aligned
from ocannl.transport.hookspecs import hookimpl

NAME = "single"
DESCRIPTION = "one process, without communication"


class _Copy:
    """A request that copies within this process."""

    def __init__(self, source: Bytes, target: Bytes) -> None:
        self._source, self._target = source, target

    def start(self) -> None:
        np.copyto(self._target, self._source)

    def is_done(self) -> bool:
        return True


class SingleProcess:
    """Implements `Transport`."""

    name = NAME
    rank = 0
    size = 1
    hosts = (0,)

    def window(self, ranks: Sequence[int], sizes_bytes: Sequence[int]) -> list[Bytes]:
        return [aligned_zeros(size) for size in sizes_bytes]

    def fence(self) -> None:
        pass

    def sender(self, memory: Bytes, target: int, tag: int) -> NoReturn:
        raise ValueError(f"a single process has no rank {target}")

    def receiver(self, memory: Bytes, source: int, tag: int) -> NoReturn:
        raise ValueError(f"a single process has no rank {source}")

    def gatherer(self, memory: Bytes, out: Bytes) -> PersistentRequest:
        return _Copy(memory, out)

    def abort(self, status: int) -> NoReturn:
        os._exit(status)

    def close(self) -> None:
        pass


def aligned_zeros(size_bytes: int) -> Bytes:
    """Memory of this process, aligned as that of windows."""
    return aligned(np.zeros(size_bytes + ALIGNMENT_BYTES, np.uint8), size_bytes)


@hookimpl
def ocannl_transport() -> TransportInfo:
    return TransportInfo(NAME, API_VERSION, DESCRIPTION, probe=lambda: None, connect=SingleProcess)
