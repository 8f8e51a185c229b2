"""The C compiler: which one, what it makes code for, and a run of it.

In this order: the setting `c_compiler`, which may also be said as `CC`, then gcc, clang, cc, then the compiler inside
the `ziglang` wheel. One that was named is never replaced by another.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from ocannl.backend import BackendUnavailable, CompileError
from ocannl.base.config import C_COMPILER, COMPILE_SECONDS, child_environment

CANDIDATES = ("gcc", "clang", "cc")
WIDE = "-mprefer-vector-width=512"  # some processors have it halved: vectors are already as wide as they are to be
OWN = "-fno-predictive-commoning"  # GCC 12 writes back cells between those of a loop, which other threads may own
EFFECTS = ("-fno-ipa-pure-const", "-fno-ipa-modref")  # GCC 12 leaves out calls of nests that write from the end
TUNING = tuple(
    (*tuning, *careful)
    for tuning in (("-march=native", WIDE), ("-march=native",), ("-mcpu=native",), ())
    for careful in ((OWN, *EFFECTS), (OWN, EFFECTS[0]), ())
)
"""The first that the compiler knows; others than GCC know nothing like `OWN`, and GCC before 11 not the last one."""
VECTORS = {b"__AVX512F__": (64, 32), b"__AVX__": (32, 16), b"__SSE2__": (16, 16), b"__ARM_NEON": (16, 32)}
"""Bytes and number of the vector registers that code may use where a macro is predefined; the first one counts."""
NO_VECTORS = (0, 16)
MEANING = (
    "-std=c99",
    "-fwrapv",  # integers wrap
    "-fno-strict-aliasing",  # arrays of several types share the arena
    "-ffp-contract=off",  # products are fused with sums where the text says so, and nowhere else
    "-fno-math-errno",  # nobody reads errno, nor the flags of floating point: no value depends on these two
    "-fno-trapping-math",
    "-fno-tree-slp-vectorize",  # GCC 12 sums the wrong cells where it makes vectors of unrolled sums of three
)
WORK = "ocannl-c-work-"  # folders that live as long as a run of the compiler, or as loading what it made
STALE_SECONDS = 3600
FLAGS = (*MEANING, "-O3", "-fPIC", "-shared", "-s", "-w")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler that was asked what it is, and the flags that make code for this processor."""

    command: tuple[str, ...]
    tuning: tuple[str, ...]
    version: str
    macros: str  # a digest of what it predefines: its release, its target, the instructions that it may use
    vectors: tuple[int, int]  # bytes of a vector register that it may use, and how many there are; 0 bytes: none

    @property
    def target(self) -> str:
        """What code is made for; a shared object for one target is of no use on another."""
        return f"{sys.platform} {platform.machine()} {self.macros}"

    def __str__(self) -> str:
        return " ".join([shlex.join(self.command), self.version, *self.tuning, self.target])


def command() -> tuple[str, ...]:
    """The compiler's command; its first word is a path. Raises `BackendUnavailable`."""
    asked = C_COMPILER.find()
    if asked.value is not None:
        words = _words(asked.value, asked.source)
        path = shutil.which(words[0])
        if path is None:
            raise BackendUnavailable(f"there is no C compiler `{words[0]}`, asked for by {asked.source}")
        return (path, *words[1:])
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


def _words(text: str, source: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as wrong:
        raise BackendUnavailable(f"the C compiler `{text}`, asked for by {source}, cannot be read: {wrong}") from None


def toolchain() -> Toolchain:
    """The compiler, asked once for each state of its file."""
    words = command()
    return _ask(words, os.stat(words[0]).st_mtime_ns)


@lru_cache(maxsize=16)
def _ask(words: tuple[str, ...], _mtime_ns: int) -> Toolchain:
    refusals: list[str] = []
    for tuning in TUNING:
        asked = [*words, *MEANING, *tuning, "-dM", "-E", "-x", "c", os.devnull]
        status, out, err = run(asked, Path(tempfile.gettempdir()))
        if status == 0 and b"__VERSION__" in out:
            found = re.search(rb'#define __VERSION__ "(.*)"', out)
            version = found[1].decode("ascii", "replace") if found else "of unknown version"
            return Toolchain(words, tuning, version, hashlib.sha256(out).hexdigest()[:16], _vectors(out))
        refusals.append(f"{shlex.join(asked)}: {err.decode(errors='replace').strip() or f'status {status}'}")
    raise CompileError("\n".join(["the C compiler does not say what it is", *refusals]))


def _vectors(macros: bytes) -> tuple[int, int]:
    defined = {line.split()[1] for line in macros.splitlines() if line.startswith(b"#define ")}
    return next((registers for macro, registers in VECTORS.items() if macro in defined), NO_VECTORS)


def build(text: str, tools: Toolchain) -> bytes:
    """The shared object that C text becomes."""
    sweep(os.getpid())
    try:
        with tempfile.TemporaryDirectory(prefix=WORK) as name:
            folder = Path(name)
            (folder / "code.c").write_text(text, encoding="ascii")
            # relative names: the result says nothing of the folder
            given = [*tools.command, *FLAGS, *tools.tuning, "-o", "code.so", "code.c", "-lm"]
            status, _, err = run(given, folder, text)
            if status:
                said = err.decode(errors="replace").strip() or "it says nothing"
                raise CompileError(_failed(given, f"failed with status {status}", text) + f"\n{said}")
            try:
                return (folder / "code.so").read_bytes()
            except FileNotFoundError:
                raise CompileError(_failed(given, "succeeded and made nothing", text)) from None
    except OSError as wrong:
        raise CompileError(f"no room for the C compiler to work: {wrong}") from None


@cache
def sweep(_pid: int) -> None:
    """Removes, once a process, what processes that were killed have left in the folder for temporary files."""
    now = time.time()
    with suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            with suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                ours = entry.name.startswith(WORK) and stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
                if ours and now - found.st_mtime > STALE_SECONDS:
                    shutil.rmtree(entry.path, ignore_errors=True)


def run(given: Sequence[str], folder: Path, text: str | None = None) -> tuple[int, bytes, bytes]:
    """Status, output and errors of a command. One that does not end is ended, with all that it started."""
    seconds = COMPILE_SECONDS.get()
    environment = {**child_environment(), "LC_ALL": "C", "TMPDIR": str(folder)}
    try:
        process = subprocess.Popen(
            given, cwd=folder, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as wrong:
        raise CompileError(_failed(given, f"cannot be run: {wrong.strerror}", text)) from None
    try:
        out, err = process.communicate(timeout=seconds)
    except BaseException as why:
        _end(process)
        if isinstance(why, subprocess.TimeoutExpired):
            raise CompileError(_failed(given, f"did not end within {seconds} s (`compile_seconds`)", text)) from None
        raise
    return process.returncode, out, err


def _end(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)  # it leads a session of its own
    else:
        process.kill()
    process.communicate()


def _failed(given: Sequence[str], how: str, text: str | None) -> str:
    kept = "" if text is None else f"; its source is kept in {keep(text)}"
    return f"the C compiler {how}{kept}\n{shlex.join(given)}"


@cache
def _private_folder(_pid: int) -> Path:
    """A new folder that only this user can read."""
    return Path(tempfile.mkdtemp(prefix="ocannl-c-kept-"))


def keep(text: str) -> Path | str:
    """The file where text that was refused can be looked at."""
    try:
        path = _private_folder(os.getpid()) / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.c"
        path.write_text(text, encoding="utf-8")
    except OSError as wrong:
        return f"no file: {wrong}"
    return path
