"""A compiler of tensor expressions whose shapes infer themselves.

    import ocannl as oc

Tensors, their gradients and the code of whole training steps are expressions; a `Context` compiles them for a backend
chosen by name. Names that not everyone needs (`nn`, `train`, `testing`) are imported when first used.
"""

from __future__ import annotations

import importlib
import sys as _sys
from inspect import isfunction as _isfunction
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING
from typing import Any as _Any

from ocannl.backend.registry import backends as backends
from ocannl.base import config as _config
from ocannl.base import errors as _errors
from ocannl.base import extensions as _extensions
from ocannl.base import spelling as _spelling
from ocannl.base.config import settings as settings
from ocannl.base.config import use_backend as use_backend
from ocannl.base.errors import *  # noqa: F403
from ocannl.base.interpreter import require_gil as _require_gil
from ocannl.base.traceback_filtering import checked as _checked
from ocannl.base.traceback_filtering import public as _public
from ocannl.ir.tnode import reset_ids as reset_ids
from ocannl.lang import api as _lang
from ocannl.lang import dtypes as _types
from ocannl.lang.api import *  # noqa: F403
from ocannl.lang.dtypes import *  # noqa: F403
from ocannl.lang.ops.functions import *  # noqa: F403
from ocannl.runtime.context import Context as Context
from ocannl.runtime.context import default_context as default_context
from ocannl.runtime.evaluate import as_array as _as_array
from ocannl.runtime.evaluate import evaluate as evaluate
from ocannl.runtime.evaluate import value_of as _value_of
from ocannl.runtime.routine import Routine as Routine
from ocannl.runtime.transfer import transfer as transfer

__version__ = "0.1.0"
_require_gil()

_Tensor = _lang.Tensor
for _name, _attached in {"numpy": _public(_value_of), "eval": _public(_value_of), "__array__": _as_array}.items():
    setattr(_Tensor, _name, _attached)

_LAZY = {
    "World": "ocannl.runtime.world",
    "compile": "ocannl.runtime.compiled_function", "declare": "ocannl.lang", "fft": "", "linalg": "",
    "load": "ocannl.checkpoint.loading",
    "load_weights": "ocannl.checkpoint.weights", "nn": "", "ops": "", "save": "ocannl.checkpoint.saving",
    "show_shapes": "ocannl.show.shapes", "summary": "ocannl.show.summary", "testing": "", "train": "",
}  # fmt: skip

if TYPE_CHECKING:
    from ocannl import fft as fft
    from ocannl import linalg as linalg
    from ocannl import nn as nn
    from ocannl import ops as ops
    from ocannl import testing as testing
    from ocannl import train as train
    from ocannl.checkpoint.loading import load as load
    from ocannl.checkpoint.saving import save as save
    from ocannl.checkpoint.weights import load_weights as load_weights
    from ocannl.lang import declare as declare
    from ocannl.runtime.compiled_function import compile as compile  # noqa: A004
    from ocannl.runtime.world import World as World
    from ocannl.show.shapes import show_shapes as show_shapes
    from ocannl.show.summary import summary as summary
else:

    @_public
    def __getattr__(name: str) -> _Any:
        if name not in _LAZY:
            if name.startswith("__"):
                raise AttributeError(f"module 'ocannl' has no attribute {name!r}")
            extension = _extensions.load(name)
            if extension is not None:
                return _public(extension) if _isfunction(extension) else extension
            raise _spelling.unknown_name("ocannl", name, __dir__, _spelling.MODULE)
        module = importlib.import_module(_LAZY[name] or f"ocannl.{name}")
        value = getattr(module, name) if _LAZY[name] else module
        return _public(value) if _isfunction(value) else value


_OWN = [
    "Context", "Routine", "backends", "default_context", "evaluate", "reset_ids", "settings", "transfer", "use_backend",
]  # fmt: skip
_ERRORS = [name for name, kind in vars(_errors).items() if isinstance(kind, type) and issubclass(kind, Exception)]

_FUNCTIONS = [*_lang.__all__, "evaluate"]
globals().update({name: _public(value) for name in _FUNCTIONS if _isfunction(value := globals()[name])})
settings = _config.SettingsFunction(_public(settings))
_CHECKED = ("backends", "default_context", "transfer", "use_backend")
globals().update({name: _checked(globals()[name]) for name in _CHECKED})

__all__ = sorted([*_OWN, *_ERRORS, *_lang.__all__, *_types.__all__, *_LAZY])


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Package(_ModuleType):
    """The module, whose only new attributes are submodules: settings are not assigned."""

    @_public
    def __setattr__(self, name: str, value: object) -> None:
        is_replaced = name in __all__ or (name in vars(self) and not isinstance(vars(self)[name], _ModuleType))
        if not (is_replaced or name.startswith("_") or isinstance(value, _ModuleType)):
            answers = {**_spelling.MODULE, **_config.assignments(value)}
            raise _spelling.unknown_name("ocannl", name, __dir__, answers)
        super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package
