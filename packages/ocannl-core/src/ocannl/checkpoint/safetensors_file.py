"""Files of tensors in the format of the library safetensors, with a digest of their whole content.

A file starts with the length of its header in 8 bytes. The header is JSON: metadata, which are texts by name, and the
type, the sizes and the place of each tensor.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from ocannl.base.errors import CheckpointError
from ocannl.checkpoint.block_writer import BLOCK_BYTES, MIN_DIRECT_BYTES, new_file

Array = np.ndarray[Any, Any]

TYPES: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in {
        "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "U32": np.uint32,
        "I32": np.int32, "U64": np.uint64, "I64": np.int64, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
        "F32": np.float32, "F64": np.float64,
    }.items()
}  # fmt: skip

_TYPE_NAMES: Mapping[np.dtype[Any], str] = {kind: name for name, kind in TYPES.items()}

DIGEST = "sha256"
NO_DIGEST = "0" * 64
LENGTH_BYTES = 8
PIECE_BYTES = 1 << 23  # digested at once
MAX_THREADS = 4  # for digests


def write(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Writes a file durably. The digest is computed while the data is written, and the header, which contains it, is
    written last."""
    ordered = dict(sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])))  # so that all are aligned
    data_bytes = sum(array.nbytes for array in ordered.values())
    alignment = LENGTH_BYTES if data_bytes < MIN_DIRECT_BYTES else BLOCK_BYTES
    start = len(_header(ordered, {**metadata, DIGEST: NO_DIGEST}, alignment))
    threads = _processors() - 1  # one writes
    with digesting(arrays, metadata, threads) as digest, new_file(path, start + data_bytes) as file:
        file.write(start, map(_bytes_of, ordered.values()))
        file.write(0, [np.frombuffer(_header(ordered, {**metadata, DIGEST: digest()}, alignment), np.uint8)])


def _header(arrays: Mapping[str, Array], metadata: Mapping[str, str], alignment: int) -> bytes:
    """The header, whose length is a multiple of `alignment`."""
    table: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        table[name] = {"dtype": _TYPE_NAMES[array.dtype], "shape": array.shape, "data_offsets": (start, end)}
    text = json_bytes(table)
    length = -(-(LENGTH_BYTES + len(text)) // alignment) * alignment - LENGTH_BYTES
    return length.to_bytes(LENGTH_BYTES, "little") + text.ljust(length)


def json_bytes(table: Any) -> bytes:
    """JSON as in the headers of files."""
    return json.dumps(table, separators=(",", ":")).encode()


def type_name(dtype: np.dtype[Any]) -> str:
    """The name of a type in files."""
    return _TYPE_NAMES[dtype]


def _bytes_of(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


@contextmanager
def digesting(arrays: Mapping[str, Array], metadata: Mapping[str, str], threads: int) -> Iterator[Callable[[], str]]:
    """The digest of the content of a file, computed by other threads: SHA-256 of the metadata and the table of tensors
    as JSON, followed by the SHA-256 of all data in pieces."""
    ordered = sorted(arrays.items())
    table = [[name, str(array.dtype), *array.shape] for name, array in ordered]
    digest = hashlib.sha256(json.dumps([dict(sorted(metadata.items())), table]).encode())
    with ThreadPoolExecutor(max(1, min(MAX_THREADS, threads))) as pool:
        parts = [pool.submit(_sha256, piece) for piece in _pieces(array for _, array in ordered)]

        def result() -> str:
            for part in parts:
                digest.update(part.result())
            return digest.hexdigest()

        yield result


def _pieces(arrays: Iterable[Array]) -> Iterator[list[Array]]:
    """The bytes of all arrays, one after the other, in pieces of equal size, each in one or more parts."""
    piece: list[Array] = []
    room = PIECE_BYTES
    for array in arrays:
        data = _bytes_of(array)
        while len(data):
            piece.append(data[:room])
            data, room = data[room:], room - len(piece[-1])
            if not room:
                yield piece
                piece, room = [], PIECE_BYTES
    if piece:
        yield piece


def _sha256(piece: Iterable[Array]) -> bytes:
    digest = hashlib.sha256()
    for part in piece:
        digest.update(part.data)
    return digest.digest()


def _processors() -> int:
    """The number of processors of this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_metadata(path: Path, name: str) -> bool:
    """Whether a file, which may be damaged, has a header that mentions a name of metadata."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        return f'"{name}"'.encode() in file.read(min(length, path.stat().st_size))


class TensorFile:
    """A file that is open for reading; its header is checked, its data is not yet read.

    `types` and `dims` describe its tensors by name; a type that NumPy lacks keeps the name in the file.
    """

    def __init__(self, path: Path, handle: Any) -> None:
        self.path = path
        self.metadata: Mapping[str, str] = handle.metadata() or {}
        slices = {name: handle.get_slice(name) for name in handle.keys()}  # noqa: SIM118, no mapping
        self.dims = {name: tuple(part.get_shape()) for name, part in slices.items()}
        self.types = {name: TYPES.get(part.get_dtype(), part.get_dtype()) for name, part in slices.items()}
        self._handle = handle

    def read(self, name: str) -> Array:
        """Reads one tensor. Raises: CheckpointError for a type that NumPy lacks."""
        if isinstance(self.types[name], str):
            raise CheckpointError(f"{self.path}: `{name}` has the type {self.types[name]}, which cannot be read")
        array: Array = self._handle.get_tensor(name)
        return array

    def read_verified(self) -> dict[str, Array]:
        """Reads all tensors. Raises: CheckpointError if they do not agree with the digest, or if the header is written
        otherwise than `write` does."""
        with open(self.path, "rb") as file:
            header = file.read(int.from_bytes(file.read(LENGTH_BYTES), "little"))
        if json_bytes(json.loads(header)).ljust(len(header)) != header:
            raise CheckpointError(f"{self.path} is damaged: its header is not as oc.save writes it")
        metadata = {name: text for name, text in self.metadata.items() if name != DIGEST}
        arrays = {name: self.read(name) for name in self.types}
        with digesting(arrays, metadata, _processors()) as digest:
            if digest() != self.metadata.get(DIGEST):
                raise CheckpointError(f"{self.path} is damaged: its content does not have the digest in its header")
        return arrays


@contextmanager
def opened(path: Path) -> Iterator[TensorFile]:
    """Opens a file and checks its header. Raises: CheckpointError for any problem with it."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise CheckpointError(f"{path} is not a file")
        with safe_open(path, framework="np") as handle:
            yield TensorFile(path, handle)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from None
    except SafetensorError as error:
        raise CheckpointError(f"{path} is no file of safetensors, or it is damaged: {error}") from None
