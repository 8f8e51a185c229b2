"""The demonstrations, by the name of their command."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ocannl.demos import addition, generative, language, moons, pictures, tabular
from ocannl.demos.language import NAMES, TEXT
from ocannl.demos.report import Report
from ocannl.runtime.context import Context


class Run(Protocol):
    def __call__(self, ctx: Context, *, epochs: int, seed: int) -> Report: ...


@dataclass(frozen=True, slots=True)
class Demo:
    """`help` is the description in the command line, `epochs` the default number of passes over the training data."""

    help: str
    epochs: int
    run: Run


DEMOS = {
    "wine": Demo("Classify wines of three growers by chemical analyses.", 40, partial(tabular.run, "wine")),
    "breast-cancer": Demo("Tell benign from malignant tumors.", 30, partial(tabular.run, "breast-cancer")),
    "diabetes": Demo("Predict the progression of diabetes.", 30, partial(tabular.run, "diabetes")),
    "lenet": Demo("Classify handwritten digits by LeNet-5.", 30, partial(pictures.run, "lenet")),
    "resnet": Demo("Classify handwritten digits by a residual network.", 12, partial(pictures.run, "resnet")),
    "vit": Demo("Classify handwritten digits by a vision transformer.", 30, partial(pictures.run, "vit")),
    "vae": Demo("Draw digits by a variational autoencoder.", 60, generative.run_vae),
    "gan": Demo("Draw digits by adversarial networks.", 150, generative.run_gan),
    "moons": Demo("Separate two half circles, and draw the decision boundary.", 40, moons.run),
    "names": Demo("Write words like those in the names of characters.", 12, partial(language.run, NAMES)),
    "addition": Demo("Add numbers that are texts, character by character.", 10, addition.run),
    "text": Demo("Write text like the documentation of Python.", 4, partial(language.run, TEXT)),
}
