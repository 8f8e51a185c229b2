"""Sources of training data: rows that can be read in any order, and streams.

A batch is a mapping from keys to arrays whose first axis counts rows. Keys are names of columns, positions in a tuple,
or placeholders. Arrays of texts, and arrays of objects for rows of different sizes, are for `map`, and cannot become
values of placeholders.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Protocol

import numpy as np

from ocannl.base.errors import ArgumentError, DataError, DtypeError, OcannlError
from ocannl.lang.core.literals import as_array

Array = np.ndarray[Any, Any]
Key = Hashable
Columns = Mapping[Key, Array]
"""The arrays of a batch by key."""


class Rows(Protocol):
    """Rows that can be read in any order."""

    def __len__(self) -> int: ...

    def take(self, rows: Array) -> Columns:
        """The rows with these numbers."""
        ...


@dataclass(frozen=True, slots=True)
class ArrayRows:
    """The rows of arrays, which may be mapped from files."""

    arrays: Columns

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def take(self, rows: Array) -> Columns:
        return {key: array[rows] for key, array in self.arrays.items()}


@dataclass(frozen=True, slots=True)
class DatasetRows:
    """The samples of an object with a length and `[n]`, such as a dataset of PyTorch or a list."""

    dataset: Any

    def __len__(self) -> int:
        return len(self.dataset)

    def take(self, rows: Array) -> Columns:
        return stacked([self.dataset[int(n)] for n in rows])


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a table with `column_names`, such as a dataset of Hugging Face, which takes lists of numbers."""

    table: Any

    def __len__(self) -> int:
        return len(self.table)

    def take(self, rows: Array) -> Columns:
        return columns_of(self.table[rows.tolist()])


@dataclass(frozen=True, slots=True)
class BatchStream:
    """Batches in a fixed order: `start` begins an epoch."""

    start: Callable[[], Generator[Columns]]
    length: int | None = None


def source_of(source: Any, size: int | None) -> Rows | BatchStream:
    """The rows or the stream of a source. With `size`, the items of a source that is iterated are rows, else
    batches."""
    if isinstance(source, Mapping):
        return ArrayRows(_checked_arrays(source))
    if getattr(source, "ndim", None) == 0:
        raise ArgumentError("train.batches: an array without axes has no rows")
    length = _length(source)
    if hasattr(source, "column_names") and length is not None:
        if not length:
            raise DataError("there are no rows in the data")
        return TableRows(source.with_format("numpy") if hasattr(source, "with_format") else source)
    is_loader = hasattr(source, "dataset") and hasattr(source, "batch_size")
    if is_loader and size is not None:
        raise ArgumentError("train.batches: a data loader has batches of its own size; leave `size` out")
    if size is not None and not is_loader and hasattr(source, "__getitem__") and length is not None:
        if not length:
            raise DataError("there are no rows in the data")
        return DatasetRows(source)
    if callable(source):
        begin: Callable[[], Iterable[Any]] = source
    elif isinstance(source, Iterator):
        begin = _once(source)
    elif isinstance(source, Iterable):
        begin = partial(iter, source)
    else:
        raise ArgumentError(f"train.batches takes arrays by name, a dataset, or batches, not {source!r}"[:200])
    return BatchStream(partial(_stream, begin, size), length if size is None else None)


def _length(source: Any) -> int | None:
    """The number of items of a source, if it is known: a loader of PyTorch has `__len__` even for a stream."""
    try:
        return len(source) if isinstance(source, Sized) else None
    except (TypeError, NotImplementedError):
        return None


def _once(iterator: Iterator[Any]) -> Callable[[], Iterator[Any]]:
    started = False

    def begin() -> Iterator[Any]:
        nonlocal started
        if started:
            raise DataError(
                "an iterator of batches is used up after one epoch"
                "\n  fix  pass a function that returns a new iterator, such as a generator function"
            )
        started = True
        return iterator

    return begin


def _stream(begin: Callable[[], Iterable[Any]], size: int | None) -> Generator[Columns]:
    items = iter(begin())
    try:
        while size is not None and (samples := list(islice(items, size))):
            yield stacked(samples)
        for item in items:
            yield columns_of(item)
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


# --- batches ---------------------------------------------------------------------------------------------------------


def columns_of(item: Any) -> Columns:
    """The arrays of a batch: of a mapping by its keys, of a tuple by position. Raises: DataError if lengths differ."""
    arrays = {key: _array_of(value, key) for key, value in _parts(item).items()}
    lengths = {key: array.shape[:1] for key, array in arrays.items()}
    if len(set(lengths.values())) > 1 or () in lengths.values():
        counts = ", ".join(f"{_name(key)} has {n[0] if n else 'no'}" for key, n in lengths.items())
        raise DataError(f"the arrays of a batch must have equally many rows, but {counts}")
    return arrays


def stacked(samples: Sequence[Any]) -> Columns:
    """The batch of some samples. Raises: DataError for samples of different keys."""
    parts = [_parts(sample) for sample in samples]
    for number, part in enumerate(parts):
        if part.keys() != parts[0].keys():
            raise DataError(f"sample {number} of a batch has {_names(part)}, but the first has {_names(parts[0])}")
    columns = {}
    for key in parts[0]:
        arrays = [_array_of(part[key], key) for part in parts]
        is_ragged = any(array.shape != arrays[0].shape for array in arrays)
        columns[key] = _object_array(arrays) if is_ragged else np.stack(arrays)
    return columns


def is_text(array: Array) -> bool:
    return array.dtype.kind in "US"


def numbers(array: Array, key: Key) -> Array:
    """An array for a placeholder. Raises: DataError for rows of different sizes, DtypeError for texts and objects."""
    sizes = [np.shape(row) for row in array] if array.dtype == object and array.ndim == 1 else []
    if any(sizes):
        other = next(((n, size) for n, size in enumerate(sizes) if size != sizes[0]), None)
        problem = "its rows have different sizes"
        if other is not None:
            problem = f"sample {other[0]} of a batch has the sizes {other[1]}, and the first {sizes[0]}"
        fix = "pad the samples to one size, with `map=` or before"
        raise DataError(f"{_name(key)} is ragged: {problem}\n  fix  {fix}")
    try:
        return as_array(array)
    except OcannlError as error:
        raise type(error)(f"{_name(key)}: {error}") from error


def _parts(item: Any) -> Mapping[Key, Any]:
    if isinstance(item, Mapping):
        return item
    return dict(enumerate(item)) if isinstance(item, tuple | list) else {0: item}


def _array_of(value: Any, key: Key) -> Array:
    try:
        return as_array(value)
    except DtypeError:  # texts and objects
        return np.asarray(value)
    except OcannlError as error:
        raise type(error)(f"{_name(key)}: {error}") from error
    except (TypeError, ValueError, BufferError) as error:
        if isinstance(value, Sequence):
            return _object_array(value)  # of rows of different sizes
        raise DataError(f"{_name(key)} is not an array of numbers: {error}") from error


def _object_array(rows: Sequence[Any]) -> Array:
    result = np.empty(len(rows), object)
    for n, row in enumerate(rows):
        result[n] = row
    return result


def _checked_arrays(source: Mapping[Key, Any]) -> Columns:
    if not source:
        raise DataError("there are no arrays in the data")
    datasets = [_name(key) for key, value in source.items() if hasattr(value, "column_names")]
    if datasets:
        raise DataError(f"the data is a mapping of datasets, {', '.join(datasets)}: choose one of them")
    arrays = columns_of(source)
    if not len(next(iter(arrays.values()))):
        raise DataError("there are no rows in the data")
    return arrays


def _name(key: Key) -> str:
    return f"`{getattr(key, 'label', key)}`" if not isinstance(key, int) else f"position {key}"


def _names(keys: Iterable[Key]) -> str:
    return ", ".join(map(_name, keys)) or "nothing"
