"""A compiler of tensor expressions whose shapes infer themselves.

    import ocannl as oc

Tensors, their gradients and the code of whole training steps are expressions; a `Context` compiles them for a backend
chosen by name. Names that not everyone needs (`train`, `testing`) are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from ocannl.backend.registry import backends  # noqa: F401
from ocannl.base.config import settings, use_backend  # noqa: F401
from ocannl.base.errors import *  # noqa: F403
from ocannl.ir.precision import PRECISIONS as _PRECISIONS
from ocannl.ir.tnode import reset_ids  # noqa: F401
from ocannl.lang.api import *  # noqa: F403
from ocannl.lang.api import PRIMITIVES as _PRIMITIVES
from ocannl.lang.api import Tensor as _Tensor
from ocannl.runtime.context import Context, default_context  # noqa: F401
from ocannl.runtime.evaluate import as_array as _as_array
from ocannl.runtime.evaluate import evaluate as _evaluate
from ocannl.runtime.routine import Routine  # noqa: F401

__version__ = "0.1.0"

globals().update({name: function for name, function in _PRIMITIVES.items() if name not in ("max", "min")})
globals().update({p.name: p for p in _PRECISIONS})

_Tensor.numpy = _Tensor.eval = _evaluate  # type: ignore[attr-defined]
_Tensor.__array__ = _as_array  # type: ignore[attr-defined]

_MODULES = ("testing", "train")
_LAZY = {"show_shapes": "ocannl.show.shapes"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"ocannl.{name}")
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'ocannl' has no attribute {name!r}")
