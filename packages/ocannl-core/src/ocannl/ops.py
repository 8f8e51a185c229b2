"""Operations of installed packages by name: `oc.ops.NAME`, or `oc.ops.NAMESPACE.NAME`.

Names come from the metadata of distributions alone. A package is imported when one of its names is first asked for, so
one that is broken harms nobody but those who ask for it.
"""

from __future__ import annotations

import difflib as _difflib
from typing import Any as _Any

from ocannl.base.errors import UnknownName as _UnknownName
from ocannl.base.traceback_filtering import public as _public
from ocannl.lang.declare import installed_operations as _packages


def __getattr__(name: str) -> _Any:  # undecorated, so that type checkers find it
    if name.startswith("__"):
        raise AttributeError(f"module 'ocannl.ops' has no attribute {name!r}")
    return _load(name)


@_public
def _load(name: str) -> _Any:
    installed = _packages.entry_points_by_name()
    if name not in installed:
        close = _difflib.get_close_matches(name, installed, 1)
        known = ", ".join(installed) or "none"
        hint = f"did you mean `{close[0]}`? " if close else ""
        raise _UnknownName(f"no installed package brings operations `{name}`; {hint}installed: {known}")
    package = _packages.load(installed[name])
    globals()[name] = package
    return package


def __dir__() -> list[str]:
    return sorted(_packages.entry_points_by_name())
