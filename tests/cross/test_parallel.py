"""Data-parallel training equals training with all batches in one context."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.train.reduction_tree import reduction_tree


@oc.op
def net(x, *, hidden):
    w = oc.param()
    b = oc.param(0.0, o=[hidden])
    v = oc.param()
    return v @ oc.relu(w @ x + b)


def model(size: int) -> tuple[oc.Tensor, oc.Tensor, oc.Tensor]:
    """A loss that is the mean over a batch of the given size, and its placeholders."""
    x, t = oc.placeholder("x", b=[size], o=[5]), oc.placeholder("t", b=[size], o=[2])
    return (((net(hidden=6)(x) - t) ** 2).sum() * (1 / size)).with_label("loss"), x, t


def data(steps: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(steps, size, 5)), rng.normal(size=(steps, size, 2))


@pytest.mark.parametrize(("count", "stages"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (13, 4)])
def test_reduction_tree_is_complete_and_shallow(count: int, stages: int) -> None:
    has = [{n} for n in range(count)]
    depth = [0] * count
    for target, source in reduction_tree(count):
        assert not has[target] & has[source]
        has[target] |= has[source]
        depth[target] = max(depth[target], depth[source]) + 1
    assert has[0] == set(range(count)) and depth[0] == stages


@pytest.mark.parametrize("queue", ["inline", "threaded"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_parameters_equal_those_of_a_single_context(backend: str, queue: str, count: int) -> None:
    steps, shard = 6, 4
    xs, ts = data(steps, shard * count)

    loss, x, t = model(shard * count)
    alone = oc.Context(backend)
    alone.init(loss)
    step = alone.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.05, momentum=0.9)))
    wanted = []
    for n in range(steps):
        alone[x], alone[t] = xs[n], ts[n]
        step()
        wanted.append(alone[loss].item())

    small, y, u = model(shard)
    contexts = [oc.Context(backend, device=n, queue=queue) for n in range(count)]
    contexts[0].init(small)
    for p, q in zip(small.params.values(), loss.params.values(), strict=True):
        fresh = oc.Context(backend)
        fresh.init(loss)
        contexts[0][p] = fresh[q]
    parallel = train.DataParallel(contexts, small, train.sgd(small, 0.05, momentum=0.9))
    shards = [
        {y: xs[n, d * shard : (d + 1) * shard], u: ts[n, d * shard : (d + 1) * shard]}
        for n in range(steps)
        for d in range(count)
    ]
    losses = list(parallel.each(shards))
    np.testing.assert_allclose([step_losses.mean() for step_losses in losses], wanted, rtol=1e-5)
    for p, q in zip(small.params.values(), loss.params.values(), strict=True):
        for ctx in contexts:
            np.testing.assert_allclose(ctx[p], alone[q], rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(ctx[p], contexts[0][p])


def test_incomplete_last_step_averages_its_batches(backend: str) -> None:
    loss, x, t = model(4)
    xs, ts = data(2, 4)
    contexts = [oc.Context(backend, device=n) for n in range(3)]
    parallel = train.DataParallel(contexts, loss, train.sgd(loss, 0.05))
    feeds = [{x: xs[n], t: ts[n]} for n in range(2)]
    before = {name: contexts[2][p] for name, p in loss.params.items()}
    slopes = []
    for feed in feeds:
        ctx = oc.Context(backend)
        for name, p in loss.params.items():
            ctx[p] = before[name]
        for key, value in feed.items():
            ctx[key] = value
        ctx.compile(train.grad_update(loss), keep=[p.grad for p in loss.params.values()])()
        slopes.append({name: ctx[p.grad] for name, p in loss.params.items()})
    (losses,) = parallel.each(feeds)
    assert losses.shape == (2,)
    for name, p in loss.params.items():
        wanted = before[name] - 0.05 * (slopes[0][name] + slopes[1][name]) / 2
        for ctx in contexts:
            np.testing.assert_allclose(ctx[p], wanted, rtol=1e-5, atol=1e-6)


def test_gradients_can_be_summed(backend: str) -> None:
    w, x = oc.param("w", init=[1.0, 2.0]), oc.placeholder("x", o=[2])
    loss = (w * x).sum()
    contexts = [oc.Context(backend, device=n) for n in range(3)]
    parallel = train.DataParallel(contexts, loss, train.sgd(loss, 1.0), mean=False)
    parallel({x: [1, 0]}, {x: [2, 0]}, {x: [4, 1]})
    assert [ctx[w].tolist() for ctx in contexts] == [[-6, 1]] * 3


@pytest.mark.parametrize("count", [0, 3])
def test_number_of_batches_is_limited_by_contexts(backend: str, count: int) -> None:
    loss, x, t = model(4)
    parallel = train.DataParallel([oc.Context(backend, device=n) for n in range(2)], loss, train.sgd(loss, 0.05))
    with pytest.raises(oc.CodeError, match=f"a step takes 1 to 2 batches, one for each context, not {count}"):
        parallel(*[{x: 0, t: 0}] * count)


def test_contexts_must_be_different(backend: str) -> None:
    loss, *_ = model(4)
    ctx = oc.Context(backend)
    for contexts in ([], [ctx, ctx]):
        with pytest.raises(oc.CodeError, match="at least one context, and each only once"):
            train.DataParallel(contexts, loss, train.sgd(loss, 0.05))


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("mean", [False, True])
def test_all_reduce(backend: str, count: int, mean: bool) -> None:
    x, y = oc.placeholder("x", o=[3]), oc.placeholder("y")
    contexts = [oc.Context(backend, device=n, queue="threaded") for n in range(count)]
    for n, ctx in enumerate(contexts):
        ctx[x], ctx[y] = np.array([1, 2, 3]) * 2.0**n, n
    for step in train.all_reduce([x, y], contexts, mean=mean):
        step()
    by = count if mean else 1
    for ctx in contexts:
        np.testing.assert_allclose(ctx[x], np.array([1, 2, 3]) * (2.0**count - 1) / by)
        np.testing.assert_allclose(ctx[y], count * (count - 1) / 2 / by)


def test_code_is_compiled_once_for_all_contexts(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loss, *_ = model(7)
    contexts = [oc.Context(backend, device=n) for n in range(4)]
    compiled = []
    kind = type(contexts[0].backend)
    original = kind.compile
    monkeypatch.setattr(kind, "compile", lambda self, procs: (compiled.extend(procs), original(self, procs))[1])
    with oc.settings(cache=False):
        train.DataParallel(contexts, loss, train.sgd(loss, 0.0501))
    if backend != "numpy":  # which generates no code
        assert sorted(proc.name for proc in compiled) == ["loss_grad_update", "loss_sgd_update"]


@pytest.mark.parametrize("loss", [3, oc.tensor([1.0])])
def test_loss_without_gradient_is_rejected(loss: object) -> None:
    with pytest.raises(oc.CodeError, match="has no gradient"):
        train.DataParallel([oc.Context("numpy")], loss, oc.seq())  # type: ignore[arg-type]
