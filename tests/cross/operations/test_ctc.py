"""The loss of connectionist temporal classification beside PyTorch's, and beside a sum over all alignments."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch_row import F, torch

import ocannl as oc
from ocannl import train

Array = np.ndarray[Any, Any]
CLOSE = {"float64": 1e-12, "float32": 1e-5}
REPEATED = np.array([[1, 1, 2], [3, 3, 3]])


def batch(numbers: object) -> oc.Tensor:
    return oc.tensor(np.array(numbers, "int32"), batch_axes=1)


def losses(backend: str, scores: Array, *arguments: Any, **settings: Any) -> tuple[Array, Array]:
    """The losses of softmax scores, and the gradient of their sum, weighted 1, 2, 3, ..."""
    w = oc.param("w", b=[len(scores)], o=list(scores.shape[1:]), dtype=str(scores.dtype))
    loss = oc.ctc_loss(oc.log_softmax(w, "...|t,v => ...|t"), *arguments, **settings)
    weights = np.arange(1, len(scores) + 1, dtype=scores.dtype)
    total = (loss * oc.tensor(weights, batch_axes=1)).sum()
    ctx = oc.Context(backend)
    ctx.init(total)
    ctx[w] = scores
    ctx.compile(train.grad_update(total), keep=[loss, w.grad])()
    return ctx[loss], ctx[w.grad]


def torch_losses(scores: Array, targets: Array, frames: list[int], labels: list[int], **settings: Any) -> list[Array]:
    x = torch.tensor(scores, requires_grad=True)
    log_probabilities = torch.log_softmax(x, 2).transpose(0, 1)
    integers = [torch.tensor(numbers) for numbers in (targets, frames, labels)]
    loss = F.ctc_loss(log_probabilities, *integers, reduction="none", **settings)
    (loss * torch.arange(1.0, len(scores) + 1, dtype=loss.dtype)).sum().backward()
    return [loss.detach().numpy(), x.grad.numpy()]


CASES: list[tuple[str, tuple[int, int, int, int], dict[str, Any]]] = [
    ("all frames and labels", (2, 6, 4, 3), {}),
    ("lengths", (3, 8, 5, 3), {"frames": [8, 7, 5], "labels": [3, 2, 1]}),
    ("another blank and no labels", (3, 8, 5, 3), {"frames": [8, 7, 5], "labels": [3, 2, 0], "blank": 2}),
    ("repeated labels", (2, 8, 5, 3), {"targets": REPEATED}),
    ("as many frames as labels", (2, 3, 7, 3), {}),
    ("one frame", (2, 1, 3, 1), {}),
    ("many frames", (2, 40, 6, 9), {}),
]


@pytest.mark.sample(covering=("name kind", "name backend"))
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(("name", "sizes", "options"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_losses_and_gradients_equal_those_of_torch(
    name: str, sizes: tuple[int, int, int, int], options: dict[str, Any], kind: str, backend: str
) -> None:
    examples, frames, classes, labels = sizes
    rng, blank = np.random.default_rng(frames), options.get("blank", 0)
    scores = rng.normal(size=(examples, frames, classes)).astype(kind)
    drawn = np.stack([rng.permutation(classes - 1)[:labels] if labels < classes else
                      rng.integers(0, classes - 1, labels) for _ in range(examples)])  # fmt: skip
    targets = options.get("targets", drawn + (drawn >= blank))
    lengths = [options.get("frames", [frames] * examples), options.get("labels", [labels] * examples)]
    arguments = map(batch, lengths if "frames" in options else [])
    got = losses(backend, scores, batch(targets), *arguments, blank=blank)
    for ours, theirs in zip(got, torch_losses(scores, targets, *lengths, blank=blank), strict=True):
        assert ours.dtype == kind
        np.testing.assert_allclose(ours, theirs, rtol=CLOSE[kind], atol=10 * CLOSE[kind])


def test_the_loss_sums_over_all_alignments(backend: str) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 4)
    target = (1, 2)
    total = 0.0
    for path in itertools.product(range(3), repeat=4):
        merged = [c for c, _ in itertools.groupby(path) if c != 0]
        total += np.prod([p[t, c] for t, c in enumerate(path)]) if tuple(merged) == target else 0.0
    loss = oc.ctc_loss(oc.tensor(np.log(p)), oc.tensor(np.array(target)))
    ctx = oc.Context(backend)
    ctx.run(loss.forward)
    np.testing.assert_allclose(ctx[loss], -np.log(total), rtol=1e-12)


@pytest.mark.slow
def test_targets_without_an_alignment_have_an_infinite_loss_or_none(backend: str) -> None:
    scores = np.random.default_rng(0).normal(size=(2, 3, 4))
    targets = batch([[1, 1, 2], [1, 2, 3]])  # the first needs four frames
    infinite, _ = losses(backend, scores, targets)
    zero, gradient = losses(backend, scores, targets, zero_infinity=True)
    assert infinite[0] == np.inf and zero[0] == 0 and infinite[1] == zero[1] > 0
    assert not gradient[0].any() and np.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda x, y: oc.ctc_loss(y, y), oc.DtypeError, "log-probabilities"),
        (lambda x, y: oc.ctc_loss(x, x), oc.DtypeError, "holds integers"),
        (lambda x, y: oc.ctc_loss(x, y, blank=-1), oc.DataError, "a class id"),
        (lambda x, y: oc.ctc_loss(x, y, blank=9).dims, oc.ShapeError, "9"),
    ],
)
def test_refusals(make: Callable[..., Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make(oc.tensor(np.zeros((2, 4, 3)), batch_axes=1), batch([[1], [2]]))
