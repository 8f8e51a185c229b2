"""Compiled routines as one page of HTML, from Python source to generated code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ocannl_explorer.api import explore as explore
    from ocannl_explorer.notebook_view import view as view

__version__ = "0.1.0"
__all__ = ["explore", "view"]


def __getattr__(name: str) -> Any:
    """Imports a name when first used: the command line registers its command without it."""
    if name not in __all__:
        raise AttributeError(f"module 'ocannl_explorer' has no attribute {name!r}; it has {', '.join(__all__)}")
    from ocannl_explorer import api, notebook_view

    return api.explore if name == "explore" else notebook_view.view


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
