"""Training: the code of a step, optimizers, and a loop with a progress bar."""

from ocannl.train.adam import adam, adamw
from ocannl.train.fit import Fitted, fit
from ocannl.train.parallel import DataParallel, all_reduce
from ocannl.train.scale import LossScale
from ocannl.train.step import grad_update, sgd

__all__ = ["DataParallel", "Fitted", "LossScale", "adam", "adamw", "all_reduce", "fit", "grad_update", "sgd"]
