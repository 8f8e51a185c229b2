"""Batches of datasets of Hugging Face, whose package is not locked."""

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

datasets = pytest.importorskip("datasets")
XS = np.arange(20, dtype="float32").reshape(10, 2)
TS = np.arange(10)


def rows_of(data: train.Batches) -> list[tuple[Any, ...]]:
    """Each row, but those of weight 0."""
    assert data.weight is not None
    rows = [zip(*(feed[t].tolist() for t in (*data.placeholders, data.weight)), strict=True) for feed in data]
    return [row[:-1] for batch in rows for row in batch if row[-1]]


TABLE = datasets.Dataset.from_dict({"x": XS, "t": TS, "name": [str(t) for t in TS]})
ROWS = list(zip(XS.tolist(), TS.tolist(), strict=True))


@pytest.mark.parametrize(
    "source", [TABLE, TABLE.with_format("torch"), TABLE.to_iterable_dataset(), TABLE.select_columns(["t", "x"])]
)
def test_every_row_occurs_once(source: Any) -> None:
    x, t, weight = (oc.placeholder(name, b=[4], o=sizes) for name, sizes in (("x", [2]), ("t", []), ("weight", [])))
    assert rows_of(train.batches(source, 4, inputs={x: "x", t: "t"}, weight=weight)) == ROWS


def test_placeholders_of_columns() -> None:
    data = train.batches(TABLE, 4, shuffle=1, prefetch=1)
    assert [t.label for t in data.placeholders] == ["x", "t"] and sorted(rows_of(data)) == ROWS
    images = datasets.Dataset.from_dict({"image": list(np.zeros((5, 2, 3), "uint8")), "label": [0] * 5})
    assert [t.dims for t in train.batches(images, 5).placeholders] == [(5, 2, 3), (5,)]


def test_errors() -> None:
    for source, message in [
        (datasets.DatasetDict(train=TABLE), "mapping of datasets, `train`: choose one of them"),
        (TABLE.select([]), "there are no rows"),
    ]:
        with pytest.raises(oc.DataError, match=message):
            train.batches(source, 4)
