"""Training: the code of a step, optimizers, and a loop with a progress bar."""

from ocannl.train.adam import adam, adamw
from ocannl.train.fit import Fitted, fit
from ocannl.train.parallel import DataParallel, all_reduce
from ocannl.train.rates import cosine_decay, exponential_decay, linear_decay
from ocannl.train.scale import LossScale
from ocannl.train.step import grad_update, sgd

__all__ = [
    "DataParallel",
    "Fitted",
    "LossScale",
    "adam",
    "adamw",
    "all_reduce",
    "cosine_decay",
    "exponential_decay",
    "fit",
    "grad_update",
    "linear_decay",
    "sgd",
]
