"""`ocannl demo NAME`: trains a small model on data that needs no download, and reports how good it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import numpy as np
import typer

from ocannl.demos import digits
from ocannl.demos.catalogue import DEMOS
from ocannl.demos.digits import Split, TrainingResult
from ocannl.runtime.context import Context
from ocannl.show import curve, image_grid, learning, page, save

MIN_TEST_ACCURACY = 0.96
SHOWN_IMAGES, GRID_COLUMNS = 40, 8  # test images in the plot


def register(app: typer.Typer) -> None:
    demos = typer.Typer(no_args_is_help=True)
    demos.command("digits")(command)
    for name, demo in DEMOS.items():
        demos.command(name, help=f"{demo.help}\n\nStatus 1 when the result is worse than required.")(_command_of(name))
    app.add_typer(demos, name="demo", help="Demonstrations: small, complete, on data that needs no download.")


def _command_of(name: str) -> Callable[..., None]:
    demo = DEMOS[name]

    def run(
        backend: Annotated[str | None, typer.Option(help="The backend; default: the best usable one.")] = None,
        epochs: Annotated[int, typer.Option(min=1, help="Passes over the training data.")] = demo.epochs,
        seed: Annotated[int, typer.Option(min=0, help="Seed of the split, initial values and batch order.")] = 0,
        out: Annotated[Path | None, typer.Option(help="Path of the picture, if there is one.")] = None,
    ) -> None:
        ctx = Context(backend)
        try:
            report = demo.run(ctx, epochs=epochs, seed=seed)
        except ImportError as missing:
            _fail(f'the data come with another package ({missing}); run: pip install "ocannl-core[demo]"')
        for title, text in {"backend": ctx.backend.name, **report.lines}.items():
            _say(title, text)
        if report.draw is not None:
            _picture(partial(report.draw, out or Path(f"ocannl-{name}.png")))
        if report.score < report.required:
            _fail(f"{report.score:.4f} is below the required {report.required}")

    return run


def _picture(draw: Callable[[], Path]) -> None:
    try:
        _say("picture", str(draw()))
    except ImportError as missing:
        _say("picture", f"none; {missing}")
    except (OSError, ValueError) as error:
        _fail(f"the picture could not be written: {error}")


def command(
    backend: Annotated[str | None, typer.Option(help="The backend; default: the best usable one.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training data.")] = 40,
    hidden: Annotated[int, typer.Option(min=1, help="Units of the hidden layer.")] = 64,
    batch: Annotated[int, typer.Option(min=1, max=digits.TRAIN_SIZE, help="Batch size.")] = 50,
    rate: Annotated[float, typer.Option(min=0.0, help="The learning rate; momentum is 0.9.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split, initial values and batch order.")] = 0,
    out: Annotated[Path, typer.Option(help="Path of the plot.")] = Path("ocannl-digits.png"),
) -> None:
    """Train a two-layer network on the handwritten digits that come with scikit-learn.

    Forward pass, backprop and update are compiled into one native routine.

    Status 1 when the test accuracy is below 0.96.
    """
    try:
        data = digits.load(seed)
    except ImportError as missing:
        _fail(f'the digits come with scikit-learn ({missing}); run: pip install "ocannl-core[demo]"')
    ctx = Context(backend)
    outcome = digits.train(ctx, data, epochs=epochs, hidden=hidden, batch=batch, rate=rate, seed=seed)
    right = int(np.sum(outcome.predictions == data.test.labels))
    accuracy, fitted = right / len(data.test), outcome.fitted
    _say("backend", ctx.backend.name)
    _say("network", f"64-{hidden}-10, {outcome.parameters} parameters, {len(fitted.losses)} steps of {batch} digits")
    _say("test accuracy", f"{accuracy:.4f}, {right} of {len(data.test)} digits")
    _say("compile time", f"{fitted.compile_seconds:.3f} s")
    _say("time per step", f"{fitted.step_seconds * 1e3:.3f} ms, {1 / fitted.step_seconds:.0f} steps/s")
    _picture(partial(draw, outcome, data.test, epochs, out))
    if accuracy < MIN_TEST_ACCURACY:
        _fail(f"{accuracy:.4f} is below the required accuracy of {MIN_TEST_ACCURACY}")


def _say(name: str, value: str) -> None:
    typer.echo(f"{name:<14} {value}")


def _fail(reason: str) -> NoReturn:
    typer.echo(reason, err=True)
    raise typer.Exit(1)


def draw(outcome: TrainingResult, test: Split, epochs: int, path: Path) -> Path:
    """Plots loss and validation accuracy over time, and test images with predictions, wrong ones first."""
    figure = page(11, 5)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=[4, 5], wspace=0.03)[0]
    above, below = left.subplots(2, 1, sharex=True)
    fitted = outcome.fitted
    learning(above, fitted.losses, len(fitted.losses) // epochs)
    above.set_xlabel("")
    curve(below, [metrics["accuracy"] for metrics in fitted.watched], "validation accuracy")
    wrong = outcome.predictions != test.labels
    chosen = np.argsort(~wrong, kind="stable")[:SHOWN_IMAGES]
    predictions = outcome.predictions
    captions = [f"{predictions[k]}, not {test.labels[k]}" if wrong[k] else f"{predictions[k]}" for k in chosen]
    images = list(test.images[chosen].reshape(-1, digits.SIDE, digits.SIDE))
    image_grid(right, images, captions, list(wrong[chosen]), GRID_COLUMNS)
    right.suptitle(f"{np.sum(~wrong)} of {len(test)} test digits correct", x=0.02, ha="left", fontsize="large")
    return save(figure, path)
