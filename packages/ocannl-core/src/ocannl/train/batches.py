"""Batches of training data for placeholders: shuffled, weighted, padded to one size, and computed ahead.

    data = train.batches({"images": images, "labels": labels}, 50, shuffle=0)
    x, t = data.placeholders
    loss = train.weighted_mean(oc.cross_entropy(model(x), t), data.weight)

All batches have the same size, so that one routine takes them: the rows that the last one lacks have weight 0.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal

import numpy as np

from ocannl.base import training_names
from ocannl.base.errors import ArgumentError, DataError, OcannlError
from ocannl.base.spelling import with_answers
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.precision import float32
from ocannl.lang.core.leaf_constructors import placeholder
from ocannl.lang.core.literals import as_array, to_supported
from ocannl.lang.core.tensor import Tensor
from ocannl.train.feed import Feed
from ocannl.train.prefetch import prefetched
from ocannl.train.sources import Array, BatchStream, Columns, Key, Rows, columns_of, is_text, numbers, source_of

Transform = Callable[..., Mapping[Any, Any]]
"""A function of the arrays of a batch, and of a random generator if it takes a second argument."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Arrays for placeholders, and the number of their rows that are data."""

    feed: Feed
    rows: int


@dataclass(frozen=True, slots=True)
class Weighting:
    """The weights of rows: numbers by row or by column, times those of classes by column."""

    samples: Array | Key | None
    classes: Mapping[Key, Array]

    def weights(self, columns: Columns, rows: Array | None, count: int) -> Array:
        weights = np.ones(count, np.float32)
        if isinstance(self.samples, np.ndarray):
            weights = weights * self.samples[rows]
        elif self.samples is not None:
            weights = weights * _column(columns, self.samples)
        for key, by_class in self.classes.items():
            weights = weights * by_class[_column(columns, key)]
        return weights.astype(np.float32)


def batches(
    source: Any, size: int | None = None, *, inputs: Mapping[Tensor, Key] | None = None, weight: Tensor | None = None,
    sample_weights: Any = None, class_weights: Mapping[Any, Any] | None = None, shuffle: int | None = None,
    map: Transform | None = None, prefetch: int = 0, partial: Literal["mask", "drop"] = "mask",
) -> Batches:  # fmt: skip
    """Batches of `size` rows of a source, for the placeholders of a model.

    `source` is a mapping of arrays, which may be mapped from files, by name or by placeholder; a dataset of Hugging
    Face or PyTorch, or a list of samples; or a generator function, an iterator, or an iterable such as a `DataLoader`.
    With `size`, the items of the latter are samples, otherwise batches. A sample or batch is a mapping, a tuple, or an
    array.

    `inputs` maps placeholders to keys: names of columns, or positions in a tuple. Without it, placeholders are created
    for the names of a mapping or table: `data.placeholders`, or `data["images"]`. `weight` is a placeholder for the
    weights of rows, which is also created then: `data.weight`. The weights are 1, times `sample_weights`, an array with
    a number for each row or the key of a column, times `class_weights`, a mapping from keys of class ids to a number
    for each class. The last batch may have fewer rows: it is padded with rows of weight 0, or left out if `partial` is
    "drop".

    `shuffle` is a seed of the order of rows, a new one in each epoch. `map` receives the arrays of a batch by key, and
    returns them changed; if it takes a second argument, this is a generator of NumPy, whose numbers depend on `shuffle`
    and the position alone. Texts and rows of different sizes are for `map`. `prefetch` batches are computed ahead by a
    thread.

    Raises: DataError for empty, ragged or unequally long data, and for an exception of the source, which is its cause.
    """
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise ArgumentError(f"train.batches: `size` is an integer of at least 1, not {size!r}"[:200])
    if partial not in ("mask", "drop"):
        raise ArgumentError(f'train.batches: `partial` is "mask" or "drop", not {partial!r}'[:200])
    if isinstance(prefetch, bool) or not isinstance(prefetch, int) or prefetch < 0:
        raise ArgumentError(f"train.batches: `prefetch` is a number of batches, not {prefetch!r}"[:200])
    if isinstance(shuffle, bool):
        raise ArgumentError("train.batches: `shuffle` is a seed, as in shuffle=0; None keeps the order of rows")
    data = source_of(source, size)
    if isinstance(data, BatchStream) and shuffle is not None:
        raise ArgumentError("train.batches: a stream cannot be shuffled; shuffle where its items are made")
    if not isinstance(data, BatchStream) and size is None:
        raise ArgumentError("train.batches: give the number of rows in a batch as the second argument")
    classes = {key: np.asarray(weights, np.float32) for key, weights in (class_weights or {}).items()}
    weighting = Weighting(_sample_weights(sample_weights, data), classes)
    result = Batches(data, size, dict(inputs or {}), weight, weighting)
    result.seed, result.map, result.prefetch, result.partial = shuffle, map, prefetch, partial
    if inputs is None:
        result.create_placeholders()
    result.check_partial()
    return result


@with_answers(training_names.BATCHES)
@public_class()
class Batches:
    """Batches of data. Iteration yields the rest of an epoch, as mappings from placeholders to arrays.

    `position` is the epoch and the number of batches of it that were yielded. It can be saved and set.
    """

    def __init__(
        self, source: Rows | BatchStream, size: int | None, inputs: dict[Tensor, Key], weight: Tensor | None,
        weighting: Weighting,
    ) -> None:  # fmt: skip
        self.source, self.size, self.inputs, self.weight, self.weighting = source, size, inputs, weight, weighting
        self.seed: int | None = None
        self.map: Transform | None = None
        self.prefetch = 0
        self.partial = "mask"
        self._epoch = self._batch = 0

    # --- placeholders ------------------------------------------------------------------------------------------------

    @property
    def placeholders(self) -> tuple[Tensor, ...]:
        """The placeholders for columns, without that for weights."""
        return tuple(self.inputs)

    def __getitem__(self, name: Key) -> Tensor:
        for tensor, key in self.inputs.items():
            if key == name:
                return tensor
        raise ArgumentError(f"the batches have no {name!r}, but {', '.join(repr(key) for key in self.inputs.values())}")

    def create_placeholders(self) -> None:
        """Creates placeholders for the names of a mapping or table, and uses those that a mapping has as keys."""
        if isinstance(self.source, BatchStream):
            return  # the batches of a stream are mappings from placeholders
        columns = self._mapped(self.source.take(np.zeros(1, int)), 0, 0)
        sample = {key: array for key, array in columns.items() if not is_text(array)} or columns
        if all(isinstance(key, Tensor) for key in sample):
            self.inputs = {key: key for key in sample if isinstance(key, Tensor)}
            return
        for key, array in sample.items():
            if not isinstance(key, str):
                raise ArgumentError("train.batches: tell which placeholder takes which part, as in inputs={x: 0, t: 1}")
            kind = to_supported(numbers(array, key))[1]
            self.inputs[placeholder(key, batch=[self.size], input=[], output=list(array.shape[1:]), dtype=kind)] = key
        if self.weight is None:
            self.weight = placeholder("weight", batch=[self.size], input=[], output=[], dtype=float32)

    def of(self, source: Any) -> Batches:
        """Batches of other data for the same placeholders, in order, such as those of a validation set."""
        result = Batches(source_of(source, self.size), self.size, self.inputs, self.weight, Weighting(None, {}))
        result.map, result.prefetch = self.map, self.prefetch
        result.check_partial()
        return result

    # --- size --------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of batches in an epoch. Raises: TypeError if it is not known."""
        if isinstance(self.source, BatchStream):
            if self.source.length is None:
                raise TypeError("the number of batches of this source is not known")
            return self.source.length
        assert self.size is not None
        return len(self.source) // self.size if self.partial == "drop" else -(-len(self.source) // self.size)

    @property
    def pads(self) -> bool:
        """Whether the last batch of rows is padded."""
        return self.partial == "mask" and self._last_rows > 0

    @property
    def _last_rows(self) -> int:
        """The number of rows after the last whole batch, if rows can be counted."""
        return 0 if isinstance(self.source, BatchStream) or self.size is None else len(self.source) % self.size

    def check_partial(self) -> None:
        """Raises: DataError if all batches are left out, or if the rows that pad the last one cannot be told."""
        if isinstance(self.source, BatchStream):
            return
        if not len(self):
            raise DataError(f"{len(self.source)} rows make no batch of {self.size}")
        if self.pads and self.weight is None:
            raise self._no_weight(self._last_rows)

    def _no_weight(self, rows: int) -> DataError:
        return DataError(
            f"the last batch has {rows} of {self.size} rows"
            "\n  fix  give a placeholder `weight=` for the weights of rows, which are 0 in those that are missing, or "
            'leave the batch out by partial="drop"'
        )

    # --- iteration ---------------------------------------------------------------------------------------------------

    @property
    def position(self) -> dict[str, int]:
        """The epoch, and the number of its batches that were yielded; set it to continue there."""
        return {"epoch": self._epoch, "batch": self._batch}

    @position.setter
    def position(self, position: Mapping[str, int]) -> None:
        match position:
            case {"epoch": int(epoch), "batch": int(batch)} if min(epoch, batch) >= 0:
                self._epoch, self._batch = epoch, batch
            case _:
                raise ArgumentError(f"a position of batches is {{'epoch': 0, 'batch': 0}}, not {position!r}"[:200])

    def state(self) -> dict[str, int]:
        """The position, as `oc.save` takes it."""
        return self.position

    def restore(self, state: Mapping[str, int]) -> None:
        self.position = state

    def __iter__(self) -> Iterator[Feed]:
        with closing(self.counted()) as items:
            for batch in items:
                yield batch.feed

    def rewound(self) -> Generator[Batch]:
        """All batches of the first epoch, without a change of the position."""
        return self._ahead(0, 0)

    def counted(self) -> Generator[Batch]:
        """The rest of the epoch, with the number of rows of each batch."""
        with closing(self._ahead(self._epoch, self._batch)) as items:
            for batch in items:
                self._batch += 1
                yield batch
        self._epoch, self._batch = self._epoch + 1, 0

    def _ahead(self, epoch: int, start: int) -> Generator[Batch]:
        items = self._checked(epoch, start)
        return prefetched(items, self.prefetch) if self.prefetch else items

    def _checked(self, epoch: int, start: int) -> Generator[Batch]:
        """The batches from number `start` on; exceptions of the source and of `map` are causes of a DataError."""
        number = start
        produce = self._stream_batches if isinstance(self.source, BatchStream) else self._row_batches
        with closing(produce(epoch, start)) as items:
            while True:
                try:
                    batch = next(items, None)
                except OcannlError:
                    raise
                except Exception as error:  # of user code
                    problem = f"{type(error).__name__}: {error}"
                    raise DataError(f"batch {number} of epoch {epoch} cannot be read: {problem}"[:500]) from error
                if batch is None:
                    return
                number += 1
                yield batch

    def _row_batches(self, epoch: int, start: int) -> Generator[Batch]:
        assert not isinstance(self.source, BatchStream) and self.size is not None
        count = len(self.source)
        order = np.arange(count) if self.seed is None else np.random.default_rng([self.seed, epoch]).permutation(count)
        for number in range(start, len(self)):
            rows = order[number * self.size : (number + 1) * self.size]
            yield self._batch_of(self._mapped(self.source.take(rows), epoch, number), rows)

    def _stream_batches(self, epoch: int, start: int) -> Generator[Batch]:
        assert isinstance(self.source, BatchStream)
        with closing(self.source.start()) as items:
            for number, columns in enumerate(items):
                if number >= start and not (self.partial == "drop" and _row_count(columns) < (self.size or 0)):
                    yield self._batch_of(self._mapped(columns, epoch, number), None)

    def _batch_of(self, columns: Columns, rows: Array | None) -> Batch:
        inputs = self.inputs or {key: key for key in columns if isinstance(key, Tensor)}
        if not inputs:
            raise ArgumentError("train.batches: tell which placeholder takes which part, as in inputs={x: 0, t: 1}")
        count = _row_count(columns)
        self.size = size = self.size or count
        if count > size:
            raise DataError(f"a batch has {count} rows, more than {size}")
        if count < size and self.weight is None:
            raise self._no_weight(count)
        feed = {tensor: _padded(numbers(_column(columns, key), key), size) for tensor, key in inputs.items()}
        if self.weight is not None:
            weights = np.zeros(size, np.float32)
            weights[:count] = self.weighting.weights(columns, rows, count)
            feed[self.weight] = weights
        return Batch(feed, count)

    def _mapped(self, columns: Columns, epoch: int, number: int) -> Columns:
        if self.map is None:
            return columns
        generators = [np.random.default_rng([self.seed or 0, epoch, number])] if _takes_generator(self.map) else []
        return columns_of(self.map({**columns}, *generators))


def _takes_generator(function: Transform) -> bool:
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        return False  # a built-in function
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters) > 1


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """The mean of values over a batch with a weight for each row: the sum of weighted values by the sum of weights."""
    result: Tensor = (values * weight).sum() / (0.0 * values + weight).sum()
    return result


def _row_count(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _column(columns: Columns, key: Key) -> Array:
    if key not in columns:
        raise DataError(f"a batch has no {key!r}, but {', '.join(repr(k) for k in columns)}"[:300])
    return columns[key]


def _padded(array: Array, size: int) -> Array:
    """The array with its last row repeated up to `size` rows, so that a padded batch has no unusual values."""
    return array if len(array) == size else np.concatenate([array, np.repeat(array[-1:], size - len(array), axis=0)])


def _sample_weights(weights: Any, source: Rows | BatchStream) -> Array | Key | None:
    if weights is None or isinstance(weights, str | int):
        return weights
    array = as_array(weights)
    if isinstance(source, BatchStream) or array.shape != (len(source),):
        count = "the key of a column" if isinstance(source, BatchStream) else f"{len(source)} numbers, one for each row"
        raise DataError(f"train.batches: `sample_weights` are {count}, not an array with the sizes {array.shape}")
    return array
