"""Validation, metrics, callbacks, logs and plots of the training loop, on every usable backend."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

BACKENDS = [row.name for row in oc.backends() if row.usable]
RNG = np.random.default_rng(0)
XS = RNG.normal(size=(90, 3)).astype("float32")
TS = (XS @ np.float32([1, -2, 0.5]) > 0).astype("int64")


@pytest.fixture(params=BACKENDS)
def ctx(request: pytest.FixtureRequest) -> Iterator[oc.Context]:
    with oc.Context(request.param) as context:
        yield context


@oc.op
def linear(x: oc.Tensor) -> oc.Tensor:
    w, b = oc.param(0.0, output=[2]), oc.param(0.0)
    return w @ oc.dropout(x, 0.1) + b


def classifier(size: int = 16, **settings: Any) -> tuple[train.Batches, oc.Tensor, oc.Tensor]:
    """Batches of 70 rows, logits, and a loss."""
    data = train.batches({"x": XS[:70], "t": TS[:70]}, size, **settings)
    x, t = data.placeholders
    logits = linear()(x)
    return data, logits, train.weighted_mean(oc.cross_entropy(logits, t), data.weight)


def held_out(data: train.Batches) -> train.Batches:
    return data.of({"x": XS[70:], "t": TS[70:]})


def test_metrics_of_held_out_batches_are_those_of_inference(ctx: oc.Context) -> None:
    data, logits, loss = classifier(shuffle=0, prefetch=2)
    losses = train.average(oc.cross_entropy(logits, data["t"]))
    fitted = train.fit(
        ctx, loss, lambda loss: train.adam(loss, 0.1), data, epochs=4, validation=held_out(data),
        metrics={"accuracy": train.accuracy(logits, data["t"]), "loss": losses},
    )  # fmt: skip
    assert len(fitted.losses) == 20 and len(fitted.watched) == 4 and data.position == {"epoch": 4, "batch": 0}
    w, b = (ctx[p] for p in loss.params.values())
    scores = XS[70:] @ w.T + b
    assert fitted.watched[-1]["accuracy"] == np.mean(scores.argmax(1) == TS[70:]) > 0.8
    expected = np.mean(np.log(np.exp(scores).sum(1)) - scores[np.arange(20), TS[70:]])
    assert fitted.watched[-1]["loss"] == pytest.approx(expected, rel=1e-5)


def test_padded_rows_do_not_count(ctx: oc.Context) -> None:
    data = train.batches({"x": XS, "t": TS}, 64)
    x, t = data.placeholders
    w = oc.param("w", RNG.normal(size=(2, 3)).astype("float32"), input=[3], output=[2])
    loss = train.weighted_mean(oc.cross_entropy(w @ x, t), data.weight)
    fitted = train.fit(ctx, loss, train.sgd(loss, 0.0), data)
    scores = XS @ ctx[w].T
    losses = np.log(np.exp(scores).sum(1)) - scores[np.arange(90), TS]
    np.testing.assert_allclose(fitted.losses, [losses[:64].mean(), losses[64:].mean()], rtol=1e-5)
    bad = oc.cross_entropy(w @ x, t).mean()
    with pytest.raises(oc.CodeError, match=r"padded with rows of weight 0.*\n  fix  write loss = train.weighted_mean"):
        train.fit(ctx, bad, train.sgd(bad, 0.1), data)


def test_more_steps_than_the_history_holds(ctx: oc.Context) -> None:
    n = oc.symbol("n", 0, 7)
    w = oc.param("w", 1.0, o=[])
    loss = (w * oc.tensor(np.arange(7.0), batch_axes=1)[n]).sum()
    fitted = train.fit(ctx, loss, train.sgd(loss, 0.0), n, epochs=400)
    assert fitted.losses == [*map(float, range(7))] * 400
    again = train.fit(ctx, loss, train.sgd(loss, 0.0), n)
    assert again.losses == [*map(float, range(7))]


def test_losses_of_several_cells_are_summed(ctx: oc.Context) -> None:
    w = oc.param("w", [1.0, 2.0])
    loss = w * w
    fitted = train.fit(ctx, loss, train.sgd(loss, 0.25), [{}] * 3)
    assert fitted.losses == [5.0, 1.25, 0.3125]
    assert ctx[loss].tolist() == [0.0625, 0.25]


# --- callbacks, on one backend ---------------------------------------------------------------------------------------


@pytest.fixture
def numpy() -> Iterator[oc.Context]:
    with oc.Context("numpy") as context:
        yield context


def square() -> oc.Tensor:
    w = oc.param("w", 4.0, o=[])
    return w * w


def test_callbacks_receive_results_and_end_the_training(numpy: oc.Context) -> None:
    loss, seen = square(), []

    def stop(result: train.EpochResult) -> bool:
        seen.append((result.epoch, result.numbers))
        return result.epoch == 2

    fitted = train.fit(
        numpy, loss, train.sgd(loss, 0.25), [{}] * 2, epochs=9, callbacks=[stop, lambda result: None],
        watch=lambda: {"w": float(numpy[loss.params["w"]]), "both": [1, 2]},
    )  # fmt: skip
    assert len(fitted.losses) == 6 and "loss 16 to 0.015625, w 0.0625" in repr(fitted)
    assert seen == [
        (n, {"train_loss": (16 / 16**n + 4 / 16**n) / 2, "w": 1.0 / 4**n}) for n in range(3)
    ]


@pytest.mark.parametrize("mode", ["min", "max"])
def test_early_stopping_restores_the_best_parameters(numpy: oc.Context, mode: str) -> None:
    loss = square()
    values = iter([3.0, 2.0, 2.5, 1.9, 2.0, 2.0, 2.0])
    stopping = train.EarlyStopping("m", patience=2, min_delta=0.2, mode=mode, restore=loss)
    sign = 1 if mode == "min" else -1
    fitted = train.fit(
        numpy, loss, train.sgd(loss, 0.25), [{}], epochs=7, watch=lambda: {"m": sign * next(values)},
        callbacks=[stopping],
    )  # fmt: skip
    assert (len(fitted.losses), stopping.best, stopping.best_epoch) == (4, 2.0 * sign, 1)
    assert numpy[loss.params["w"]] == 1.0  # after 2 steps


def test_logs_hold_the_numbers_of_epochs(numpy: oc.Context, tmp_path: Path) -> None:
    loss = square()
    logs = [train.CsvLog(tmp_path / "log.csv"), train.JsonLog(tmp_path / "log.jsonl")]
    train.fit(
        numpy, loss, train.sgd(loss, 0.25), [{}], epochs=2, watch=lambda: {"m": np.float32(0.5), "a": np.ones(2)},
        callbacks=logs,
    )  # fmt: skip
    with (tmp_path / "log.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            {"epoch": "0", "train_loss": "16.0", "m": "0.5"}, {"epoch": "1", "train_loss": "4.0", "m": "0.5"}
        ]  # fmt: skip
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines[1] == {"epoch": 1, "train_loss": 4.0, "m": 0.5, "a": [1.0, 1.0]}


def test_logs_for_tensorboard(numpy: oc.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            written.append(folder)

        def add_scalar(self, *scalar: Any) -> None:
            written.append(scalar)

        def close(self) -> None:
            written.append("closed")

    module = type("module", (), {"SummaryWriter": SummaryWriter})
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    loss = square()
    train.fit(numpy, loss, train.sgd(loss, 0.25), [{}] * 2, callbacks=[train.TensorBoardLog(tmp_path)])
    assert written == [str(tmp_path), ("loss", 16.0, 1), ("loss", 4.0, 2), ("train_loss", 10.0, 0), "closed"]
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(oc.CodeError, match=r"pip install \"ocannl-core\[tensorboard\]\""):
        train.TensorBoardLog(tmp_path)


def test_plots_of_losses_and_metrics(numpy: oc.Context, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    loss = square()
    fitted = train.fit(numpy, loss, train.sgd(loss, 0.25), [{}] * 2, epochs=2, watch=lambda: {"accuracy": 0.5})
    assert fitted.plot(tmp_path / "training.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: train.EarlyStopping(patience=-1), oc.ArgumentError, "patience of at least 1, min_delta of at least 0"),
        (lambda: train.EarlyStopping(mode="low"), oc.ArgumentError, 'the mode "min" or "max"'),
        (lambda: train.CsvLog("/nowhere/log.csv"), oc.ArgumentError, "'/nowhere/log.csv' cannot be written: No such"),
        (lambda: train.TensorBoardLog("/dev/null/logs"), oc.ArgumentError, "'/dev/null/logs' cannot be written: Not a"),
        (lambda: train.TensorBoardLog(3), oc.ArgumentError, "path of a log"),
        (lambda: train.CsvLog("a\0b"), oc.ArgumentError, "cannot be written: embedded null byte"),
    ],
)
def test_unfit_settings_of_callbacks_are_refused(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_names_of_metrics_are_checked(numpy: oc.Context) -> None:
    loss = square()
    with pytest.raises(oc.CodeError, match="there is no metric 'accuracy'; the metrics are train_loss"):
        train.fit(numpy, loss, train.sgd(loss, 0.1), [{}], callbacks=[train.EarlyStopping("accuracy")])


def test_nan_is_named_by_its_step_among_many(numpy: oc.Context) -> None:
    n = oc.symbol("n", 0, 50)
    values = np.ones(50, np.float32)
    values[33] = np.nan
    loss = (oc.param("w", 1.0, o=[]) * oc.tensor(values, batch_axes=1)[n]).sum().with_label("loss")
    with pytest.raises(oc.DataError, match="the loss `loss` is NaN in step 34, after 1 in the step before"):
        train.fit(numpy, loss, train.sgd(loss, 0.0), n)
