"""Training: the code of a step, optimizers, and a loop with a progress bar."""

from ocannl.train.fit import Fitted, fit
from ocannl.train.step import grad_update, sgd

__all__ = ["Fitted", "fit", "grad_update", "sgd"]
