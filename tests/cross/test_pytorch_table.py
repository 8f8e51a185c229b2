"""The page that shows ocannl beside PyTorch: both columns of the rows of layers and functions have equal values and
gradients. Rows about training and files are run by the program of the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
from compare_layers import compare
from sequence_layer_rows import cross, memory_of
from torch_layer import ChannelsLast, Layer, torch
from torch_sequences import Unpacked

import ocannl as oc
from ocannl import nn

F = torch.nn.functional
PAGE = (Path(__file__).parents[2] / "docs" / "from-pytorch.md").read_text(encoding="utf-8")
CELL = r"`((?:[^`|\\]|\\\|)+)`"
ROWS = dict(re.findall(rf"^\| {CELL}[^|]*\|.*\| {CELL} \|$", PAGE[: PAGE.index("## Defaults")], re.MULTILINE))
LAYERS = {theirs: ours for theirs, ours in ROWS.items() if theirs.startswith("torch.nn.")}
FUNCTIONS = {theirs: ours for theirs, ours in ROWS.items() if theirs.startswith("F.")}

SEQUENCE = (2, 5, 64)  # batch, steps, features
IMAGES = ("Conv", "Pool", "2d")
SIZES = {"Conv2d(3": (2, 6, 6, 3), "Linear": (3, 64), "Norm(": (3, 64), "GroupNorm": (2, 4, 4, 64)}
"""Sizes of operands, by parts of the names of modules; the last that fits. Other images have 64 channels."""


def sizes_of(name: str) -> tuple[int, ...]:
    if "Embedding" in name:
        return (2, 7)
    fitting = [sizes for part, sizes in SIZES.items() if part in name]
    return fitting[-1] if fitting else (2, 4, 4, 64) if any(part in name for part in IMAGES) else SEQUENCE


def steps_first(module: Any, x: Any) -> Any:
    """Applies a module of sequences, whose first axis is that of the steps."""
    x = x.transpose(0, 1)
    kind = type(module).__name__
    if kind == "MultiheadAttention":
        y = module(x, x, x, need_weights=False)
    elif kind == "TransformerDecoderLayer":
        future = torch.nn.Transformer.generate_square_subsequent_mask(len(x), dtype=x.dtype)
        y = module(x, memory_of(x.transpose(0, 1)).transpose(0, 1), tgt_mask=future)
    else:
        y = module(x)
    return (y[0] if isinstance(y, tuple) else y).transpose(0, 1)


class Flat(torch.nn.Module):  # type: ignore[misc]
    """A global pool, without the axes of size 1."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any) -> Any:
        return self.module(x).flatten(1)


def module_of(code: str) -> Any:
    module = eval(code, {"torch": torch})
    for part in module.modules():  # dropout is random
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
        if isinstance(part, torch.nn.MultiheadAttention):
            part.dropout = 0.0
    if "Adaptive" in code:
        return ChannelsLast(Flat(module))
    if len(sizes_of(code)) == 4:
        return ChannelsLast(module)
    return Unpacked(module, steps_first) if sizes_of(code) == SEQUENCE else module


@oc.op
def applied(x, *, code):
    return eval(code, {"oc": oc, "nn": nn, "x": x})


def block_of(code: str) -> Any:
    block = applied(code=code) if "(x" in code else eval(code, {"nn": nn})
    return cross(layer=eval(code[:-1] + ', label="layer")', {"nn": nn})) if "decoder" in code else block


def test_the_table_has_rows() -> None:
    assert len(LAYERS) >= 20 and len(FUNCTIONS) >= 3


@pytest.mark.sample(10)  # the modules are compared by test_torch_layers.py as well
@pytest.mark.parametrize("theirs", [row for row in LAYERS if "Dropout" not in row and "Flatten" not in row])
def test_layers_are_equal(theirs: str) -> None:
    ids = 1000 if "Embedding" in theirs else 0
    sizes = sizes_of(theirs)
    batch = 2 if ids or sizes == SEQUENCE else 1
    row = Layer(theirs, lambda: block_of(LAYERS[theirs]), lambda _: module_of(theirs), (sizes,), ids=ids, batch=batch)
    compare(row, sizes, "numpy")


@pytest.mark.parametrize("theirs", FUNCTIONS)
def test_functions_are_equal(theirs: str) -> None:
    rng = np.random.default_rng(0)
    is_attention = "q" in theirs
    arrays: dict[str, Any] = {name: rng.normal(size=(2, 5, 3, 4)) for name in "qkv"}  # b, t|heads, size
    arrays |= {"x": rng.normal(size=(7, 5)), "y": rng.integers(0, 5, 7)}
    operands = {name: torch.tensor(array) for name, array in arrays.items()}
    operands |= {name: operands[name].transpose(1, 2) for name in "qkv"}
    expected = eval(theirs, {"F": F, **operands})
    expected = expected.transpose(1, 2) if is_attention else expected
    with oc.use_precision("float64"):
        tensors = {name: oc.tensor(array, batch_axes=2 if name in "qkv" else 1) for name, array in arrays.items()}
        result = eval(FUNCTIONS[theirs], {"oc": oc, **tensors}).numpy(oc.Context("numpy"))
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-9)
