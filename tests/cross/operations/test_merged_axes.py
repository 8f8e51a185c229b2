"""Values along merged axes, computed where they are read: values and gradients beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

torch = pytest.importorskip("torch")

SHAPES = (((3, 4), (5, 2)), ((1, 4), (5, 1)), ((7, 1), (1, 1)), ((2, 16), (3, 16)), ((0, 2), (3, 4)))
READERS: dict[str, tuple[Any, Any]] = {
    "sum": (lambda k, w: k.sum(), lambda k, w: k.sum()),
    "scaled": (lambda k, w: k * w + 1, lambda k, w: k * w + 1),
    "row sums": (lambda k, w: k.sum("ij => i"), lambda k, w: k.sum(1)),
    "column maxima": (lambda k, w: k.max("ij => j"), lambda k, w: k.amax(0)),
    "transposed": (lambda k, w: oc.einsum("ij => ji", k), lambda k, w: k.T),
    "trace": (lambda k, w: oc.einsum("ij; ij => ", k, w), lambda k, w: (k * w).sum()),
    "softmax": (lambda k, w: oc.softmax(k, "ij => i"), lambda k, w: torch.softmax(k, 1)),
    "product": (lambda k, w: oc.einsum("ij; kj => ik", k, w), lambda k, w: k @ w.T),
    "twice": (lambda k, w: k * w + k.sum(), lambda k, w: k * w + k.sum()),
    "slice": (lambda k, w: oc.concat("a^b,c => a,c", k, a=1), lambda k, w: k[:1]),
    "padded slice": (
        lambda k, w: oc.concat("a^b,c => a^40,c", k, a=1),
        lambda k, w: torch.nn.functional.pad(k[:1], (0, 0, 0, 40)),
    ),
    "padded": (
        lambda k, w: oc.concat("a,b => a^10,b", oc.tanh(k)),
        lambda k, w: torch.nn.functional.pad(torch.tanh(k), (0, 0, 0, 10)),
    ),
    "row sums of a slice": (lambda k, w: oc.concat("a^b,c => a", k, a=1), lambda k, w: k[:1].sum(1)),
    "flipped": (lambda k, w: oc.flip(k, "i,j => i") + k, lambda k, w: k.flip(1) + k),
}


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("name", READERS)
def test_values_and_gradients(name: str, shapes: tuple[tuple[int, int], ...], ctx: oc.Context) -> None:
    random = np.random.default_rng(0)
    data = [random.uniform(-1, 1, shape) for shape in shapes]
    weight = random.uniform(-1, 1, [m * n for m, n in zip(*shapes, strict=True)])
    if not weight.size and ("slice" in name or name in ("column maxima", "softmax")):
        pytest.skip("a slice or the maximum of no cells")
    ours, theirs = READERS[name]
    a, b = (oc.param(label, x, dtype="float64") for label, x in zip("ab", data, strict=True))
    y = ours(oc.kron(a, b), oc.tensor(weight))
    loss = (y * y).sum()
    ctx.init(loss)
    ctx.run(oc.seq(train.grad_update(loss), y.forward))
    leaves = [torch.tensor(x, requires_grad=True) for x in data]
    value = theirs(torch.kron(*leaves), torch.tensor(weight))
    (value * value).sum().backward()
    for actual, expected in ((y, value.detach()), (a.grad, leaves[0].grad), (b.grad, leaves[1].grad)):
        np.testing.assert_allclose(ctx[actual], expected.numpy(), rtol=1e-12, atol=1e-12)
