"""Selects, queries and runs the C compiler.

Candidates in order of precedence: the setting `c_compiler` (or the environment variable `CC`), gcc, clang, cc, and the
compiler of the `ziglang` wheel. A compiler named by the setting is never replaced by another one.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path

from ocannl.backend import BackendUnavailable, CompileError, save_source
from ocannl.backend.cpu.device import cores
from ocannl.base.config import C_COMPILER, COMPILE_SECONDS, child_environment
from ocannl.base.work_folder import remove_stale_folders, work_folder

CANDIDATES = ("gcc", "clang", "cc")
FULL_WIDTH_VECTORS = "-mprefer-vector-width=512"  # overrides CPU defaults of 256
NO_SPECULATIVE_STORES = "-fno-predictive-commoning"  # GCC 12 stores to cells of other threads otherwise
NO_EFFECT_ANALYSIS = ("-fno-ipa-pure-const", "-fno-ipa-modref")  # GCC 12 drops calls of nests with reversed stores
TUNING_CANDIDATES = tuple(
    (*tuning, *careful)
    for tuning in (("-march=native", FULL_WIDTH_VECTORS), ("-march=native",), ("-mcpu=native",), ())
    for careful in ((NO_SPECULATIVE_STORES, *NO_EFFECT_ANALYSIS), (NO_SPECULATIVE_STORES, NO_EFFECT_ANALYSIS[0]), ())
)
"""The first candidate that the compiler accepts is used. Only GCC accepts `NO_SPECULATIVE_STORES`, and only GCC 11 and
later accept the last flag of `NO_EFFECT_ANALYSIS`."""
VECTOR_REGISTERS = {b"__AVX512F__": (64, 32), b"__AVX__": (32, 16), b"__SSE2__": (16, 16), b"__ARM_NEON": (16, 32)}
"""Size in bytes and number of vector registers, by predefined macro; the first match counts."""
NO_VECTORS = (0, 16)
SEMANTICS = (
    "-std=c99",
    "-fwrapv",  # signed integers wrap around
    "-fno-strict-aliasing",  # arrays of different types share the arena
    "-ffp-contract=off",  # only explicit `fma` calls are fused
    "-fno-math-errno",  # errno and floating-point exception flags are never read
    "-fno-trapping-math",
    "-fno-tree-slp-vectorize",  # GCC 12 miscompiles unrolled sums of three terms
)
KILL_SECONDS = 5  # in which a killed process ends
FLAGS = (*SEMANTICS, "-O3", "-fPIC", "-g0", "-w")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A C compiler, its version, and the flags that generate code for this CPU."""

    command: tuple[str, ...]
    tuning: tuple[str, ...]
    version: str
    macros: str  # digest of the predefined macros: release, target, instruction set
    vector_registers: tuple[int, int]  # size in bytes (0: none) and number

    @property
    def target(self) -> str:
        """Identifies the target; shared objects are not portable between targets."""
        return f"{sys.platform} {platform.machine()} {self.macros}"

    def __str__(self) -> str:
        return " ".join([shlex.join(self.command), self.version, *self.tuning, self.target])


def command() -> tuple[str, ...]:
    """The compiler command, starting with the path of the executable. Raises `BackendUnavailable`."""
    setting = C_COMPILER.resolve()
    if setting.value is not None:
        args = _split_command(setting.value, setting.source)
        path = shutil.which(args[0])
        if path is None:
            raise BackendUnavailable(f"the C compiler `{args[0]}`, requested by {setting.source}, is not installed")
        return (path, *args[1:])
    for name in CANDIDATES:
        path = shutil.which(name)
        if path is not None:
            return (path,)
    if find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc")
    raise BackendUnavailable(
        f"there is no C compiler: none of {', '.join(CANDIDATES)} is installed, nor the wheel that has one; "
        "run: pip install ocannl-backend-c[zig]"
    )


def _split_command(text: str, source: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BackendUnavailable(f"the C compiler `{text}`, requested by {source}, cannot be read: {error}") from None


def toolchain() -> Toolchain:
    """The compiler's description, cached per modification time of the executable."""
    compiler = command()
    return _query_compiler(compiler, os.stat(compiler[0]).st_mtime_ns)


@lru_cache(maxsize=16)
def _query_compiler(command: tuple[str, ...], _mtime_ns: int) -> Toolchain:
    failures: list[str] = []
    for tuning in TUNING_CANDIDATES:
        query = [*command, *SEMANTICS, *tuning, "-dM", "-E", "-x", "c", os.devnull]
        status, out, err = run(query, Path(tempfile.gettempdir()))
        if status == 0 and b"__VERSION__" in out:
            match = re.search(rb'#define __VERSION__ "(.*)"', out)
            version = match[1].decode("ascii", "replace") if match else "of unknown version"
            return Toolchain(command, tuning, version, hashlib.sha256(out).hexdigest()[:16], _vector_registers(out))
        failures.append(f"{shlex.join(query)}: {err.decode(errors='replace').strip() or f'status {status}'}")
    raise CompileError("\n".join(["the C compiler does not report its version", *failures]))


def _vector_registers(macros: bytes) -> tuple[int, int]:
    defined = {line.split()[1] for line in macros.splitlines() if line.startswith(b"#define ")}
    return next((registers for macro, registers in VECTOR_REGISTERS.items() if macro in defined), NO_VECTORS)


def build(texts: Iterable[str], tools: Toolchain) -> bytes:
    """Compiles C texts, several at a time, and links them to a shared object."""
    remove_stale_folders(os.getpid())
    remaining = iter(texts)
    first_texts = list(islice(remaining, 2))
    try:
        with work_folder() as folder:
            if len(first_texts) == 1:  # compiled and linked by one command
                return _link([_source_file(folder, first_texts[0])], tools, first_texts[0])
            return _link(_compile_all(chain(first_texts, remaining), tools, folder), tools)
    except OSError as error:
        raise CompileError(f"the C compiler's temporary files cannot be written: {error}") from None


def _source_file(folder: Path, text: str, number: int = 0) -> Path:
    path = folder / (f"code{number}.c" if number else "code.c")
    path.write_text(text, encoding="ascii")
    return path


def _compile_all(texts: Iterable[str], tools: Toolchain, folder: Path) -> list[Path]:
    """Compiles each text to an object file. Texts are taken while earlier ones are being compiled."""
    objects: list[Path] = []
    jobs: deque[_CompilerRun] = deque()
    try:
        for number, text in enumerate(texts, 1):
            source = _source_file(folder, text, number)
            objects.append(source.with_suffix(".o"))
            if len(jobs) >= cores():
                jobs[0].finish()
                jobs.popleft()  # after it has ended, so that an interrupt leaves no job out
            argv = [*tools.command, *FLAGS, *tools.tuning, "-c", "-o", objects[-1].name, source.name]
            jobs.append(_CompilerRun(argv, folder, text))
        for job in jobs:
            job.finish()
    except BaseException:
        for job in jobs:
            job.kill()
        for job in jobs:
            job.reap()
        raise
    return objects


def _link(inputs: Sequence[Path], tools: Toolchain, text: str | None = None) -> bytes:
    """Links C or object files; `text` is the content of a C file."""
    folder, names = inputs[0].parent, [path.name for path in inputs]
    # relative names keep the folder out of the object, so that builds are reproducible
    argv = [*tools.command, *FLAGS, *tools.tuning, "-shared", "-o", "code.so", *names, "-lm"]
    _CompilerRun(argv, folder, text).finish()
    try:
        return (folder / "code.so").read_bytes()
    except FileNotFoundError:
        raise CompileError(_failure_message(argv, "succeeded but wrote no output", text)) from None


def run(argv: Sequence[str], folder: Path) -> tuple[int, bytes, bytes]:
    """Runs a command and returns its status, stdout and stderr. After a timeout its process group is killed."""
    return _CompilerRun(argv, folder).outcome()


class _CompilerRun:
    """A command that runs until a deadline; `text` is the C text that it compiles, if there is one."""

    __slots__ = ("_argv", "_deadline", "_process", "_seconds", "_text")

    def __init__(self, argv: Sequence[str], folder: Path, text: str | None = None) -> None:
        self._argv, self._text, self._seconds = argv, text, COMPILE_SECONDS.get()
        self._deadline = time.monotonic() + self._seconds
        environment = {**child_environment(), "LC_ALL": "C", "TMPDIR": str(folder)}
        try:
            self._process = subprocess.Popen(
                argv, cwd=folder, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            raise CompileError(_failure_message(argv, f"cannot be run: {error.strerror}", text)) from None

    def finish(self) -> None:
        """Waits for the command. Raises `CompileError` if it fails."""
        status, _, err = self.outcome()
        if status:
            output = err.decode(errors="replace").strip() or "no error output"
            raise CompileError(_failure_message(self._argv, f"failed with status {status}", self._text) + f"\n{output}")

    def outcome(self) -> tuple[int, bytes, bytes]:
        """Waits for the command and returns its status, stdout and stderr. Kills it at the deadline, and after an
        interrupt."""
        try:
            out, err = self._process.communicate(timeout=max(0, self._deadline - time.monotonic()))
        except BaseException as reason:
            self.kill()
            self.reap()
            if isinstance(reason, subprocess.TimeoutExpired):
                outcome = f"did not finish within {self._seconds} s (`compile_seconds`)"
                raise CompileError(_failure_message(self._argv, outcome, self._text)) from None
            raise
        return self._process.returncode, out, err

    def kill(self) -> None:
        """Kills the process with its descendants, unless it has ended: its number may belong to another process then.
        An interrupted `communicate` waits for the process for a moment, so that it may have ended in the meantime."""
        if self._process.poll() is None:
            if hasattr(os, "killpg"):
                with suppress(ProcessLookupError, PermissionError):  # it is ending
                    os.killpg(self._process.pid, signal.SIGKILL)  # the process leads its own session
            else:
                self._process.kill()

    def reap(self) -> None:
        """Closes the pipes of a killed process and waits for its end; without effect if its output was read before.
        An interrupted `communicate` cannot always be called again, and may have left a lock locked for which `wait`
        without a limit would wait forever."""
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_SECONDS)


def _failure_message(argv: Sequence[str], outcome: str, text: str | None) -> str:
    source_note = "" if text is None else f"; its source is kept in {save_source(text, 'c', '.c')}"
    return f"the C compiler {outcome}{source_note}\n{shlex.join(argv)}"
