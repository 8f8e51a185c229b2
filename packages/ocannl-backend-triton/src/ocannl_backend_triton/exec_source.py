"""Loads generated source as Triton functions."""

from __future__ import annotations

import hashlib
import linecache
from typing import Any

from ocannl.backend import CompileError
from ocannl_backend_triton.kernel_module import KernelModule


def load_module(module: KernelModule) -> dict[str, Any]:
    """Executes the source of a module and returns its namespace. The source is registered with `linecache`, from which
    Triton and tracebacks read it."""
    file = f"<{module.name} {hashlib.sha256(module.source.encode()).hexdigest()[:16]}>"
    linecache.cache[file] = (len(module.source), None, module.source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": file}
    try:
        exec(compile(module.source, file, "exec"), namespace)
    except (SyntaxError, RecursionError, MemoryError) as error:  # the parser's nesting is limited
        raise CompileError(f"Python rejected the source of `{module.name}`: {error}") from None
    return namespace
