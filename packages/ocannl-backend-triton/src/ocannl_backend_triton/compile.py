"""Compiles kernels to machine code with Triton's compiler, which needs neither a GPU nor torch.

Triton's on-disk cache goes to a temporary directory, since it does not verify what it loads. Compiled code is kept, and
verified, by the owner of the `Code`.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ocannl.backend import CompileError, save_source
from ocannl.backend.cpu.device import cores
from ocannl.base.work_folder import remove_stale_folders, work_folder
from ocannl_backend_triton.cuda_target import CudaTarget
from ocannl_backend_triton.exec_source import load_module
from ocannl_backend_triton.identical_code_folding import canonical_texts, specialization
from ocannl_backend_triton.kernel_module import Kernel, KernelModule
from ocannl_backend_triton.serialization import Binary

WARP_THREADS = 32
POINTER_ALIGNMENT_BYTES = 16  # of the widest memory access
MAX_SCRATCH_POINTERS = 2  # that some versions of Triton append to a kernel's parameters
MAX_CACHED_BINARIES = 1024


def compile_kernels(module: KernelModule, target: CudaTarget) -> tuple[Binary, ...]:
    """The machine code of each kernel; kernels equal up to renaming share a binary. Raises `CompileError`."""
    functions, bodies = load_module(module), canonical_texts(module)
    remove_stale_folders(os.getpid())
    with _lock, work_folder() as folder, knobs.cache.scope():
        knobs.cache.dir = str(folder)
        keys = [(bodies[kernel.name], *specialization(kernel), target) for kernel in module.kernels]
        first = dict(zip(reversed(keys), reversed(module.kernels), strict=True))
        missing = {key: kernel for key, kernel in first.items() if key not in _cache}
        with ThreadPoolExecutor(cores()) as pool:  # most of the time is spent in ptxas, a subprocess
            futures = {
                key: pool.submit(_compile_kernel, functions[kernel.name], kernel, target, module.source)
                for key, kernel in missing.items()
            }
            results = {key: futures[key].result() if key in futures else _cache[key] for key in first}
        _cache.update(results)
        while len(_cache) > MAX_CACHED_BINARIES:
            _cache.popitem(last=False)
        return tuple(results[key] for key in keys)


_lock = threading.Lock()  # Triton's settings are global
_cache: OrderedDict[tuple[object, ...], Binary] = OrderedDict()


def _compile_kernel(function: Any, kernel: Kernel, target: CudaTarget, text: str) -> Binary:
    offsets = enumerate(argument.offset_bytes for argument in kernel.arguments)
    aligned_positions = [n for n, offset in offsets if offset % POINTER_ALIGNMENT_BYTES == 0]
    aligned = {(n,): [["tt.divisibility", POINTER_ALIGNMENT_BYTES]] for n in aligned_positions}
    options = {"num_warps": kernel.num_warps, "num_stages": kernel.num_stages, "enable_fp_fusion": True}
    try:
        source = ASTSource(function, kernel.signature, dict(kernel.constants), aligned)
        return _to_binary(triton.compile(source, GPUTarget("cuda", target.sm, WARP_THREADS), options), kernel)
    except Exception as error:  # Triton's compiler raises no common class of errors
        path = save_source(text, "triton", ".py")
        message = f"Triton refused kernel `{kernel.name}` for {target}; its text is kept in {path}"
        raise CompileError("\n".join([message, *_error_chain(error)])) from None


def _error_chain(error: BaseException | None) -> Iterator[str]:
    """The messages of an exception and its causes."""
    while error is not None:
        yield str(error).strip() or type(error).__name__
        error = error.__cause__


def _to_binary(compiled: Any, kernel: Kernel) -> Binary:
    metadata = compiled.metadata
    added = _parameter_count(compiled.asm["ptx"], metadata.name) - len(kernel.arguments)
    if not 0 <= added <= MAX_SCRATCH_POINTERS or getattr(metadata, "num_ctas", 1) != 1:
        raise ValueError(f"this version of Triton, {triton.__version__}, has an incompatible kernel launcher")
    sizes = [getattr(metadata, name, 0) or 0 for name in ("global_scratch_size", "profile_scratch_size")]
    threads = WARP_THREADS * metadata.num_warps
    return Binary(metadata.name, compiled.asm["cubin"], threads, metadata.shared, tuple(sizes[:added]))


def _parameter_count(ptx: str, name: str) -> int:
    """Number of parameters of an entry function in PTX."""
    match = re.search(rf"\.entry\s+{re.escape(name)}\s*\(([^)]*)\)", ptx)
    return match[1].count(".param") if match else 0
