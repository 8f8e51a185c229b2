"""ONNX models as tensors and parameters of ocannl: import, check, training, and any backend."""

from __future__ import annotations

import importlib
from inspect import isfunction
from typing import TYPE_CHECKING, Any

from ocannl.base import spelling
from ocannl.base.traceback_filtering import public

if TYPE_CHECKING:
    from ocannl_onnx.errors import ModelError as ModelError
    from ocannl_onnx.errors import NeedsConstant as NeedsConstant
    from ocannl_onnx.errors import UnsupportedModel as UnsupportedModel
    from ocannl_onnx.exporting.model import export as export
    from ocannl_onnx.model import ImportedModel as ImportedModel
    from ocannl_onnx.model import ModelFunction as ModelFunction
    from ocannl_onnx.model import load as load
    from ocannl_onnx.registry import OperatorRow as OperatorRow
    from ocannl_onnx.registry import operator as operator
    from ocannl_onnx.registry import operator_table as operator_table

__version__ = "0.1.0"

_MODULES = {
    "ImportedModel": "model", "ModelError": "errors", "ModelFunction": "model", "NeedsConstant": "errors",
    "export": "exporting.model",
    "OperatorRow": "registry", "UnsupportedModel": "errors", "load": "model", "operator": "registry",
    "operator_table": "registry",
}  # fmt: skip
"""The modules of the names, which are imported when first used: the command line registers its command without onnx."""

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES and name.startswith("__"):
        raise AttributeError(f"module 'ocannl_onnx' has no attribute {name!r}")
    if name not in _MODULES:
        raise spelling.unknown_name("oc.onnx", name, lambda: __all__, {})
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    return public(value) if isfunction(value) else value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
