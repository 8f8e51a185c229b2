"""Optimizers take the steps of PyTorch's."""

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

torch = pytest.importorskip("torch")

CASES = [
    (train.adam, "Adam", {}),
    (train.adam, "Adam", {"weight_decay": 0.1}),
    (train.adam, "Adam", {"betas": (0.5, 0.9), "eps": 1e-3}),
    (train.adam, "Adam", {"betas": (0.0, 0.99)}),
    (train.adamw, "AdamW", {}),
    (train.adamw, "AdamW", {"weight_decay": 0.3, "betas": (0.8, 0.95)}),
]


@pytest.mark.parametrize(("kind", "tolerance"), [("float64", 1e-13), ("float32", 1e-6)])
@pytest.mark.parametrize(
    ("ours", "theirs", "settings"), CASES, ids=lambda case: getattr(case, "__name__", str(case)) if case else ""
)
def test_adam_is_that_of_torch(ours, theirs, settings, kind, tolerance, backend):
    rng = np.random.default_rng(0)
    starts = [rng.normal(size=size).astype(kind) for size in ((), (4,), (3, 2))]
    ends = [rng.normal(size=start.shape).astype(kind) for start in starts]
    params = [torch.tensor(start, requires_grad=True) for start in starts]
    optimizer = getattr(torch.optim, theirs)(params, lr=0.05, **settings)
    ws = [oc.param(f"w{n}", start) for n, start in enumerate(starts)]
    loss = sum(((w - oc.tensor(end)) ** 2).sum() for w, end in zip(ws, ends, strict=True))
    with oc.settings(cache=False):
        ctx = oc.Context(backend)
        ctx.init(loss)
        step = ctx.compile(oc.seq(train.grad_update(loss), ours(loss, 0.05, **settings)))
    for _ in range(30):
        step()
        optimizer.zero_grad()
        sum(((p - torch.tensor(end)) ** 2).sum() for p, end in zip(params, ends, strict=True)).backward()
        optimizer.step()
    for w, p in zip(ws, params, strict=True):
        np.testing.assert_allclose(ctx[w], p.detach().numpy(), rtol=tolerance, atol=tolerance)
