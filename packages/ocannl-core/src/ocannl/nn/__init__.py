"""Layers and networks: functions declared with `oc.op`."""

from typing import TYPE_CHECKING
from typing import Any as _Any

from ocannl.base import training_names as _training_names
from ocannl.base.spelling import unknown_name as _unknown_name
from ocannl.nn.dropout import dropout
from ocannl.nn.embedding import embedding
from ocannl.nn.linear import linear, mlp
from ocannl.nn.norms import layer_norm, rms_norm

__all__ = [
    "dropout",
    "embedding",
    "layer_norm",
    "linear",
    "mlp",
    "rms_norm",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> _Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'ocannl.nn' has no attribute {name!r}")
        raise _unknown_name("nn", name, lambda: __all__, _training_names.NN)
