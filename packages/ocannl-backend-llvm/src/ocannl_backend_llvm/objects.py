"""Text to object code, on all processors.

Nearly all of the time goes into one call of LLVM for each module. Other threads make it while this one writes the next
module; what none of them has begun when there is nothing else to do, this one does itself.
"""

from __future__ import annotations

import ctypes
import hashlib
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from ocannl.backend import CompileError
from ocannl.backend.cpu.device import cores
from ocannl_backend_llvm.jit import CODEGEN_LEVEL, Target, host, machine

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

LONG = 1 << 16  # characters of a module that another thread begins at once, whether or not more of them come
AHEAD = 2  # modules that wait for a thread: more would only take memory


def compile_text(text: str, target: Target) -> bytes:
    """The relocatable object that a module's text becomes."""
    module = _Module(text, target)
    module.translate()
    return module.code()


def compile_texts(texts: Iterable[str], target: Target) -> list[bytes]:
    """The objects of several modules."""
    rest = iter(texts)
    begin = list(islice(rest, 1))
    if sum(map(len, begin)) < LONG:
        begin += islice(rest, 1)
        if len(begin) < 2:
            return [compile_text(text, target) for text in begin]
    try:
        return _compiled(chain(begin, rest), target)
    finally:
        give_back()


def _compiled(texts: Iterator[str], target: Target) -> list[bytes]:
    if cores() == 1 or not threading.main_thread().is_alive():  # no thread begins when all is over
        return [compile_text(text, target) for text in texts]
    from concurrent.futures import ThreadPoolExecutor  # short programs do without

    with ThreadPoolExecutor(cores() - 1) as others:
        jobs: list[_Job] = []
        try:
            for text in texts:
                for job in jobs:
                    if job.done:
                        job.finish()  # its module takes memory
                jobs.append(_Job(_Module(text, target), others))
                if sum(job.waits for job in jobs) > AHEAD:
                    jobs[-1].finish()
            for job in reversed(jobs):
                if job.waits:
                    job.finish()
            return [job.finish() for job in jobs]
        finally:  # after an error
            for job in jobs:
                job.drop()


class _Job:
    """A module that another thread may translate, if it comes first."""

    __slots__ = ("_code", "_module", "_translated")

    def __init__(self, module: _Module, others: Executor) -> None:
        self._module = module
        self._translated: Future[None] = others.submit(module.translate)
        self._code: bytes | None = None

    @property
    def waits(self) -> bool:
        """Nobody has begun it."""
        return not (self._translated.running() or self._translated.done())

    @property
    def done(self) -> bool:
        return self._translated.done()

    def finish(self) -> bytes:
        if self._code is None:
            if self._translated.cancel():
                self._module.translate()
            else:
                self._translated.result()
            self._code = self._module.code()
        return self._code

    def drop(self) -> None:
        if not self._translated.cancel():
            self._translated.exception()
        self._module.close()


class _Module:
    """One in a context of its own, ready to be translated."""

    __slots__ = ("_buffer", "_machine", "_module", "_opened", "_text", "_wrong")

    def __init__(self, text: str, target: Target) -> None:
        host()  # LLVM is ready
        self._text = text
        self._buffer: Any = None
        # Closed in this order: the collector of cycles might free a context before the module that lives in it.
        self._opened = ExitStack()
        enter = self._opened.enter_context
        try:
            self._machine = enter(machine(target))
            self._module = enter(llvm.parse_assembly(text, enter(llvm.create_context())))
            self._wrong = enter(ffi.OutputString())
            self._module.verify()
            with ExitStack() as passing:
                tuning = passing.enter_context(llvm.create_pipeline_tuning_options(CODEGEN_LEVEL))
                builder = passing.enter_context(llvm.create_pass_builder(self._machine, tuning))
                passes = passing.enter_context(llvm.create_new_module_pass_manager())
                passes.add_sroa_pass()
                passes.run(self._module, builder)
        except RuntimeError as error:
            self._refuse(error)

    def translate(self) -> None:
        """By whichever thread, and side by side with others."""
        self._buffer = _translate()(self._machine, self._module, 1, self._wrong)

    def code(self) -> bytes:
        """What `translate` has made, once."""
        if not self._buffer:
            self._refuse(self._wrong)
        try:
            start, size = ffi.lib.LLVMPY_GetBufferStart(self._buffer), ffi.lib.LLVMPY_GetBufferSize(self._buffer)
            return ctypes.string_at(start, size)
        finally:
            self.close()

    def close(self) -> None:
        if self._buffer:
            ffi.lib.LLVMPY_DisposeMemoryBuffer(self._buffer)
            self._buffer = None
        self._opened.close()

    def _refuse(self, reason: object) -> NoReturn:
        said = str(reason).strip()
        self.close()
        raise CompileError(f"LLVM refused generated code, kept in {keep(self._text)}: {said}") from None


@cache
def _translate() -> Any:
    """The function of llvmlite that makes object code. All of them share one lock, so that no two run at once; this one
    touches nothing but the module it is given, and needs none. Where its library is not found, it has the lock."""
    locked = ffi.lib.LLVMPY_TargetMachineEmitToMemory
    try:
        function = ctypes.CDLL(ffi.lib._name)["LLVMPY_TargetMachineEmitToMemory"]
    except (AttributeError, TypeError, OSError):
        return locked
    function.argtypes, function.restype = locked.argtypes, locked.restype
    return function


def give_back() -> None:
    """To the system, what LLVM worked in, so that arrays of programs come in its place."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@cache
def _private_folder() -> Path:
    """A new folder that only this user can read."""
    return Path(tempfile.mkdtemp(prefix="ocannl-llvm-"))


def keep(text: str) -> Path:
    """The file where text that was refused can be looked at."""
    path = _private_folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.ll"
    path.write_text(text, encoding="utf-8")
    return path
