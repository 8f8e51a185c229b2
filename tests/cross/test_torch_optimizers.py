"""Optimizers take the steps of PyTorch's, or those of their papers in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

torch = pytest.importorskip("torch")

STEPS = 20
TOLERANCES = {"float64": 1e-12, "float32": 2e-5}
SIZES = ((), (4,), (3, 2), (2, 3))
CASES: list[tuple[Callable[..., oc.Code], str, dict[str, Any]]] = [
    (train.sgd, "SGD", {}),
    (train.sgd, "SGD", {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    (train.adam, "Adam", {}),
    (train.adam, "Adam", {"weight_decay": 0.1}),
    (train.adam, "Adam", {"betas": (0.5, 0.9), "eps": 1e-3}),
    (train.adam, "Adam", {"betas": (0.0, 0.99)}),
    (train.adamw, "AdamW", {}),
    (train.adamw, "AdamW", {"weight_decay": 0.3, "betas": (0.8, 0.95)}),
    (train.nadam, "NAdam", {}),
    (train.nadam, "NAdam", {"weight_decay": 0.1, "momentum_decay": 0.1}),
    (train.nadam, "NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    (train.rmsprop, "RMSprop", {}),
    (train.rmsprop, "RMSprop", {"alpha": 0.9, "momentum": 0.5, "weight_decay": 0.1}),
    (train.rmsprop, "RMSprop", {"centered": True, "eps": 1e-3}),
    (train.adagrad, "Adagrad", {}),
    (train.adagrad, "Adagrad", {"weight_decay": 0.1, "initial_accumulator_value": 0.5}),
]
SPELLED = {"learning_rate_decay": "lr_decay"}


@pytest.fixture(autouse=True)
def scalars_of_torch_in_double_precision() -> Iterator[None]:
    """PyTorch keeps the momentum product of NAdam in the default type."""
    kind = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(kind)


def starts_and_targets(kind: str) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(0)
    draws = [[np.asarray(rng.normal(size=size), kind) for size in SIZES] for _ in range(2)]
    return draws[0], draws[1]


def trained(
    backend: str, make: Callable[[oc.Tensor], oc.Code], starts: list[Any], targets: list[Any], steps: int = STEPS
) -> list[Any]:
    """The parameters after steps on a sum of squared differences; those with two axes map the second to the first."""
    ws = [oc.tensor(start, input_axes=start.ndim // 2, grad=True, label=f"w{n}") for n, start in enumerate(starts)]
    differences = [w - oc.tensor(target, input_axes=target.ndim // 2) for w, target in zip(ws, targets, strict=True)]
    loss = sum((d * d).sum() for d in differences)
    with oc.settings(cache=False), oc.Context(backend) as ctx:
        ctx.init(loss)
        step = ctx.compile(oc.seq(train.grad_update(loss), make(loss)))
        for _ in range(steps):
            step()
        return [ctx[w] for w in ws]


def torch_steps(optimizer: Any, params: list[Any], targets: list[Any], steps: int = STEPS) -> Iterator[None]:
    """Yields after each backward pass, before the step."""
    for _ in range(steps):
        optimizer.zero_grad()
        sum(((p - torch.tensor(t)) ** 2).sum() for p, t in zip(params, targets, strict=True)).backward()
        yield
        optimizer.step()


def assert_equal(ours: list[Any], theirs: list[Any], kind: str) -> None:
    for w, p in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(w, p, rtol=TOLERANCES[kind], atol=TOLERANCES[kind])


@pytest.mark.sample(covering=("ours settings", "ours backend", "ours kind", "kind backend"))
@pytest.mark.parametrize("kind", TOLERANCES)
@pytest.mark.parametrize(
    ("ours", "theirs", "settings"), CASES, ids=lambda case: getattr(case, "__name__", str(case)) if case else ""
)
def test_optimizers_of_torch(ours, theirs, settings, kind, backend):
    starts, targets = starts_and_targets(kind)
    params = [torch.tensor(start, requires_grad=True) for start in starts]
    for _ in torch_steps(getattr(torch.optim, theirs)(params, lr=0.05, **settings), params, targets):
        pass
    seen = trained(backend, lambda loss: ours(loss, 0.05, **settings), starts, targets)
    assert_equal(seen, [p.detach().numpy() for p in params], kind)


def test_adagrad_with_a_decaying_rate(backend):
    starts, targets = starts_and_targets("float64")
    params = [torch.tensor(start, requires_grad=True) for start in starts]
    for _ in torch_steps(torch.optim.Adagrad(params, lr=0.05, lr_decay=0.1), params, targets):
        pass
    seen = trained(backend, lambda loss: train.adagrad(loss, 0.05, learning_rate_decay=0.1), starts, targets)
    assert_equal(seen, [p.detach().numpy() for p in params], "float64")


def test_muon_is_that_of_torch_for_matrices_and_adamw_for_others(backend, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)  # which iterates in bfloat16
    starts, targets = starts_and_targets("float64")
    params = [torch.tensor(start, requires_grad=True) for start in starts]
    adamw = torch.optim.AdamW(params[:2], lr=0.01, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.1)
    for _ in torch_steps(torch.optim.Muon(params[2:], lr=0.05, weight_decay=0.1), params, targets):
        adamw.step()
        adamw.zero_grad()
    seen = trained(
        backend, lambda loss: train.muon(loss, 0.05, weight_decay=0.1, adamw_learning_rate=0.01), starts, targets
    )
    assert_equal(seen, [p.detach().numpy() for p in params], "float64")


# --- papers ----------------------------------------------------------------------------------------------------------


def lion(w: Any, target: Any, rate: float, decay: float, betas: tuple[float, float]) -> Any:
    mean = np.zeros_like(w)
    for _ in range(STEPS):
        g = 2 * (w - target)
        w = w - rate * (np.sign(betas[0] * mean + (1 - betas[0]) * g) + decay * w)
        mean = betas[1] * mean + (1 - betas[1]) * g
    return w


def lamb(w: Any, target: Any, rate: float, decay: float, betas: tuple[float, float], eps: float = 1e-6) -> Any:
    mean, square = np.zeros_like(w), np.zeros_like(w)
    for t in range(1, STEPS + 1):
        g = 2 * (w - target)
        mean, square = betas[0] * mean + (1 - betas[0]) * g, betas[1] * square + (1 - betas[1]) * g * g
        r = mean / (1 - betas[0] ** t) / (np.sqrt(square / (1 - betas[1] ** t)) + eps) + decay * w
        norms = np.linalg.norm(w), np.linalg.norm(r)
        w = w - rate * (norms[0] / norms[1] if min(norms) > 0 else 1.0) * r
    return w


@pytest.mark.parametrize("kind", TOLERANCES)
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize(("ours", "paper"), [(train.lion, lion), (train.lamb, lamb)])
def test_optimizers_of_papers(ours, paper, decay, kind, backend):
    starts, targets = starts_and_targets(kind)
    starts[1][:] = 0  # a norm of 0
    seen = trained(backend, lambda loss: ours(loss, 0.01, weight_decay=decay, betas=(0.9, 0.99)), starts, targets)
    wanted = [paper(*map(np.float64, pair), 0.01, decay, (0.9, 0.99)) for pair in zip(starts, targets, strict=True)]
    assert_equal(seen, wanted, kind)


# --- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ours", "theirs"), [(train.sgd, "SGD"), (train.adamw, "AdamW"), (train.rmsprop, "RMSprop")])
def test_groups_have_rates_and_decays_of_their_own(ours, theirs, backend):
    starts, targets = starts_and_targets("float64")
    params = [torch.tensor(start, requires_grad=True) for start in starts]
    by_group = [
        {"params": params[:1]}, {"params": params[1:2], "weight_decay": 0.0}, {"params": params[2:], "lr": 0.02}
    ]  # fmt: skip
    for _ in torch_steps(getattr(torch.optim, theirs)(by_group, lr=0.05, weight_decay=0.1), params, targets):
        pass

    def make(loss: oc.Tensor) -> oc.Code:
        return ours(loss, 0.05, weight_decay=0.1, groups=[
            {"params": loss.params["w1"], "weight_decay": 0.0},
            {"params": lambda path, p: len(p.dims) == 2, "learning_rate": 0.02},
        ])  # fmt: skip

    assert_equal(trained(backend, make, starts, targets), [p.detach().numpy() for p in params], "float64")
