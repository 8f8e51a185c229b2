"""The Python interpreter that can run programs for this process, which may be an application that embeds Python."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_INTERPRETER = re.compile(r"(python|pypy)[\d.]*[a-z]*(\.exe)?", re.IGNORECASE)


def python_interpreter() -> str:
    """Returns the path of a Python interpreter. `sys.executable` of an application that embeds Python may be the
    application, which would start once more, or empty; frozen applications have no interpreter.

    Raises: ChildProcessError if there is none.
    """
    if not getattr(sys, "frozen", False):
        for path in _candidates():
            if _INTERPRETER.fullmatch(os.path.basename(path)) and os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    raise ChildProcessError("this application has no Python interpreter of its own")


def _candidates() -> Iterator[str]:
    for path in (sys.executable, getattr(sys, "_base_executable", None)):
        if isinstance(path, str):
            yield path
    for prefix in dict.fromkeys((sys.exec_prefix, sys.base_exec_prefix)):
        yield str(Path(prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"))
