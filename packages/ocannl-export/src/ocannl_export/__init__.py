"""Routines of ocannl as C, shared libraries, object files, wheels and WebAssembly."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ocannl_export.api import export as export
    from ocannl_export.errors import ExportError as ExportError

__version__ = "0.1.0"

_MODULES = {"ExportError": "errors", "export": "api"}
"""The modules of the names, which are imported when first used: the command line registers its command without them."""

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ocannl_export' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
