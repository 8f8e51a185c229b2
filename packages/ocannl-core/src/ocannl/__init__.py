"""A compiler of tensor expressions whose shapes infer themselves.

    import ocannl as oc

Tensors, their gradients and the code of whole training steps are expressions; a `Context` compiles them for a backend
chosen by name. Names that not everyone needs (`train`, `testing`, `show_shapes`) are imported when first used.
"""

from __future__ import annotations

import importlib
from inspect import isfunction as _isfunction
from typing import Any

from ocannl.backend.registry import backends
from ocannl.base import errors as _errors
from ocannl.base.config import settings, use_backend
from ocannl.base.errors import *  # noqa: F403
from ocannl.base.frames import public as _public
from ocannl.base.frames import publish as _publish
from ocannl.infer.shape import Shape as _Shape
from ocannl.ir.precision import PRECISIONS as _PRECISIONS
from ocannl.ir.tnode import reset_ids
from ocannl.lang import api as _lang
from ocannl.lang.api import *  # noqa: F403
from ocannl.lang.blocks import Function as _Function
from ocannl.lang.operators import Operators as _Operators
from ocannl.runtime.context import Context, default_context
from ocannl.runtime.evaluate import as_array as _as_array
from ocannl.runtime.evaluate import evaluate
from ocannl.runtime.evaluate import value_of as _value_of
from ocannl.runtime.routine import Routine
from ocannl.runtime.transfer import transfer

__version__ = "0.1.0"

# `max` and `min` of two operands are called maximum and minimum, as in NumPy: Python's own names stay its own
_POINTWISE = {name: function for name, function in _lang.PRIMITIVES.items() if name not in ("max", "min")}
_TYPES = {p.name: p for p in _PRECISIONS}
globals().update(_POINTWISE | _TYPES)

_Tensor = _lang.Tensor
_Tensor.numpy = _Tensor.eval = _value_of  # type: ignore[attr-defined]
_Tensor.__array__ = _as_array  # type: ignore[attr-defined]

_LAZY = {"declare": "ocannl.lang", "ops": "", "show_shapes": "ocannl.show.shapes", "testing": "", "train": ""}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'ocannl' has no attribute {name!r}")
    module = importlib.import_module(_LAZY[name] or f"ocannl.{name}")
    return getattr(module, name) if _LAZY[name] else module


_OWN: dict[str, Any] = {
    "Context": Context,
    "Routine": Routine,
    "backends": backends,
    "default_context": default_context,
    "evaluate": evaluate,
    "reset_ids": reset_ids,
    "settings": settings,
    "transfer": transfer,
    "use_backend": use_backend,
}
_ERRORS = [name for name, value in vars(_errors).items() if isinstance(value, type)]
_LANG = [name for name in _lang.__all__ if name != "PRIMITIVES"]

for _kind in (_Operators, _Tensor, _Shape, _Function, _lang.Block, _lang.Dim, Context):
    _publish(_kind)
_FUNCTIONS = [*_LANG, *_POINTWISE, "evaluate"]
globals().update({name: _public(value) for name in _FUNCTIONS if _isfunction(value := globals()[name])})

__all__ = sorted([*_OWN, *_ERRORS, *_LANG, *_POINTWISE, *_TYPES, *_LAZY])


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
