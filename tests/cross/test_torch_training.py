"""Training steps against PyTorch, where it is installed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")


def test_sgd_is_that_of_torch(backend: str) -> None:
    rng = np.random.default_rng(0)
    start, target = rng.normal(size=4), rng.normal(size=4)
    for settings in (
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True},
        {"weight_decay": 0.1},
        {"momentum": 0.5, "weight_decay": 0.01},
    ):
        theirs = torch.tensor(start, requires_grad=True)
        optimizer = torch.optim.SGD([theirs], lr=0.05, **settings)
        w = oc.param("w", start)
        loss = ((w - oc.tensor(target)) ** 2).sum()
        with oc.settings(cache=False):
            ctx = oc.Context(backend)
            ctx.init(loss)
            step = ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.05, **settings)))
        for _ in range(5):
            step()
            optimizer.zero_grad()
            ((theirs - torch.tensor(target)) ** 2).sum().backward()
            optimizer.step()
        np.testing.assert_allclose(ctx[w], theirs.detach().numpy(), rtol=1e-6, err_msg=str(settings))
