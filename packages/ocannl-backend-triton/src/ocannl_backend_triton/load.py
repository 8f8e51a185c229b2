"""The text of a program as functions of triton."""

from __future__ import annotations

import hashlib
import linecache
from typing import Any

from ocannl.backend import CompileError
from ocannl_backend_triton.kernel import Module


def load(module: Module) -> dict[str, Any]:
    """What the text defines, by name. It is registered as that of a file: triton reads the text of a function again,
    and tracebacks show it."""
    file = f"<{module.name} {hashlib.sha256(module.source.encode()).hexdigest()[:16]}>"
    linecache.cache[file] = (len(module.source), None, module.source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": file}
    try:
        exec(compile(module.source, file, "exec"), namespace)
    except (SyntaxError, RecursionError, MemoryError) as error:  # Python nests only so deep
        raise CompileError(f"Python refused the text of `{module.name}`: {error}") from None
    return namespace
