"""The columns of Keras and flax on the page that shows ocannl beside PyTorch: layers are built as they are written
there, and have the sizes and the number of parameters of ocannl's; those without parameters have the same values."""

from __future__ import annotations

import importlib
import os
import re
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn

PAGE = (Path(__file__).parents[2] / "docs" / "from-pytorch.md").read_text(encoding="utf-8")
TABLE = PAGE[PAGE.index("| PyTorch | Keras") : PAGE.index("## Defaults")]
CELLS = [re.split(r"(?<!\\)\|", line)[1:-1] for line in TABLE.splitlines()[2:] if line.startswith("|")]
CODE = [[re.findall(r"`([^`]+)`", cell.replace("\\|", "|")) for cell in cells] for cells in CELLS]
ROWS = [row for row in CODE if row[3] and not re.search(r"ropout|train|save|compile", row[3][0])]
KERAS = {row[1][0]: row[3][0] for row in ROWS if row[1]}
FLAX = {row[2][0]: row[3][0] for row in ROWS if row[2]}
GRU_BIASES = 2 * 128  # that flax leaves out, since their sums with others count

FUNCTIONS = re.compile(r"rossentropy|cross_entropy|q, k, v")  # of several operands
IMAGES = re.compile(r"conv|pool|2d|batch_norm|instance_norm|group_norm|einsum")
SEQUENCES = re.compile(r"attention|rnn|gru|lstm")

def operand(ours: str) -> Any:
    rng = np.random.default_rng(0)
    if "embedding" in ours:
        return rng.integers(0, 1000, (2, 5))
    sizes = (2, 6, 6, 64) if IMAGES.search(ours) else (2, 5, 64) if SEQUENCES.search(ours) else (7, 64)
    return rng.normal(size=sizes).astype("float32")


@oc.op
def applied(x, *, code):  # type: ignore[no-untyped-def]
    return eval(code, {"oc": oc, "nn": nn, "x": x})


def run_ours(code: str, array: Any) -> tuple[Any, int]:
    """The value of ocannl's layer or function, and the number of parameters."""
    batch = 2 if SEQUENCES.search(code) or array.dtype.kind == "i" else 1
    x = oc.tensor(array, label="x", batch_axes=min(batch, array.ndim))
    y = applied(code=code)(x) if re.search(r"\bx\b", code) else eval(code, {"nn": nn})(x)
    ctx = oc.Context("numpy")
    ctx.init(y)
    value = y.numpy(ctx)
    return value, sum(prod(p.numpy(ctx).shape) for p in y.params.values())


def keras_backend() -> None:
    os.environ.setdefault("KERAS_BACKEND", "jax" if find_spec("jax") else "torch")


def test_the_table_has_rows() -> None:
    assert len(KERAS) >= 18 and len(FLAX) >= 18, (KERAS, FLAX)


def check(theirs: Any, count: int, code: str, array: Any) -> None:
    value, parameters = run_ours(code, array)
    theirs = np.asarray(theirs)
    assert value.shape == theirs.shape and parameters == count
    if not count:
        bound = 2e-3 if "norm" in code else 2e-5  # for other defaults of `eps`
        np.testing.assert_allclose(value, theirs, rtol=bound, atol=bound)


@pytest.mark.parametrize("theirs", [row for row in KERAS if not FUNCTIONS.search(row)])
def test_layers_of_keras(theirs: str) -> None:
    keras_backend()
    keras = pytest.importorskip("keras")
    array = operand(KERAS[theirs])
    layer = eval(theirs, vars(keras.layers))
    y = layer(array, array) if "Attention" in theirs else layer(array)
    count = sum(prod(weight.shape) for weight in layer.trainable_weights)
    check(keras.ops.convert_to_numpy(y), count, KERAS[theirs], array)


@pytest.mark.parametrize("theirs", [row for row in FLAX if not FUNCTIONS.search(row)])
def test_layers_of_flax(theirs: str) -> None:
    linen = pytest.importorskip("flax.linen")
    jax = importlib.import_module("jax")
    array = operand(FLAX[theirs])
    names = {"linen": linen, "jax": jax, "x": array}
    if theirs.startswith("linen.Bidirectional"):
        a, b = (linen.RNN(linen.LSTMCell(128)) for _ in range(2))
        names |= {"a": a, "b": b}
    module = eval(theirs, names)
    if not isinstance(module, linen.Module):
        check(module, 0, FLAX[theirs], array)
        return
    arguments = {"use_running_average": False} if "BatchNorm" in theirs else {}
    variables = module.init(jax.random.key(0), array, **arguments)
    y = module.apply(variables, array, **arguments, mutable=["batch_stats"])[0]
    count = sum(prod(p.shape) for p in jax.tree.leaves(variables.get("params", {})))
    check(y, count + GRU_BIASES * ("GRU" in theirs), FLAX[theirs], array)


@pytest.mark.parametrize("theirs", [row for row in (*KERAS, *FLAX) if FUNCTIONS.search(row)])
def test_functions_of_several_operands(theirs: str) -> None:
    keras_backend()
    library = pytest.importorskip("keras" if theirs in KERAS else "optax" if "optax" in theirs else "jax")
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {name: rng.normal(size=(2, 5, 3, 4)).astype("float32") for name in "qkv"}
    arrays |= {"x": rng.normal(size=(7, 5)).astype("float32"), "y": rng.integers(0, 5, 7)}
    if theirs in KERAS:
        expected = eval(theirs, vars(library.losses))(arrays["y"], arrays["x"])
    else:
        expected = eval(theirs, {library.__name__: library, **arrays})
    tensors = {name: oc.tensor(array, batch_axes=2 if name in "qkv" else 1) for name, array in arrays.items()}
    value = eval((KERAS | FLAX)[theirs], {"oc": oc, **tensors}).numpy(oc.Context("numpy"))
    np.testing.assert_allclose(value, np.asarray(expected), rtol=2e-5, atol=2e-5)
