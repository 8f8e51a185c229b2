"""Every layer and network of `ocannl.nn` beside PyTorch's: values and gradients in training, three training steps,
running statistics, and values in inference.

Each file `*layer_rows.py` adds a table of rows.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from compare_layers import compare
from torch_layer import Layer
from usable_backends import usable_backends

import ocannl as oc
from ocannl import nn

TABLES = [import_module(path.stem) for path in sorted(Path(__file__).parent.glob("*layer_rows.py"))]
ROWS: list[Layer] = [row for table in TABLES for row in table.ROWS]


@pytest.mark.sample(covering=("row number", "number backend"))
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("backend", usable_backends())
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_layers_are_those_of_torch(row: Layer, backend: str, number: int) -> None:
    compare(row, row.sizes[number], backend)


def test_every_layer_is_compared() -> None:
    compared = {row.name.split()[0].rstrip(",") for row in ROWS}
    compared_elsewhere = {"Decoder", "KeyValueCache", "dropout"}  # compared elsewhere
    functions = {name for name in nn.__all__ if name.endswith("_layout")}
    parts = {"alibi", "causal_mask", "padding_mask", "positions_of", "window_mask"}  # of rows of attention
    assert set(nn.__all__) - compared == compared_elsewhere | functions | parts


def test_dropout_is_off_in_inference() -> None:
    x = oc.tensor(np.ones((4, 1000), "float32"), batch_axes=1)
    y = nn.dropout(rate=0.25)(x)
    np.testing.assert_array_equal(oc.evaluate(y), np.ones((4, 1000)))
    with oc.training(True):
        kept = oc.evaluate(y)
    assert set(np.unique(kept)) == {np.float32(0.0), np.float32(1 / 0.75)}
    assert abs(kept.mean() - 1) < 0.05
