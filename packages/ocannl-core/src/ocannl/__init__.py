"""A compiler of tensor expressions whose shapes infer themselves.

    import ocannl as oc

Tensors, their gradients and the code of whole training steps are expressions; a `Context` compiles them for a backend
chosen by name. Names that not everyone needs (`nn`, `train`, `testing`) are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from ocannl.base.errors import *  # noqa: F403
from ocannl.lang.api import *  # noqa: F403
from ocannl.lang.api import PRIMITIVES as _PRIMITIVES

globals().update({name: function for name, function in _PRIMITIVES.items() if name not in ("max", "min")})

_MODULES = ("ir", "nn", "testing", "train")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"ocannl.{name}")
    raise AttributeError(f"module 'ocannl' has no attribute {name!r}")
