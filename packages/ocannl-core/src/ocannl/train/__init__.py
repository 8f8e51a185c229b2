"""Training: the code of a step, optimizers, and a loop with a progress bar."""

from inspect import isfunction as _isfunction
from typing import TYPE_CHECKING
from typing import Any as _Any

from ocannl.base import spelling as _spelling
from ocannl.base.traceback_filtering import checked as _checked
from ocannl.base.traceback_filtering import public as _public
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

globals().update({name: _public(globals()[name]) for name in __all__ if _isfunction(globals()[name])})
_SCHEDULES = ("cosine_decay", "exponential_decay", "linear_decay")  # they would fail later, when they are used
globals().update({name: _checked(globals()[name]) for name in _SCHEDULES})

if not TYPE_CHECKING:

    def __getattr__(name: str) -> _Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'ocannl.train' has no attribute {name!r}")
        raise _spelling.unknown_name("train", name, lambda: __all__, _spelling.TRAIN)
