"""Compiles LLVM IR to object code, in parallel.

Nearly all time is spent in one call of LLVM per module. Worker threads make these calls while the main thread emits the
next module; afterwards the main thread compiles the modules that no worker has begun.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NoReturn

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from ocannl.backend import CompileError, save_source
from ocannl.backend.cpu.device import cores
from ocannl_backend_llvm.jit import CODEGEN_LEVEL, Target, host, machine
from ocannl_backend_llvm.threefry import RANDOM_BLOCK

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

MIN_PARALLEL_CHARS = 1 << 16  # characters of IR from which even a single module is compiled by a worker
MAX_WAITING_MODULES = 2  # bounds the memory of modules that no worker has begun


def compile_text(text: str, target: Target) -> bytes:
    """Compiles a module to a relocatable object."""
    module = _ModuleCompiler(text, target)
    module.emit()
    return module.code()


def compile_texts(texts: Iterable[str], target: Target) -> list[bytes]:
    """Compiles several modules to relocatable objects, in order."""
    remaining = iter(texts)
    first_texts = list(islice(remaining, 1))
    if sum(map(len, first_texts)) < MIN_PARALLEL_CHARS:
        first_texts += islice(remaining, 1)
        if len(first_texts) < 2:
            return [compile_text(text, target) for text in first_texts]
    try:
        return _compile_parallel(chain(first_texts, remaining), target)
    finally:
        trim_heap()


def _compile_parallel(texts: Iterator[str], target: Target) -> list[bytes]:
    if cores() == 1 or not threading.main_thread().is_alive():  # threads cannot be started at interpreter shutdown
        return [compile_text(text, target) for text in texts]
    from concurrent.futures import ThreadPoolExecutor  # imported lazily, since small programs need no threads

    with ThreadPoolExecutor(cores() - 1) as executor:
        jobs: list[_CompileJob] = []
        try:
            for text in texts:
                for job in jobs:
                    if job.is_done:
                        job.finish()  # frees the module
                jobs.append(_CompileJob(_ModuleCompiler(text, target), executor))
                if sum(job.is_waiting for job in jobs) > MAX_WAITING_MODULES:
                    jobs[-1].finish()
            for job in reversed(jobs):
                if job.is_waiting:
                    job.finish()
            return [job.finish() for job in jobs]
        finally:  # after an error
            for job in jobs:
                job.drop()


class _CompileJob:
    """A module compiled by a worker thread, or by the caller of `finish` if no worker has begun."""

    __slots__ = ("_code", "_future", "_module")

    def __init__(self, module: _ModuleCompiler, executor: Executor) -> None:
        self._module = module
        self._future: Future[None] = executor.submit(module.emit)
        self._code: bytes | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether no worker has begun the module."""
        return not (self._future.running() or self._future.done())

    @property
    def is_done(self) -> bool:
        return self._future.done()

    def finish(self) -> bytes:
        if self._code is None:
            if self._future.cancel():
                self._module.emit()
            else:
                self._future.result()
            self._code = self._module.code()
        return self._code

    def drop(self) -> None:
        if not self._future.cancel():
            self._future.exception()
        self._module.close()


class _ModuleCompiler:
    """A verified module in its own LLVM context."""

    __slots__ = ("_errors", "_machine", "_module", "_object_buffer", "_resources", "_text")

    def __init__(self, text: str, target: Target) -> None:
        host()  # initializes LLVM
        self._text = text
        self._object_buffer: Any = None
        # Closed in reverse order.
        self._resources = ExitStack()
        enter_context = self._resources.enter_context
        try:
            self._machine = enter_context(machine(target))
            context: Any = llvm.create_context()
            context._owned = True  # after an interrupt, the cyclic GC could dispose of the context before its module
            self._resources.callback(_dispose, context)
            self._module = enter_context(llvm.parse_assembly(text, context))
            self._errors = enter_context(ffi.OutputString())
            self._module.verify()
            with llvm.create_new_module_pass_manager() as passes:
                passes.add_sroa_pass()
                if RANDOM_BLOCK in text:  # each word is a call, and words of a block have equal arguments
                    passes.add_instruction_combine_pass()
                    passes.add_new_gvn_pass()
                passes.run(self._module, _pass_builder(target))
        except RuntimeError as error:
            self._raise_rejected(error)
        except BaseException:  # an interrupt
            self.close()
            raise

    def emit(self) -> None:
        """Emits object code; may run on any thread, concurrently with other modules."""
        self._object_buffer = _emit_object_function()(self._machine, self._module, 1, self._errors)

    def code(self) -> bytes:
        """Returns the object code of `emit` and frees the module; may be called once."""
        if not self._object_buffer:
            self._raise_rejected(self._errors)
        try:
            start, size = (
                ffi.lib.LLVMPY_GetBufferStart(self._object_buffer),
                ffi.lib.LLVMPY_GetBufferSize(self._object_buffer),
            )
            return ctypes.string_at(start, size)
        finally:
            self.close()

    def close(self) -> None:
        if self._object_buffer:
            ffi.lib.LLVMPY_DisposeMemoryBuffer(self._object_buffer)
            self._object_buffer = None
        self._resources.close()

    def _raise_rejected(self, reason: object) -> NoReturn:
        message = str(reason).strip()
        self.close()
        path = save_source(self._text, "llvm", ".ll")
        raise CompileError(f"LLVM rejected generated code, kept in {path}: {message}") from None


@cache
def _pass_builder(target: Target) -> Any:
    """Returns the pass builder of all modules, which llvmlite uses in one thread at a time: disposing of a builder
    leaves 1.5 KiB behind."""
    return llvm.create_pass_builder(machine(target), llvm.create_pipeline_tuning_options(CODEGEN_LEVEL))


def _dispose(context: Any) -> None:
    context._owned = False
    context.close()


@cache
def _emit_object_function() -> Any:
    """The function that emits object code. llvmlite's wrapper holds a global lock during the call, which is unnecessary
    because modules have separate contexts; falls back to the wrapper if the function is not found in the library."""
    wrapped = ffi.lib.LLVMPY_TargetMachineEmitToMemory
    try:
        function = ctypes.CDLL(ffi.lib._name)["LLVMPY_TargetMachineEmitToMemory"]
    except (AttributeError, TypeError, OSError):
        return wrapped
    function.argtypes, function.restype = wrapped.argtypes, wrapped.restype
    return function


def trim_heap() -> None:
    """Returns the free memory of LLVM's working data to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
