"""The comparison of a layer with a module of PyTorch: values and gradients in training, three training steps, running
statistics, and values in inference."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch_layer import Array, Layer, Sizes, pairs, randomized, torch

import ocannl as oc
from ocannl import train

TYPES = {"numpy": "float64"}  # float32 on other backends
CLOSE = {"float64": 1e-9, "float32": 2e-4}  # of the largest cell
STEPS = 3


def compare(row: Layer, sizes: Sizes, backend: str) -> None:
    kind = TYPES.get(backend, "float32")
    array = row.operand(sizes)
    module = randomized(row.theirs(sizes))
    x_torch = torch.tensor(array, requires_grad=not row.ids)
    slope = np.random.default_rng(2).normal(size=tuple(module(x_torch).shape))
    module = randomized(module)  # the statistics of before

    def close(ours: Array, want: Any, description: str, floor: float = 1e-3) -> None:
        want = want.detach().numpy() if isinstance(want, torch.Tensor) else want
        assert ours.shape == want.shape, description
        largest = float(np.abs(want).max(initial=floor))
        np.testing.assert_allclose(ours, want, rtol=0, atol=CLOSE[kind] * largest, err_msg=description)

    with oc.settings(cache=False), oc.use_precision(kind):
        typed = array if row.ids else array.astype(kind)
        x = oc.tensor(typed, batch_axes=row.batch, grad=not row.ids)
        block = row.ours()
        y = block(x)
        loss = (y * oc.tensor(slope.astype(kind), batch_axes=row.batch + row.more)).sum()
        ctx = oc.Context(backend)
        ctx.init(loss)
        for t, want in pairs(block, module):
            ctx[t] = want().astype(kind)
        update = [train.sgd(loss, row.rate, momentum=0.9, params=block)] if block.params else []
        kept = [t.grad for t in (x, *block.params.values()) if t.grad is not None]
        step = ctx.compile(oc.seq(train.grad_update(loss), *update), keep=[y, *kept])
    optimizer = torch.optim.SGD([*module.parameters(), x_torch.new_zeros(1)], row.rate, momentum=0.9)
    for number in range(STEPS):
        step()
        optimizer.zero_grad()
        result = module(x_torch)
        result.backward(torch.tensor(slope))
        close(ctx[y], result, f"values of step {number}")
        if number == 0 and not row.ids:
            close(ctx[x.grad], x_torch.grad, "gradient of the operand")
        gradients = [float(p.grad.abs().max()) for p in module.parameters()] if number == 0 else []
        floor = 1e-2 * max(gradients, default=0.1)  # of sums whose terms cancel, such as those of biases of keys
        for t, want in pairs(block, module) if number == 0 else ():
            if t.grad is not None:
                close(ctx[t.grad], want(grad=True), f"gradient of {t.label}", floor)
        optimizer.step()
    for t, want in pairs(block, module):
        close(ctx[t], want(), f"{t.label} after {STEPS} steps")
    close(oc.evaluate(y, ctx=ctx), module.eval()(x_torch), "values in inference")
