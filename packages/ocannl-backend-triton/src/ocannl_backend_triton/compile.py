"""Kernels as machine code of a GPU: made by Triton's own compiler, which needs neither a GPU nor torch for it.

What Triton would keep on disk goes to a folder that is gone afterwards: its cache does not look at what it loads. The
code of a program is kept, and verified, by whoever keeps `Code`.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ocannl.backend import CompileError
from ocannl.backend.cpu.device import cores
from ocannl_backend_triton.deduplicate import shape, texts
from ocannl_backend_triton.kernel import Kernel, Module
from ocannl_backend_triton.load import load
from ocannl_backend_triton.package import Binary
from ocannl_backend_triton.target import Target

WARP = 32  # threads
ALIGNED = 16  # bytes: what the widest access needs
SCRATCH = 2  # pointers that versions of Triton add to a kernel's parameters, at most
REMEMBERED = 1024


def binaries(module: Module, target: Target) -> tuple[Binary, ...]:
    """Of each kernel, in order; those that differ in names alone have one in common. Raises `CompileError`."""
    functions, does = load(module), texts(module)
    with _lock, tempfile.TemporaryDirectory(prefix="ocannl-triton-") as folder, knobs.cache.scope():
        knobs.cache.dir = folder
        keys = [(does[kernel.name], *shape(kernel), target) for kernel in module.kernels]
        first = dict(zip(reversed(keys), reversed(module.kernels), strict=True))
        new = {key: kernel for key, kernel in first.items() if key not in _known}
        with ThreadPoolExecutor(cores()) as pool:  # most of the time is that of ptxas, a process of its own
            made = {key: pool.submit(_binary, functions[k.name], k, target, module.source) for key, k in new.items()}
            found = {key: made[key].result() if key in made else _known[key] for key in first}
        _known.update(found)
        while len(_known) > REMEMBERED:
            _known.popitem(last=False)
        return tuple(found[key] for key in keys)


_lock = threading.Lock()  # Triton's settings belong to the whole process
_known: OrderedDict[tuple[object, ...], Binary] = OrderedDict()


def _binary(function: Any, kernel: Kernel, target: Target, text: str) -> Binary:
    places = [n for n, argument in enumerate(kernel.arguments) if argument.offset_bytes % ALIGNED == 0]
    aligned = {(n,): [["tt.divisibility", ALIGNED]] for n in places}
    options = {"num_warps": kernel.num_warps, "num_stages": kernel.num_stages, "enable_fp_fusion": True}
    try:
        source = ASTSource(function, kernel.signature, dict(kernel.constants), aligned)
        return _of(triton.compile(source, GPUTarget("cuda", target.sm, WARP), options), kernel)
    except Exception as wrong:  # Triton has no class of what its compiler raises
        refusal = f"Triton refused kernel `{kernel.name}` for {target}; its text is kept in {keep(text)}"
        raise CompileError("\n".join([refusal, *_words(wrong)])) from None


def _words(wrong: BaseException | None) -> Iterator[str]:
    """What went wrong, and what made it go wrong."""
    while wrong is not None:
        yield str(wrong).strip() or type(wrong).__name__
        wrong = wrong.__cause__


def _of(made: Any, kernel: Kernel) -> Binary:
    about = made.metadata
    added = _parameters(made.asm["ptx"], about.name) - len(kernel.arguments)
    if not 0 <= added <= SCRATCH or getattr(about, "num_ctas", 1) != 1:
        raise ValueError(f"this version of Triton, {triton.__version__}, launches kernels in another way")
    sizes = [getattr(about, name, 0) or 0 for name in ("global_scratch_size", "profile_scratch_size")]
    return Binary(about.name, made.asm["cubin"], WARP * about.num_warps, about.shared, tuple(sizes[:added]))


def _parameters(ptx: str, name: str) -> int:
    """How many parameters the machine code takes."""
    found = re.search(rf"\.entry\s+{re.escape(name)}\s*\(([^)]*)\)", ptx)
    return found[1].count(".param") if found else 0


@cache
def _private_folder() -> Path:
    """A new folder that only this user can read."""
    return Path(tempfile.mkdtemp(prefix="ocannl-triton-kept-"))


def keep(text: str) -> Path | str:
    """The file where text that was refused can be looked at."""
    try:
        path = _private_folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.py"
        path.write_text(text, encoding="utf-8")
    except OSError as wrong:
        return f"no file: {wrong}"
    return path
