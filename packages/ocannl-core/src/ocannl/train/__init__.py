"""Training: the code of a step, optimizers, and a loop with a progress bar."""

from inspect import isfunction as _isfunction
from typing import TYPE_CHECKING
from typing import Any as _Any

from ocannl.base import training_names as _training_names
from ocannl.base.spelling import of_module as _of_module
from ocannl.base.spelling import unknown_name as _unknown_name
from ocannl.base.traceback_filtering import checked as _checked
from ocannl.base.traceback_filtering import public as _public
from ocannl.lang.ops.functions import __all__ as _functions
from ocannl.train.accumulation import accumulate
from ocannl.train.adam import adam, adamw, nadam
from ocannl.train.adaptive import adagrad, rmsprop
from ocannl.train.averaging import EMA
from ocannl.train.batches import Batches, batches, weighted_mean
from ocannl.train.callbacks import CsvLog, EarlyStopping, EpochResult, JsonLog, TensorBoardLog
from ocannl.train.checkpoints import Checkpoints
from ocannl.train.clipping import clip_grad_norm, clip_grad_value
from ocannl.train.evaluation import evaluate
from ocannl.train.fit import Fitted, fit
from ocannl.train.lamb import lamb
from ocannl.train.lion import lion
from ocannl.train.metrics import (
    Metric,
    accuracy,
    average,
    confusion_matrix,
    f1_score,
    perplexity,
    precision,
    r2_score,
    recall,
    roc_auc,
    top_k_accuracy,
)
from ocannl.train.muon import muon
from ocannl.train.parallel import DataParallel, all_reduce
from ocannl.train.plateau import ReduceOnPlateau
from ocannl.train.scale import LossScale
from ocannl.train.schedules import (
    constant,
    cosine_decay,
    exponential_decay,
    join,
    linear_decay,
    one_cycle,
    polynomial_decay,
    step_decay,
    warmup,
)
from ocannl.train.sgd import sgd
from ocannl.train.step import grad_update

__all__ = [
    "Batches",
    "Checkpoints",
    "CsvLog",
    "DataParallel",
    "EMA",
    "EarlyStopping",
    "EpochResult",
    "Fitted",
    "JsonLog",
    "LossScale",
    "Metric",
    "ReduceOnPlateau",
    "TensorBoardLog",
    "accumulate",
    "accuracy",
    "adagrad",
    "adam",
    "adamw",
    "all_reduce",
    "average",
    "batches",
    "clip_grad_norm",
    "clip_grad_value",
    "confusion_matrix",
    "constant",
    "cosine_decay",
    "evaluate",
    "exponential_decay",
    "f1_score",
    "fit",
    "grad_update",
    "join",
    "lamb",
    "linear_decay",
    "lion",
    "muon",
    "nadam",
    "one_cycle",
    "perplexity",
    "polynomial_decay",
    "precision",
    "r2_score",
    "recall",
    "rmsprop",
    "roc_auc",
    "sgd",
    "step_decay",
    "top_k_accuracy",
    "warmup",
    "weighted_mean",
]

globals().update({name: _public(globals()[name]) for name in __all__ if _isfunction(globals()[name])})
_SCHEDULES = (  # they would fail later, when they are used
    "constant", "cosine_decay", "exponential_decay", "join", "linear_decay", "one_cycle", "polynomial_decay",
    "step_decay", "warmup",
)  # fmt: skip
globals().update({name: _checked(globals()[name]) for name in _SCHEDULES})

if not TYPE_CHECKING:

    @_public
    def __getattr__(name: str) -> _Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'ocannl.train' has no attribute {name!r}")
        raise _unknown_name("train", name, lambda: __all__, {**_of_module(_functions), **_training_names.TRAIN})
