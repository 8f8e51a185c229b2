"""Interrupted runs continue bit for bit, with shuffling, dropout, prefetch, scaling, accumulation and averages."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

BACKENDS = [row.name for row in oc.backends() if row.usable]
XS = np.random.default_rng(0).normal(size=(70, 6)).astype("float32")
TS = (XS.sum(1) > 0).astype("int64")


@oc.op
def net(x: oc.Tensor) -> oc.Tensor:
    w, b = oc.param(output=[8]), oc.param(0.0)
    return oc.param("v", output=[2]) @ oc.dropout(oc.relu(w @ x + b), 0.3)


class Interrupt(Exception):
    """Ends a run as a crash would."""


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    return request.param


def run(backend: str, path: Path | None, stop: int | None, every: int | None = None) -> dict[str, Any]:
    """The parameters and averages after 3 epochs of 5 batches; `stop` interrupts before the step of this number."""
    steps = 0

    def interrupted(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        nonlocal steps
        steps += 1
        if steps - 1 == stop:
            raise Interrupt
        return {**batch, "x": batch["x"] + rng.normal(0.0, 0.1, batch["x"].shape).astype("f4")}

    data = train.batches({"x": XS, "t": TS}, 16, shuffle=3, prefetch=0 if stop else 2, map=interrupted)
    steps = 0  # one was for the shapes
    x, t = data.placeholders
    loss = train.weighted_mean(oc.cross_entropy(net(label="net")(x), t), data.weight)
    average = train.EMA(loss, 0.9)
    plateau = train.ReduceOnPlateau(0.05, factor=0.5, patience=1, threshold=1.0)
    optimizer = oc.seq(train.clip_grad_norm(loss, 1.0), train.adamw(loss, plateau.rate), average.update)
    update = train.accumulate(loss, optimizer, 2)
    with oc.Context(backend) as ctx:
        train.fit(
            ctx, loss, update, data, epochs=3, scale=train.LossScale(8.0, interval=4), callbacks=[plateau],
            checkpoint=None if path is None else train.Checkpoints(path, every=every),
        )  # fmt: skip
        values = {**loss.params, **{f"{path}.average": t for path, t in average.averages.items()}, "rate": plateau.rate}
        return {name: ctx[t] for name, t in values.items()}


@pytest.mark.parametrize(("stop", "every"), [(7, None), (4, 3), (13, 2)])
def test_resumed_runs_equal_uninterrupted_ones(backend: str, stop: int, every: int | None, tmp_path: Path) -> None:
    expected = run(backend, None, None)
    path = tmp_path / "run.safetensors"
    with pytest.raises(oc.DataError, match="Interrupt"):
        run(backend, path, stop, every)
    seen = run(backend, path, None, every)
    assert seen.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(seen[name], value, err_msg=name)


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_resume import run
path, rng = Path(sys.argv[2]), random.Random(int(sys.argv[3]))
began = time.perf_counter()
expected = run("numpy", None, None)
seconds = time.perf_counter() - began
for _ in range(8):
    child = os.fork()
    if not child:
        run("numpy", path, None, 1)
        os._exit(0)
    time.sleep(rng.random() * seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
seen = run("numpy", path, None, 1)
assert all((seen[name] == value).all() for name, value in expected.items())
assert os.listdir(path.parent) == [path.name]
"""


@pytest.mark.slow
def test_runs_that_are_killed_equal_uninterrupted_ones(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(tmp_path / "run"), str(seed)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert not ended.returncode, f"seed {seed}: {ended.stderr}"


@pytest.mark.parametrize("kind", ["symbol", "list"])
def test_symbols_and_lists_continue_in_their_order(kind: str, tmp_path: Path) -> None:
    def losses(epochs: int, path: Path | None) -> list[float]:
        w = oc.param("w", 1.0, o=[])
        if kind == "symbol":
            batches: Any = oc.symbol("n", 0, 5)
            x = oc.tensor(XS[:5, 0], batch_axes=1)[batches]
        else:
            x = oc.placeholder("x", output=[])
            batches = [{x: value} for value in XS[:5, 0]]
        loss = (w - x) ** 2
        with oc.Context("numpy") as ctx:
            fitted = train.fit(ctx, loss, train.sgd(loss, 0.1), batches, epochs=epochs, shuffle=1, checkpoint=path)
            repr(fitted)
            return [*fitted.losses]

    path = tmp_path / "run.safetensors"
    uninterrupted = losses(4, None)
    assert losses(2, path) + losses(4, path) == uninterrupted and losses(4, path) == []


def test_checkpoints_are_written_in_the_background(tmp_path: Path) -> None:
    def fit(epochs: int, folder: Path) -> Any:
        w = oc.param("w", np.ones(100_000, "f4"))
        loss = (w * w).sum()
        checkpoints = train.Checkpoints(folder / "run", every=2, background=True)
        with oc.Context("numpy") as ctx:
            train.fit(ctx, loss, train.sgd(loss, 0.1), [{}] * 5, epochs=epochs, checkpoint=checkpoints)
            return ctx[w]

    uninterrupted = fit(4, tmp_path)
    (other := tmp_path / "other").mkdir()
    fit(2, other)
    np.testing.assert_array_equal(fit(4, other), uninterrupted)
    with pytest.raises(oc.CheckpointError, match="cannot be written"):
        fit(1, tmp_path / "none")


def test_files_of_other_runs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    for label in ("w", "v"):
        w = oc.param(label, [1.0, 2.0])
        loss = (w * w).sum()
        with oc.Context("numpy") as ctx:
            if label == "w":
                train.fit(ctx, loss, train.sgd(loss, 0.1), [{}], checkpoint=path)
                oc.save(tmp_path / "other", ctx, loss)
            else:
                with pytest.raises(oc.CheckpointError, match="missing in the file: `v`"):
                    train.fit(ctx, loss, train.sgd(loss, 0.1), [{}], checkpoint=path)
    with pytest.raises(oc.ArgumentError, match="`every` is a number of steps"):
        train.Checkpoints(path, every=0)


@pytest.mark.parametrize("stop", [3, 5])
def test_callbacks_receive_all_losses_of_a_resumed_epoch(stop: int, tmp_path: Path) -> None:
    """A checkpoint may follow the last step of an epoch, before its callbacks."""

    def fit(path: Path, stop: int | None) -> list[Sequence[float]]:
        w = oc.param("w", [1.0, 2.0])
        loss = (w * w).sum()
        epochs: list[Sequence[float]] = []

        def batches() -> Iterator[dict[str, Any]]:
            for number in range(6):
                if number == stop:
                    raise Interrupt
                yield {}
                if number == 4 and not stop:
                    return

        with oc.Context("numpy") as ctx:
            data = Repeated(batches)
            train.fit(
                ctx, loss, train.sgd(loss, 0.1), data, epochs=2, checkpoint=train.Checkpoints(path, every=1),
                callbacks=[lambda result: epochs.append(result.losses)],
            )  # fmt: skip
        return epochs

    expected = fit(tmp_path / "whole", None)
    with pytest.raises(Interrupt):
        fit(tmp_path / "parts", stop)
    assert fit(tmp_path / "parts", None) == expected
    assert [len(losses) for losses in expected] == [5, 5]


class Repeated:
    """Batches of a generator, again in each epoch."""

    def __init__(self, make: Callable[[], Iterator[dict[str, Any]]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._make()
