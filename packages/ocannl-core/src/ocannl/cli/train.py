"""`ocannl train CONFIG.toml`: trains a model as a file describes it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocannl import train
from ocannl.base.config import settings
from ocannl.cli.training_config import (
    TrainingConfig,
    arrays_of,
    loss_of,
    metrics_of,
    model_of,
    optimizer_of,
    read_config,
)
from ocannl.runtime.context import Context


def register(app: typer.Typer) -> None:
    app.command("train")(command)


def command(
    config: Annotated[Path, typer.Argument(help="A TOML file that describes the run.")],
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the data; default: those of the file.")] = None,
) -> None:
    """Train a model as a TOML file describes it.

    A run with a checkpoint continues where it was interrupted.
    """
    run = read_config(config)
    with settings(seed=run.seed):
        fitted = _run(run, run.epochs if epochs is None else epochs)
    for number, metrics in enumerate(fitted.watched, 1):
        typer.echo(f"epoch {number:<4} {'  '.join(f'{name} {value:.4f}' for name, value in metrics.items())}")
    if fitted.losses:
        steps = f"{len(fitted.losses)} steps of {fitted.step_seconds * 1e3:.3f} ms"
        typer.echo(f"loss {fitted.losses[-1]:.6f} after {steps}")


def _run(config: TrainingConfig, epochs: int) -> train.Fitted:
    data = train.batches(arrays_of(config.data), config.batch, shuffle=config.shuffle)
    ctx = Context(config.backend or None)
    return train.fit(
        model_of(config),
        loss=loss_of(config),
        optimizer=optimizer_of(config),
        data=data,
        ctx=ctx,
        epochs=epochs,
        validation=data.of(arrays_of(config.validation)) if config.validation else None,
        metrics=metrics_of(config),
        callbacks=[train.CsvLog(config.log)] if config.log else [],
        checkpoint=config.checkpoint or None,
    )
