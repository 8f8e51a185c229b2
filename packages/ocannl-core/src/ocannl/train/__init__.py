"""Training: the code of a step, optimizers, and a loop with a progress bar."""

from ocannl.train.step import grad_update, sgd

__all__ = ["grad_update", "sgd"]
