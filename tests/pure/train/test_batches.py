"""Batches of all kinds of sources: rows, order, weights, threads and errors."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

XS, TS = np.arange(20.0, dtype=np.float32).reshape(10, 2), np.arange(10)


def started_since(before: set[threading.Thread]) -> set[threading.Thread]:
    """The threads that have started since; counts do not tell, since threads of other tests may end at any time."""
    return set(threading.enumerate()) - before


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    if started_since(before):
        gc.collect()  # slow, and ends threads of iterators that are part of a cycle
    assert not started_since(before)


@pytest.fixture
def inputs() -> dict[oc.Tensor, str]:
    return {oc.placeholder("x", batch=[4], output=[2]): "x", oc.placeholder("t", batch=[4], output=[]): "t"}


@pytest.fixture
def weight() -> oc.Tensor:
    return oc.placeholder("weight", batch=[4], output=[])


class Table:
    """The interface of a dataset of Hugging Face."""

    column_names = ("x", "t")

    def __len__(self) -> int:
        return len(TS)

    def __getitem__(self, rows: list[int]) -> dict[str, Any]:
        assert isinstance(rows, list)
        return {"x": XS[rows].tolist(), "t": TS[rows].tolist()}


class Loader:
    """The interface of a data loader of PyTorch."""

    dataset, batch_size = TS, 4

    def __iter__(self) -> Iterator[Any]:
        return (({"x": XS[n : n + 4], "t": TS[n : n + 4]}) for n in range(0, 10, 4))


def samples() -> Iterator[dict[str, Any]]:
    return ({"x": x, "t": t} for x, t in zip(XS, TS, strict=True))


SOURCES: dict[str, tuple[Any, int | None]] = {
    "arrays": ({"x": XS, "t": TS}, 4),
    "lists": ({"x": XS.tolist(), "t": TS.tolist()}, 4),
    "table": (Table(), 4),
    "list of samples": (list(samples()), 4),
    "generator function": (samples, 4),
    "iterator of samples": (samples(), 4),
    "loader": (Loader(), None),
    "list of batches": (list(Loader()), None),
}


def rows_of(data: train.Batches) -> list[tuple[Any, ...]]:
    """Each row with its weight, in order; rows of weight 0 are left out."""
    assert data.weight is not None
    return [
        row
        for feed in data
        for row in zip(*(feed[t].tolist() for t in (*data.placeholders, data.weight)), strict=True)
        if row[-1]
    ]


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("name", SOURCES)
def test_every_row_of_a_source_occurs_once(name: str, prefetch: int, inputs: Any, weight: oc.Tensor) -> None:
    source, size = SOURCES[name]
    if isinstance(source, Iterator):
        source = samples()
    data = train.batches(source, size, inputs=inputs, weight=weight, prefetch=prefetch)
    assert rows_of(data) == [(x, t, 1.0) for x, t in zip(XS.tolist(), TS.tolist(), strict=True)]


def test_torch_loaders_and_datasets(weight: oc.Tensor, inputs: Any) -> None:
    torch = pytest.importorskip("torch")
    dataset = torch.utils.data.TensorDataset(torch.tensor(XS), torch.tensor(TS))
    keys = dict(zip(inputs, (0, 1), strict=True))
    expected = [(x, t, 1.0) for x, t in zip(XS.tolist(), TS.tolist(), strict=True)]
    loader = torch.utils.data.DataLoader(dataset, batch_size=4)
    assert rows_of(train.batches(loader, inputs=keys, weight=weight)) == expected
    assert rows_of(train.batches(dataset, 4, inputs=keys, weight=weight)) == expected


def test_torch_loaders_of_streams_have_no_known_length(weight: oc.Tensor, inputs: Any) -> None:
    torch = pytest.importorskip("torch")

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            return iter(zip(torch.tensor(XS), torch.tensor(TS), strict=True))

    loader = torch.utils.data.DataLoader(Stream(), batch_size=4)
    data = train.batches(loader, inputs=dict(zip(inputs, (0, 1), strict=True)), weight=weight)
    with pytest.raises(TypeError, match="number of batches of this source is not known"):
        len(data)
    assert rows_of(data) == [(x, t, 1.0) for x, t in zip(XS.tolist(), TS.tolist(), strict=True)]


def test_memory_maps_are_read_by_row(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", XS)
    data = train.batches({"x": np.load(tmp_path / "x.npy", mmap_mode="r"), "t": TS}, 5, shuffle=1)
    assert sorted(rows_of(data)) == [(x, t, 1.0) for x, t in zip(XS.tolist(), TS.tolist(), strict=True)]


def test_placeholders_are_created_by_name() -> None:
    data = train.batches({"x": XS, "t": TS}, 4)
    assert [str(t) for t in data.placeholders] == [str(data["x"]), str(data["t"])]
    assert [(t.label, t.dims) for t in data.placeholders] == [("x", (4, 2)), ("t", (4,))]
    assert data["t"].dtype == oc.int64 and data.weight is not None and data.weight.dims == (4,)
    assert len(data) == 3 and len(train.batches({"x": XS}, 4, partial="drop")) == 2
    with pytest.raises(oc.ArgumentError, match="the batches have no 'y', but 'x', 't'"):
        data["y"]
    second = data.of({"x": XS[:3], "t": TS[:3]})
    assert second.placeholders == data.placeholders and len(rows_of(second)) == 3


def test_orders_are_new_in_each_epoch_and_the_same_for_a_seed() -> None:
    data, again, other_seed = (train.batches({"t": TS}, 5, shuffle=seed) for seed in (3, 3, 4))
    epochs = [[row[0] for row in rows_of(data)] for _ in range(3)]
    assert [[row[0] for row in rows_of(again)] for _ in range(3)] == epochs
    assert [row[0] for row in rows_of(other_seed)] != epochs[0]
    assert len(set(map(tuple, epochs))) == 3 and all(sorted(epoch) == TS.tolist() for epoch in epochs)


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("source", [{"t": TS}, lambda: iter([{"t": TS[:4]}, {"t": TS[4:8]}, {"t": TS[6:]}])])
def test_iteration_continues_at_a_position(source: Any, prefetch: int) -> None:
    t = oc.placeholder("t", batch=[4], output=[])
    settings = {"inputs": {t: "t"}, "weight": oc.placeholder("weight", batch=[4], output=[]), "prefetch": prefetch}
    if isinstance(source, dict):
        settings |= {"size": 4, "shuffle": 0}
    data, resumed = train.batches(source, **settings), train.batches(source, **settings)
    uninterrupted = [feed[t].tolist() for _ in range(2) for feed in data]
    assert data.position == {"epoch": 2, "batch": 0}
    data.position = {"epoch": 0, "batch": 0}
    seen = []
    for feed in data:
        seen.append(feed[t].tolist())
        if len(seen) == 2:
            break
    resumed.position = data.position
    assert resumed.position == {"epoch": 0, "batch": 2}
    assert seen + [feed[t].tolist() for _ in range(2) for feed in resumed] == uninterrupted
    with pytest.raises(oc.ArgumentError, match="a position of batches"):
        data.position = {"epoch": 0}


def test_weights_of_rows_and_classes() -> None:
    by_class = {"t": np.arange(10) * 3}
    data = train.batches({"x": XS, "t": TS}, 4, sample_weights=np.arange(10) / 2, class_weights=by_class)
    weights = [feed[data.weight].tolist() for feed in data]
    assert np.concatenate(weights).tolist() == [*(n / 2 * n * 3 for n in range(10)), 0, 0]
    by_column = train.batches({"x": XS, "w": TS}, 5, sample_weights="w")
    assert np.concatenate([feed[by_column.weight] for feed in by_column]).tolist() == TS.tolist()


def test_map_changes_arrays_of_a_batch() -> None:
    data = train.batches({"x": XS, "t": TS}, 4, map=lambda batch: {"y": batch["x"].sum(axis=1), "t": batch["t"] * 2})
    assert [t.label for t in data.placeholders] == ["y", "t"]
    assert [row[:2] for row in rows_of(data)] == [(x.sum(), 2 * t) for x, t in zip(XS, TS, strict=True)]


def test_maps_draw_numbers_that_depend_on_the_position_alone() -> None:
    def noisy(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"x": batch["x"] + rng.normal(size=batch["x"].shape).astype("f4")}

    def epochs(data: train.Batches, count: int) -> list[Any]:
        return [feed[data["x"]].tolist() for _ in range(count) for feed in data]

    make = lambda seed, prefetch: train.batches({"x": XS}, 5, shuffle=seed, prefetch=prefetch, map=noisy)  # noqa: E731
    want = epochs(make(3, 0), 3)
    assert len({str(batch) for batch in want}) == 6 and epochs(make(4, 0), 1) != want[:2]
    data = make(3, 2)
    data.position = {"epoch": 1, "batch": 1}
    assert epochs(data, 2) == want[3:]
    stream = train.batches(lambda: iter([{"x": XS}]), inputs={oc.placeholder("x"): "x"}, map=noisy)
    (first,), (second,) = ([*feed.values()] for feed in (*stream, *stream))
    assert (first != second).any()


def test_maps_receive_texts_and_rows_of_different_sizes(inputs: Any) -> None:
    def padded(batch: dict[str, Any]) -> dict[str, Any]:
        ids = np.zeros((len(batch["ids"]), 3), int)
        for row, numbers in zip(ids, batch["ids"], strict=True):
            row[: len(numbers)] = numbers
        return {"ids": ids, "length": [len(text) for text in batch["text"]], "text": batch["text"]}

    columns = {"ids": [[1], [2, 3], [], [4, 5, 6]], "text": ["a", "bc", "", "def"]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    expected = [[1, 0, 0], [2, 3, 0], [0, 0, 0], [4, 5, 6]]
    for source in (columns, rows):
        ids = oc.placeholder("ids", b=[4], o=[3], dtype=oc.int64)
        length = oc.placeholder("length", b=[4], o=[], dtype=oc.int64)
        (feed,) = train.batches(source, 4, map=padded, inputs={ids: "ids", length: "length"})
        assert feed[ids].tolist() == expected and feed[length].tolist() == [1, 2, 0, 3]
    created = train.batches(columns, 4, map=padded)
    assert [t.label for t in created.placeholders] == ["ids", "length"]
    with pytest.raises(oc.DtypeError, match="`text`: an array of <U3"):
        list(train.batches(columns, 4, inputs={X: "text"}))


# --- errors ----------------------------------------------------------------------------------------------------------


def broken() -> Iterator[dict[str, Any]]:
    yield {"x": XS[:4], "t": TS[:4]}
    raise ValueError("the disk is on fire")


@pytest.mark.parametrize("prefetch", [0, 2])
def test_exceptions_of_a_source_are_causes(prefetch: int, inputs: Any) -> None:
    data = train.batches(broken, inputs=inputs, prefetch=prefetch)
    seen = 0
    with pytest.raises(oc.DataError, match="batch 1 of epoch 0 cannot be read: ValueError: the disk") as caught:
        for _ in data:
            seen += 1
    assert seen == 1 and isinstance(caught.value.__cause__, ValueError)


def test_exceptions_of_maps_are_causes() -> None:
    with pytest.raises(oc.DataError, match="batch 0 of epoch 0 cannot be read: KeyError") as caught:
        list(train.batches({"x": XS}, 5, inputs={oc.placeholder("x"): "x"}, map=lambda batch: batch["y"]))
    assert isinstance(caught.value.__cause__, KeyError)


X = oc.placeholder("x", batch=[4], output=[2])
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no arrays": (lambda: train.batches({}, 4), oc.DataError, "there are no arrays"),
    "no rows": (lambda: train.batches({"x": XS[:0]}, 4), oc.DataError, "there are no rows"),
    "no samples": (lambda: train.batches([], 4), oc.DataError, "there are no rows"),
    "other lengths": (
        lambda: train.batches({"x": XS, "t": TS[:3]}, 4), oc.DataError, "equally many rows, but `x` has 10, `t` has 3"
    ),
    "ragged arrays": (lambda: train.batches({"x": [[1, 2], [3]]}, 2), oc.DataError, "`x` is ragged: its rows"),
    "ragged samples": (
        lambda: list(train.batches(lambda: iter([XS[0], XS[0, :1]]), 2, inputs={X: 0})),
        oc.DataError, r"position 0 is ragged: sample 1 of a batch has the sizes \(1,\), and the first \(2,\)",
    ),
    "other keys": (
        lambda: list(train.batches(lambda: iter([{"x": 1}, {"y": 1}]), 2, inputs={X: "x"})),
        oc.DataError, "sample 1 of a batch has `y`, but the first has `x`",
    ),
    "text": (lambda: train.batches({"x": ["a", "b"]}, 2), oc.DtypeError, "`x`: an array of <U1"),
    "objects": (lambda: train.batches({"x": np.array([None])}, 1), oc.DtypeError, "`x`: an array of object"),
    "a partial batch": (
        lambda: train.batches({X: XS}, 4), oc.DataError, r"the last batch has 2 of 4 rows\n  fix  give a placeholder"
    ),
    "a partial batch of a stream": (
        lambda: list(train.batches([XS[:4], XS[4:6]], inputs={X: 0})), oc.DataError, "the last batch has 2 of 4 rows"
    ),
    "a larger batch": (
        lambda: list(train.batches([XS[:4], XS[:5]], inputs={X: 0})), oc.DataError, "a batch has 5 rows, more than 4"
    ),
    "no batch": (lambda: train.batches({X: XS}, 11, partial="drop"), oc.DataError, "10 rows make no batch of 11"),
    "no column": (
        lambda: list(train.batches({"x": XS}, 5, inputs={X: "y"})), oc.DataError, "a batch has no 'y', but 'x'"
    ),
    "no inputs": (lambda: list(train.batches([(XS,)])), oc.ArgumentError, r"as in inputs=\{x: 0, t: 1\}"),
    "a size of 0": (lambda: train.batches({X: XS}, 0), oc.ArgumentError, "an integer of at least 1, not 0"),
    "no size": (lambda: train.batches({X: XS}), oc.ArgumentError, "give the number of rows"),
    "a loader with a size": (lambda: train.batches(Loader(), 4), oc.ArgumentError, "batches of its own size"),
    "a shuffled stream": (lambda: train.batches(samples, 4, shuffle=0), oc.ArgumentError, "cannot be shuffled"),
    "a number": (lambda: train.batches(3, 4), oc.ArgumentError, "a dataset, or batches, not 3"),
    "an array without axes": (lambda: train.batches(np.array(3.0), 4), oc.ArgumentError, "without axes has no rows"),
    "other data without axes": (
        lambda: train.batches({X: XS}, 5).of(np.array(3.0)), oc.ArgumentError, "without axes has no rows"
    ),
    "other partial batches": (lambda: train.batches({X: XS}, 5, partial="keep"), oc.ArgumentError, '"mask" or "drop"'),
    "negative prefetch": (lambda: train.batches({X: XS}, 5, prefetch=-1), oc.ArgumentError, "a number of batches"),
    "weights of other rows": (
        lambda: train.batches({X: XS}, 5, sample_weights=[1, 2]), oc.DataError, "10 numbers, one for each row"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_unfit_data_is_refused(name: str) -> None:
    make, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        make()


def test_an_iterator_lasts_for_one_epoch(inputs: Any, weight: oc.Tensor) -> None:
    data = train.batches(samples(), 4, inputs=inputs, weight=weight)
    assert len(list(data)) == 3
    with pytest.raises(oc.DataError, match="used up after one epoch\n  fix  pass a function"):
        list(data)


# --- threads ---------------------------------------------------------------------------------------------------------


def endless() -> Iterator[Any]:
    while True:
        yield XS[:4]


def test_threads_end_when_iteration_is_left_or_collected() -> None:
    data = train.batches(endless, inputs={X: 0}, prefetch=2)
    before = set(threading.enumerate())
    for _ in data:
        break
    assert not started_since(before)
    iterator = iter(data)
    next(iterator)
    assert len(started_since(before)) == 1
    del iterator
    gc.collect()
    assert not started_since(before)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_threads_end_on_an_interrupt() -> None:
    before, seen = set(threading.enumerate()), 0
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores interrupts
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in train.batches(endless, inputs={X: 0}, prefetch=2):
                seen += 1
                if seen == 3:
                    os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, inherited)
    gc.collect()
    assert not started_since(before)


def test_a_thread_works_ahead() -> None:
    started = threading.Semaphore(0)

    def items() -> Iterator[Any]:
        for n in range(4):
            started.release()
            yield np.full((4, 2), n, np.float32)

    iterator = iter(train.batches(items, inputs={X: 0}, prefetch=2))
    next(iterator)
    assert all(started.acquire(timeout=10) for _ in range(3))  # the second and third before they are asked for
    iterator.close()  # type: ignore[attr-defined]
