"""Settings, with the source of each value.

A setting is looked up as: argument > context manager > environment > project file > the user's file > default (see
`settings_files`). This is the only module that reads settings from the environment.
"""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ContextDecorator, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from ocannl.base import settings_files
from ocannl.base.errors import ConfigError
from ocannl.base.settings_files import SettingsFile, unknown_setting

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
PREFIX = "OCANNL_"
MAX_SHOWN = 200  # characters of a value in an error
ISOLATED = "_OCANNL_ISOLATED"  # variable of the environment of isolated processes


@dataclass(frozen=True, slots=True)
class Resolved(Generic[T]):
    """The effective value of a setting, and its source."""

    value: T
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class ConfigSetting(Generic[T]):
    """A setting. `read` converts a string or TOML value, and raises `ValueError` with the expected form. `custom` is a
    conventional environment variable with lower precedence, such as `CC`. A `personal` setting runs commands or chooses
    where files are written: project files set it only in folders that the user trusts."""

    name: str
    read: Callable[[object], T]
    default: T
    doc: str
    custom: str | None = None
    personal: bool = False

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    def get(self, argument: T | None = None) -> T:
        return self.resolve(argument).value

    def resolve(self, argument: T | None = None) -> Resolved[T]:
        if argument is not None:
            return Resolved(self.parse(argument, "argument"), "argument")
        overrides = _overrides.get()
        if self.name in overrides:
            return Resolved(self.parse(overrides[self.name], "context manager"), "context manager")
        if text := os.environ.get(self.variable):  # an empty variable counts as unset
            return Resolved(self.parse(text, self.variable), self.variable)
        for read_file in (settings_files.project_file, settings_files.user_file):
            file = read_file(_BY_NAME)
            if file is not None and self.name in file.table:
                return Resolved(self.parse(file.table[self.name], str(file.path)), str(file.path))
        if self.custom and (text := os.environ.get(self.custom)):
            return Resolved(self.parse(text, self.custom), self.custom)
        return Resolved(self.default, "default")

    def parse(self, raw: object, source: str) -> T:
        try:
            return self.read(raw)
        except ValueError as error:
            raise ConfigError(f"{self.name} = {repr(raw)[:MAX_SHOWN]}, from {source}: {error}") from None


# ------------------------------------------------------------------------------------------------------------- parsers


def _name(raw: object) -> str:
    if isinstance(raw, str) and raw.strip() and "\0" not in raw:
        return raw.strip()
    raise ValueError("expected a name")


def _natural(minimum: int, maximum: int = 2**31 - 1) -> Callable[[object], int]:
    def read(raw: object) -> int:
        if isinstance(raw, str):
            raw = int(raw) if raw.strip().lstrip("+-").isdecimal() else None
        if isinstance(raw, int) and not isinstance(raw, bool) and minimum <= raw <= maximum:
            return raw
        is_large = isinstance(raw, int) and raw > maximum
        limit = f"at most {maximum}" if is_large else f"at least {minimum}"
        raise ValueError(f"expected an integer of {limit}")

    return read


def _optional(read: Callable[[object], T]) -> Callable[[object], T | None]:
    return lambda raw: None if raw is None else read(raw)


_TRUTH = {"on": True, "1": True, "true": True, "yes": True, "off": False, "0": False, "false": False, "no": False}


def _switch(raw: object) -> bool:
    truth = raw if isinstance(raw, bool) else _TRUTH.get(str(raw).strip().lower())
    if truth is None:
        raise ValueError("expected `on` or `off`")
    return truth


def _choice(*choices: str) -> Callable[[object], str]:
    def read(raw: object) -> str:
        word = raw.strip().lower() if isinstance(raw, str) else None
        if word in choices:
            return word
        raise ValueError(f"expected one of {', '.join(choices)}")

    return read


def _folder(raw: object) -> Path:
    if isinstance(raw, str | Path) and str(raw).strip() and "\0" not in str(raw):
        with suppress(RuntimeError):  # there is no such user
            return Path(raw).expanduser().absolute()
    raise ValueError("expected the path of a folder")


def _file(raw: object) -> Path:
    try:
        return _folder(raw)
    except ValueError:
        raise ValueError("expected the path of a file") from None


FLOATS = ("float8_e5m2", "float8_e4m3fn", "float16", "bfloat16", "float32", "float64")
BACKEND: ConfigSetting[str | None] = ConfigSetting("backend", _optional(_name), None, "default backend of contexts")
DISCOVERY = ConfigSetting(
    "discovery", _switch, True, "consider the backends of all installed packages; off: those of ocannl, and a named one"
)
PRECISION = ConfigSetting("precision", _choice(*FLOATS), "float32", "default data type of tensors")
GRADIENT_PRECISION: ConfigSetting[str | None] = ConfigSetting(
    "gradient_precision", _optional(_choice(*FLOATS)), None, "data type of gradients; default: that of their values"
)
SEED = ConfigSetting("seed", _natural(0, 2**64 - 1), 42, "default seed of random streams")
THREADS: ConfigSetting[int | None] = ConfigSetting(
    "threads", _optional(_natural(1, 1024)), None, "threads of a context; default: all cores"
)
QUEUE = ConfigSetting(
    "queue", _choice("inline", "threaded"), "inline", "thread that runs routines: the caller's or a worker"
)
CACHE = ConfigSetting("cache", _switch, True, "cache compiled code on disk")
CACHE_DIR: ConfigSetting[Path | None] = ConfigSetting(
    "cache_dir", _optional(_folder), None, "folder of compiled code; default: the user's caches", personal=True
)
CACHE_BYTES = ConfigSetting(
    "cache_bytes", _natural(0, 2**63 - 1), 1 << 30, "maximal size of the folder of compiled code"
)
CPU: ConfigSetting[Path | None] = ConfigSetting(
    "cpu",
    _optional(_file),
    None,
    "file with the description of the processor that programs are planned for; default: this machine is measured once",
)
VERIFY = ConfigSetting(
    "verify",
    _choice("off", "ends", "every"),
    "ends",
    "verify programs: never, before and after the passes, or after each",
)
ON_DEFECT = ConfigSetting(
    "on_defect",
    _choice("recover", "raise"),
    "recover",
    "if a compiler pass or a backend has a defect: compile without it and warn, or raise an error; `verify` = `every` "
    "also raises",
)
TRACEBACK = ConfigSetting(
    "traceback", _choice("user", "full"), "user", "end tracebacks at the user's line, or show all frames"
)
C_COMPILER: ConfigSetting[str | None] = ConfigSetting(
    "c_compiler",
    _optional(_name),
    None,
    "the command of the C compiler; default: `CC`, gcc, clang, cc, or the ziglang wheel",
    custom="CC",
    personal=True,
)
COMPILE_SECONDS = ConfigSetting("compile_seconds", _natural(1), 300, "time limit of the C compiler")
AUTOTUNE = ConfigSetting(
    "autotune", _natural(0), 0, "seconds for benchmarking other schedules of a routine; 0: the cost model decides"
)
PRODUCTS = ConfigSetting(
    "products",
    _choice("ieee", "tf32x3", "tf32", "bfloat16"),
    "ieee",
    "precision of float32 products on matrix units: IEEE, or faster with fewer bits of each factor",
)
ONLINE_SOFTMAX = ConfigSetting(
    "online_softmax", _switch, True, "on GPUs, compute softmax in one pass with a running maximum"
)
TRANSPORT = ConfigSetting("transport", _name, "single", "communication between the processes of a world")
SHARED_MEMORY = ConfigSetting(
    "shared_memory", _switch, True, "processes of one host exchange arrays in shared memory; off: in messages"
)
HEARTBEAT_SECONDS = ConfigSetting(
    "heartbeat_seconds", _natural(1), 4, "silence after which a process of a world is considered lost"
)
LOG_LEVEL: ConfigSetting[str | None] = ConfigSetting(
    "log_level",
    _optional(_choice("debug", "info", "warning", "error")),
    None,
    "print messages of this level and above; default: leave it to the application",
)
TRACE = ConfigSetting("trace", _natural(0), 0, "maximal number of written cells that a call logs; 0: none")
CHECK_NUMBERS = ConfigSetting(
    "check_numbers", _switch, False, "stop a call at NaN and name the node where the first one is; keeps all nodes"
)

SETTINGS: tuple[ConfigSetting[object], ...] = (
    BACKEND, PRECISION, GRADIENT_PRECISION, SEED, THREADS, QUEUE, CACHE, CACHE_DIR, CACHE_BYTES, CPU, VERIFY,
    ON_DEFECT, TRACEBACK, C_COMPILER, COMPILE_SECONDS, AUTOTUNE, PRODUCTS, ONLINE_SOFTMAX, LOG_LEVEL, TRACE,
    CHECK_NUMBERS, DISCOVERY, TRANSPORT, SHARED_MEMORY, HEARTBEAT_SECONDS,
)  # type: ignore[assignment]  # fmt: skip
_BY_NAME = {setting.name: setting for setting in SETTINGS}


# --------------------------------------------------------------------------------------------------------- overrides

_overrides: ContextVar[Mapping[str, object]] = ContextVar("ocannl_settings", default={})  # noqa: B039 (never changed)


class Overrides(ContextDecorator, AbstractContextManager[None]):
    """Overrides settings inside `with`, or in calls of a decorated function; warns if it is used for neither."""

    def __init__(self, values: dict[str, object], call: str, is_used: bool = False) -> None:
        self._values, self._call, self._is_used = values, call, is_used
        self._tokens: list[Token[Mapping[str, object]]] = []

    def __enter__(self) -> None:
        self._is_used = True
        merged = {**_overrides.get(), **self._values}
        self._tokens.append(_overrides.set({name: value for name, value in merged.items() if value is not None}))

    def __exit__(self, *_: object) -> None:
        _overrides.reset(self._tokens.pop())

    def __call__(self, function: F) -> F:
        self._is_used = True
        return super().__call__(function)

    def _recreate_cm(self) -> Overrides:  # one for each call of a decorated function, which threads may share
        return Overrides(self._values, self._call, is_used=True)

    def __del__(self) -> None:
        if not self._is_used:
            variables = [_BY_NAME[name].variable for name, value in self._values.items() if value is not None]
            where = ", ".join(variables) or f"{PREFIX}..."
            message = f"{self._call} has no effect by itself: write `with {self._call}:`, or set {where}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


def settings(**values: object) -> AbstractContextManager[None]:
    """Context manager that overrides settings; None removes an outer override."""
    return overrides(values, f"oc.settings({', '.join(f'{name}={value!r}' for name, value in values.items())})")


def overrides(values: dict[str, object], call: str) -> AbstractContextManager[None]:
    """`settings` for a function that users call otherwise, as in the text of its `call`."""
    for name, value in values.items():
        if name not in _BY_NAME:
            raise unknown_setting(name, "context manager", _BY_NAME)
        if value is not None:
            _BY_NAME[name].parse(value, "context manager")
    return Overrides(values, call)


def use_backend(name: str) -> AbstractContextManager[None]:
    """Context manager that sets the default backend of contexts."""
    return overrides({"backend": name}, f"oc.use_backend({name!r})")


def assignments(value: object) -> dict[str, str]:
    """What to write instead of the assignment of a value to an attribute of the module that is named as a setting."""
    return {
        name: f"write `with oc.settings({name}={value!r}):`, or set {setting.variable}"
        for name, setting in _BY_NAME.items()
    }


def project_file() -> SettingsFile | None:
    """Returns the nearest project file in the current folder or its ancestors; None if there is none."""
    return settings_files.project_file(_BY_NAME)


def check() -> tuple[str, ...]:
    """Raises `ConfigError` for a variable that resembles a setting; returns all other unknown `OCANNL_` variables."""
    variables = {setting.variable for setting in SETTINGS}
    strangers = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in variables)
    for name in strangers:
        close = difflib.get_close_matches(name, variables, 1, cutoff=0.85)
        if close:
            raise ConfigError(f"unknown setting `{name}` (environment); did you mean `{close[0]}`?")
    return tuple(strangers)


def explain() -> tuple[tuple[ConfigSetting[object], Resolved[object]], ...]:
    """Returns every setting with its effective value and source."""
    return tuple((setting, setting.resolve()) for setting in SETTINGS)


def user_cache_folder() -> Path:
    """Returns the default folder of the compilation cache."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("ocannl", appauthor=False))


def child_environment() -> dict[str, str]:
    """Returns the environment of a child process that can import the modules importable here."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


_is_isolated = ISOLATED in os.environ  # when this module is imported, whatever becomes of the environment


def is_isolated() -> bool:
    """Whether a process of ocannl has started this one to isolate it; this one must not isolate anything in turn."""
    return _is_isolated


def variables(prefixes: tuple[str, ...]) -> list[tuple[str, str]]:
    """Returns the environment variables whose names start so, sorted."""
    return sorted((name, value) for name, value in os.environ.items() if name.startswith(prefixes))
