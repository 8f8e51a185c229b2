"""Settings: what each is now, and who said so.

A setting is looked up as: argument > context manager > environment > project file > default. This is the only module
that reads the environment. The project file is the nearest `ocannl.toml`, or `pyproject.toml` with a table
`[tool.ocannl]`, in the current folder or above it.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

from ocannl.base.errors import ConfigError

T = TypeVar("T")
PREFIX = "OCANNL_"


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """A value, and where it came from."""

    value: T
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class Setting(Generic[T]):
    """One row of the table. `read` turns what a person wrote, a text or a TOML value, into the value, and raises
    `ValueError` saying what would fit. `custom` is a variable that other programs ask too, where ours is not set."""

    name: str
    read: Callable[[object], T]
    default: T
    doc: str
    custom: str | None = None

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    def get(self, argument: T | None = None) -> T:
        return self.find(argument).value

    def find(self, argument: T | None = None) -> Found[T]:
        if argument is not None:
            return Found(self.parse(argument, "argument"), "argument")
        here = _overrides.get()
        if self.name in here:
            return Found(self.parse(here[self.name], "context manager"), "context manager")
        if text := os.environ.get(self.variable):  # an empty variable is one that is not set
            return Found(self.parse(text, self.variable), self.variable)
        file = project_file()
        if file is not None and self.name in file.table:
            return Found(self.parse(file.table[self.name], str(file.path)), str(file.path))
        if self.custom and (text := os.environ.get(self.custom)):
            return Found(self.parse(text, self.custom), self.custom)
        return Found(self.default, "default")

    def parse(self, given: object, source: str) -> T:
        try:
            return self.read(given)
        except ValueError as wrong:
            raise ConfigError(f"{self.name} = {given!r}, from {source}: {wrong}") from None


# ------------------------------------------------------------------------------------------------- what may be written


def _name(given: object) -> str:
    if isinstance(given, str) and given.strip():
        return given.strip()
    raise ValueError("a name is wanted")


def _natural(least: int) -> Callable[[object], int]:
    def read(given: object) -> int:
        if isinstance(given, str):
            given = int(given) if given.strip().lstrip("+-").isdecimal() else None
        if isinstance(given, int) and not isinstance(given, bool) and given >= least:
            return given
        raise ValueError(f"an integer of at least {least} is wanted")

    return read


def _optional(read: Callable[[object], T]) -> Callable[[object], T | None]:
    return lambda given: None if given is None else read(given)


_TRUTH = {"on": True, "1": True, "true": True, "yes": True, "off": False, "0": False, "false": False, "no": False}


def _switch(given: object) -> bool:
    truth = given if isinstance(given, bool) else _TRUTH.get(str(given).strip().lower())
    if truth is None:
        raise ValueError("`on` or `off` is wanted")
    return truth


def _one_of(*choices: str) -> Callable[[object], str]:
    def read(given: object) -> str:
        word = given.strip().lower() if isinstance(given, str) else None
        if word in choices:
            return word
        raise ValueError(f"one of {', '.join(choices)} is wanted")

    return read


def _folder(given: object) -> Path:
    if isinstance(given, str | Path) and str(given).strip():
        with suppress(RuntimeError):  # there is no such user
            return Path(given).expanduser().absolute()
    raise ValueError("the path of a folder is wanted")


FLOATS = ("float8_e5m2", "float8_e4m3fn", "float16", "bfloat16", "float32", "float64")
BACKEND: Setting[str | None] = Setting("backend", _optional(_name), None, "the backend of a context that names none")
PRECISION = Setting("precision", _one_of(*FLOATS), "float32", "of tensors of which neither they nor their users say it")
GRADIENT_PRECISION: Setting[str | None] = Setting(
    "gradient_precision", _optional(_one_of(*FLOATS)), None, "of gradients; default: as their values have it"
)
SEED = Setting("seed", _natural(0), 42, "of every random stream that is given no other")
THREADS: Setting[int | None] = Setting("threads", _optional(_natural(1)), None, "of a context; default: all cores")
QUEUE = Setting("queue", _one_of("inline", "threaded"), "inline", "of a context: who runs routines, caller or a thread")
CACHE = Setting("cache", _switch, True, "keep compiled code on disk")
CACHE_DIR: Setting[Path | None] = Setting("cache_dir", _optional(_folder), None, "where; default: in the user's caches")
VERIFY = Setting(
    "verify", _one_of("off", "ends", "every"), "ends", "check programs: never, lowered and optimized, after each pass"
)
TRACEBACK = Setting("traceback", _one_of("user", "full"), "user", "of an error: to the user's line, or all frames")
C_COMPILER: Setting[str | None] = Setting(
    "c_compiler",
    _optional(_name),
    None,
    "the command of the C compiler; default: `CC`, gcc, clang, cc, or the ziglang wheel",
    custom="CC",
)
COMPILE_SECONDS = Setting("compile_seconds", _natural(1), 300, "after which a compiler that does not end is ended")
SEARCH = Setting(
    "search", _natural(0), 0, "seconds for timing other schedules of a routine's nests; 0: by the model"
)
PRODUCTS = Setting(
    "products",
    _one_of("ieee", "tf32x3", "tf32", "bfloat16"),
    "ieee",
    "how matrix units multiply float32: as it is meant, or faster, with fewer bits of each factor",
)
ONLINE_SOFTMAX = Setting(
    "online_softmax", _switch, True, "on GPUs, find the largest score of a softmax while its weights are summed"
)
LOG_LEVEL: Setting[str | None] = Setting(
    "log_level",
    _optional(_one_of("debug", "info", "warning", "error")),
    None,
    "print messages of this level and above; default: leave it to the application",
)
TRACE = Setting("trace", _natural(0), 0, "how many cells each call of a routine logs as it writes them; 0: none")

SETTINGS: tuple[Setting[object], ...] = (
    BACKEND, PRECISION, GRADIENT_PRECISION, SEED, THREADS, QUEUE, CACHE, CACHE_DIR, VERIFY, TRACEBACK, C_COMPILER,
    COMPILE_SECONDS, SEARCH, PRODUCTS, ONLINE_SOFTMAX, LOG_LEVEL, TRACE,
)  # type: ignore[assignment]  # fmt: skip
_BY_NAME = {setting.name: setting for setting in SETTINGS}


def _unknown(name: str, source: str) -> ConfigError:
    close = difflib.get_close_matches(name, _BY_NAME, 1)
    hint = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(_BY_NAME)}"
    return ConfigError(f"there is no setting `{name}` ({source}); {hint}")


# ------------------------------------------------------------------------------------------------------- who says so

_overrides: ContextVar[Mapping[str, object]] = ContextVar("ocannl_settings", default={})  # noqa: B039 (never changed)


@contextmanager
def settings(**values: object) -> Iterator[None]:
    """Inside, the named settings have these values; None gives way to whoever else sets them."""
    for name, value in values.items():
        if name not in _BY_NAME:
            raise _unknown(name, "context manager")
        if value is not None:
            _BY_NAME[name].parse(value, "context manager")
    merged = {**_overrides.get(), **values}
    token = _overrides.set({name: value for name, value in merged.items() if value is not None})
    try:
        yield
    finally:
        _overrides.reset(token)


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Inside, contexts that name no backend use this one."""
    with settings(backend=name):
        yield


@dataclass(frozen=True, slots=True)
class ProjectFile:
    path: Path
    table: Mapping[str, object]


def project_file() -> ProjectFile | None:
    """The nearest file of settings, at or above the current folder."""
    try:
        places = _places(os.getcwd())
    except FileNotFoundError:  # somebody deleted the folder we are in
        return None
    for path in places:
        try:
            stamp = os.stat(path)  # every leaf of a model asks for a setting: texts are ten times as fast as paths
        except OSError:
            continue
        table = _table(path, stamp.st_mtime_ns, stamp.st_size)
        if table is not None:
            return ProjectFile(Path(path), table)
    return None


@lru_cache(maxsize=16)
def _places(folder: str) -> tuple[str, ...]:
    """Where a project file may be, the nearest first."""
    here = Path(folder)
    return tuple(str(above / name) for above in (here, *here.parents) for name in ("ocannl.toml", "pyproject.toml"))


@lru_cache(maxsize=16)
def _table(path: str, _mtime_ns: int, _size_bytes: int) -> Mapping[str, object] | None:
    import tomllib

    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except IsADirectoryError:
        return None
    except OSError as wrong:
        raise ConfigError(f"{path} cannot be read: {wrong.strerror}") from None
    shared = path.endswith("pyproject.toml")
    if shared and "ocannl" not in text:
        return None
    try:
        table: object = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise ConfigError(f"{path} cannot be read: {wrong}") from None
    if shared:
        tool = table.get("tool") if isinstance(table, dict) else None
        table = tool.get("ocannl") if isinstance(tool, dict) else None
        if table is None:
            return None
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: `tool.ocannl` must be a table")
    for name in table:
        if name not in _BY_NAME:
            raise _unknown(name, str(path))
    return table


def check() -> tuple[str, ...]:
    """Refuse what looks like a misspelt variable; return the other variables of our prefix that mean nothing here."""
    known = {setting.variable for setting in SETTINGS}
    strangers = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    for name in strangers:
        close = difflib.get_close_matches(name, known, 1, cutoff=0.85)
        if close:
            raise ConfigError(f"there is no setting `{name}` (environment); did you mean `{close[0]}`?")
    return tuple(strangers)


def explain() -> tuple[tuple[Setting[object], Found[object]], ...]:
    """Every setting, its value and who said so."""
    return tuple((setting, setting.find()) for setting in SETTINGS)


def user_cache_folder() -> Path:
    """Where compiled code is kept when nobody says otherwise."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("ocannl", appauthor=False))


def child_environment() -> dict[str, str]:
    """For a process that should find what this one finds: the variables, and the path of modules."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
