"""`ocannl demo digits`: trains a network on handwritten digits and says what it reached."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import numpy as np
import typer

from ocannl.cli import digits
from ocannl.cli.digits import Outcome, Part
from ocannl.runtime.context import Context
from ocannl.show import curve, image_grid, learning, page, save

GOAL = 0.96
SHOWN, COLUMNS = 40, 8  # digits in the picture


def register(app: typer.Typer) -> None:
    demos = typer.Typer(no_args_is_help=True)
    demos.command("digits")(command)
    app.add_typer(demos, name="demo", help="Demonstrations: small, complete, on data that needs no download.")


def command(
    backend: Annotated[str | None, typer.Option(help="The backend; default: the best one that works here.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="How often the training data is gone through.")] = 40,
    hidden: Annotated[int, typer.Option(min=1, help="Units of the hidden layer.")] = 64,
    batch: Annotated[int, typer.Option(min=1, max=digits.TRAINED, help="Digits in a step.")] = 50,
    rate: Annotated[float, typer.Option(min=0.0, help="The learning rate; momentum is 0.9.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Of the split, the initial values and the order of batches.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("ocannl-digits.png"),
) -> None:
    """Train a two-layer network on the handwritten digits that come with scikit-learn.

    Forward pass, backprop and update are compiled into one native routine.

    Status 1 when fewer than 96 of 100 digits that were kept for the end are told right.
    """
    try:
        data = digits.load(seed)
    except ImportError as missing:
        _fail(f'the digits come with scikit-learn ({missing}); run: pip install "ocannl-core[demo]"')
    ctx = Context(backend)
    outcome = digits.train(ctx, data, epochs=epochs, hidden=hidden, batch=batch, rate=rate, seed=seed)
    right = int(np.sum(outcome.answers == data.test.labels))
    accuracy, fitted = right / len(data.test), outcome.fitted
    _say("backend", ctx.backend.name)
    _say("network", f"64-{hidden}-10, {outcome.parameters} parameters, {len(fitted.losses)} steps of {batch} digits")
    _say("test accuracy", f"{accuracy:.4f}, {right} of {len(data.test)} digits")
    _say("compile time", f"{fitted.compile_seconds:.3f} s")
    _say("time per step", f"{fitted.step_seconds * 1e3:.3f} ms, {1 / fitted.step_seconds:.0f} steps/s")
    try:
        _say("picture", str(draw(outcome, data.test, epochs, out)))
    except ImportError as missing:
        _say("picture", f"none; {missing}")
    except (OSError, ValueError) as wrong:
        _fail(f"the picture could not be written: {wrong}")
    if accuracy < GOAL:
        _fail(f"{accuracy:.4f} is below {GOAL}, which is the goal")


def _say(what: str, said: str) -> None:
    typer.echo(f"{what:<14} {said}")


def _fail(why: str) -> NoReturn:
    typer.echo(why, err=True)
    raise typer.Exit(1)


def draw(outcome: Outcome, test: Part, epochs: int, path: Path) -> Path:
    """Loss and accuracy while the network learned, and digits with its answers: those it got wrong first."""
    figure = page(11, 5)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=[4, 5], wspace=0.03)[0]
    above, below = left.subplots(2, 1, sharex=True)
    fitted = outcome.fitted
    learning(above, fitted.losses, len(fitted.losses) // epochs)
    above.set_xlabel("")
    curve(below, [figures["accuracy"] for figures in fitted.watched], "accuracy on digits kept apart")
    wrong = outcome.answers != test.labels
    chosen = np.argsort(~wrong, kind="stable")[:SHOWN]
    captions = [f"{outcome.answers[k]}, not {test.labels[k]}" if wrong[k] else f"{outcome.answers[k]}" for k in chosen]
    images = list(test.images[chosen].reshape(-1, digits.SIDE, digits.SIDE))
    image_grid(right, images, captions, list(wrong[chosen]), COLUMNS)
    right.suptitle(f"{np.sum(~wrong)} of {len(test)} test digits told right", x=0.02, ha="left", fontsize="large")
    return save(figure, path)
