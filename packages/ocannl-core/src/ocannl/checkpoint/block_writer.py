"""Large files that are written in blocks, past the cache of the system where that is possible.

The processor then does not copy data to pages of the cache, and has time for digests: a disk may be as fast as a core
computes SHA-256.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

BLOCK_BYTES = 4096
BUFFER_BYTES = 1 << 23
MIN_DIRECT_BYTES = 1 << 20  # smaller files are written faster by way of the cache

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class BlockWriter:
    """A new file. All data passes a buffer that lies at a page, as files without a cache require."""

    def __init__(self, path: Path, *, is_direct: bool) -> None:
        self._path, self._is_direct = path, is_direct
        self._buffer = np.frombuffer(mmap.mmap(-1, BUFFER_BYTES), np.uint8)
        self._file = FileIO(path, "w", opener=_open_direct if is_direct else None)

    def write(self, offset: int, parts: Iterable[Bytes]) -> None:
        """Writes parts one after the other from an offset on, in files without a cache a multiple of `BLOCK_BYTES`, and
        there zeros up to the next multiple."""
        filled = 0
        for part in parts:
            while len(part):
                count = min(len(part), BUFFER_BYTES - filled)
                self._buffer[filled : filled + count] = part[:count]
                part, filled = part[count:], filled + count
                if filled == BUFFER_BYTES:
                    self._put(offset, filled)
                    offset, filled = offset + filled, 0
        end = -(-filled // BLOCK_BYTES) * BLOCK_BYTES if self._is_direct else filled
        self._buffer[filled:end] = 0
        self._put(offset, end)

    def _put(self, offset: int, count: int) -> None:
        """Writes the beginning of the buffer."""
        done = 0
        while done < count:
            self._file.seek(offset + done)
            try:
                done += self._file.write(self._buffer[done:count].data)
            except OSError as error:
                if error.errno != errno.EINVAL:  # of file systems with larger blocks, or after a part of a block
                    raise
                self._file.close()
                self._file = FileIO(self._path, "r+")

    def finish(self, size: int) -> None:
        """Gives the file its size, and waits until the disk holds it."""
        self._file.truncate(size)
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


@contextmanager
def new_file(path: Path, size: int) -> Iterator[BlockWriter]:
    """A new file of a size, which is durable at the end. Raises: OSError."""
    writer = BlockWriter(path, is_direct=size >= MIN_DIRECT_BYTES)
    try:
        yield writer
        writer.finish(size)
    finally:
        writer.close()


def _open_direct(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | getattr(os, "O_DIRECT", 0), 0o666)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags, 0o666)  # file systems that have nothing but a cache
