"""Settings, with the source of each value.

A setting is looked up as: argument > context manager > environment > project file > the user's file > default (see
`settings_files`). This is the only module that reads settings from the environment.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ContextDecorator
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import update_wrapper
from pathlib import Path
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from ocannl.base import settings_files
from ocannl.base.errors import ConfigError, PluginError
from ocannl.base.setting_types import choice, file_path, folder_path, natural, optional, switch, text
from ocannl.base.settings_files import SettingRow, SettingRows, SettingsFile, unknown_setting
from ocannl.base.spelling import unknown_name

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
PREFIX = "OCANNL_"
MAX_SHOWN = 200  # characters of a value in an error
_log = logging.getLogger("ocannl.base.config")
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
    where files are written: project files set it only in folders that the user trusts. A setting in the package of a
    backend that `changes_code` is part of the keys of compiled code, by the `repr` of its value."""

    name: str
    read: Callable[[object], T]
    default: T
    doc: str
    custom: str | None = None
    personal: bool = False
    changes_code: bool = False

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
        if value := os.environ.get(self.variable):  # an empty variable counts as unset
            return Resolved(self.parse(value, self.variable), self.variable)
        for read_file in (settings_files.project_file, settings_files.user_file):
            file = read_file(TABLE)
            if file is not None and self.name in file.table:
                return Resolved(self.parse(file.table[self.name], str(file.path)), str(file.path))
        if self.custom and (value := os.environ.get(self.custom)):
            return Resolved(self.parse(value, self.custom), self.custom)
        return Resolved(self.default, "default")

    def parse(self, raw: object, source: str) -> T:
        try:
            return self.read(raw)
        except (ValueError, TypeError, OverflowError) as error:
            raise ConfigError(f"{self.name} = {repr(raw)[:MAX_SHOWN]}, from {source}: {error}") from None


FLOATS = ("float8_e5m2", "float8_e4m3fn", "float16", "bfloat16", "float32", "float64")
BACKEND: ConfigSetting[str | None] = ConfigSetting("backend", optional(text), None, "default backend of contexts")
DISCOVERY = ConfigSetting(
    "discovery", switch, True, "consider the backends of all installed packages; off: those of ocannl, and a named one"
)
PRECISION = ConfigSetting("precision", choice(*FLOATS), "float32", "default data type of tensors")
GRADIENT_PRECISION: ConfigSetting[str | None] = ConfigSetting(
    "gradient_precision", optional(choice(*FLOATS)), None, "data type of gradients; default: that of their values"
)
SEED = ConfigSetting("seed", natural(0, 2**64 - 1), 42, "default seed of random streams")
THREADS: ConfigSetting[int | None] = ConfigSetting(
    "threads", optional(natural(1, 1024)), None, "threads of a context; default: all cores"
)
QUEUE = ConfigSetting(
    "queue", choice("inline", "threaded"), "inline", "thread that runs routines: the caller's or a worker"
)
CACHE = ConfigSetting("cache", switch, True, "cache compiled code on disk")
CACHE_DIR: ConfigSetting[Path | None] = ConfigSetting(
    "cache_dir", optional(folder_path), None, "folder of compiled code; default: the user's caches", personal=True
)
CACHE_BYTES = ConfigSetting(
    "cache_bytes", natural(0, 2**63 - 1), 1 << 30, "maximal size of the folder of compiled code"
)
CPU: ConfigSetting[Path | None] = ConfigSetting(
    "cpu",
    optional(file_path),
    None,
    "file with the description of the processor that programs are planned for; default: this machine is measured once",
)
VERIFY = ConfigSetting(
    "verify",
    choice("off", "ends", "every"),
    "ends",
    "verify programs: never, before and after the passes, or after each",
)
ON_DEFECT = ConfigSetting(
    "on_defect",
    choice("recover", "raise"),
    "recover",
    "if a compiler pass or a backend has a defect: compile without it and warn, or raise an error; `verify` = `every` "
    "also raises",
)
TRACEBACK = ConfigSetting(
    "traceback", choice("user", "full"), "user", "end tracebacks at the user's line, or show all frames"
)
C_COMPILER: ConfigSetting[str | None] = ConfigSetting(
    "c_compiler",
    optional(text),
    None,
    "the command of the C compiler; default: `CC`, gcc, clang, cc, or the ziglang wheel",
    custom="CC",
    personal=True,
)
COMPILE_SECONDS = ConfigSetting("compile_seconds", natural(1), 300, "time limit of the C compiler")
AUTOTUNE = ConfigSetting(
    "autotune", natural(0), 0, "seconds for benchmarking other schedules of a routine; 0: the cost model decides"
)
PRODUCTS = ConfigSetting(
    "products",
    choice("ieee", "tf32x3", "tf32", "bfloat16"),
    "ieee",
    "precision of float32 products on matrix units: IEEE, or faster with fewer bits of each factor",
)
ONLINE_SOFTMAX = ConfigSetting(
    "online_softmax", switch, True, "on GPUs, compute softmax in one pass with a running maximum"
)
PRECOMPUTE_WEIGHTS: ConfigSetting[bool | None] = ConfigSetting(
    "precompute_weights",
    optional(switch),
    None,
    "on CPUs, keep packed weights and other arrays that depend on weights only from one call of a routine to the next: "
    "faster inference that takes more memory; default: in functions of `oc.compile` and of ONNX models",
)
TRANSPORT = ConfigSetting("transport", text, "single", "communication between the processes of a world")
SHARED_MEMORY = ConfigSetting(
    "shared_memory", switch, True, "processes of one host exchange arrays in shared memory; off: in messages"
)
HEARTBEAT_SECONDS = ConfigSetting(
    "heartbeat_seconds", natural(1), 4, "silence after which a process of a world is considered lost"
)
LOG_LEVEL: ConfigSetting[str | None] = ConfigSetting(
    "log_level",
    optional(choice("debug", "info", "warning", "error")),
    None,
    "print messages of this level and above; default: leave it to the application",
)
TRACE = ConfigSetting("trace", natural(0), 0, "maximal number of written cells that a call logs; 0: none")
CHECK_NUMBERS = ConfigSetting(
    "check_numbers", switch, False, "stop a call at NaN and name the node where the first one is; keeps all nodes"
)

SETTINGS: tuple[ConfigSetting[object], ...] = (
    BACKEND, PRECISION, GRADIENT_PRECISION, SEED, THREADS, QUEUE, CACHE, CACHE_DIR, CACHE_BYTES, CPU, VERIFY,
    ON_DEFECT, TRACEBACK, C_COMPILER, COMPILE_SECONDS, AUTOTUNE, PRODUCTS, ONLINE_SOFTMAX, PRECOMPUTE_WEIGHTS,
    LOG_LEVEL, TRACE, CHECK_NUMBERS, DISCOVERY, TRANSPORT, SHARED_MEMORY, HEARTBEAT_SECONDS,
)  # type: ignore[assignment]  # fmt: skip


class AnnouncedSetting(SettingRow, Protocol):
    """A setting that another distribution declares in a module, which `declaration` imports."""

    def declaration(self) -> ConfigSetting[Any]: ...


class SettingTable(SettingRows):
    """The settings by name: those of ocannl, and those that other distributions announce in their metadata, which is
    read only if a name is not one of ocannl's."""

    def __init__(self) -> None:
        self.builtin: Mapping[str, ConfigSetting[Any]] = {setting.name: setting for setting in SETTINGS}
        self.announced: Callable[[str | None], Mapping[str, AnnouncedSetting]] = lambda name: {}
        """Returns announced settings: all, or those among which the name is if there is such a setting."""

    def __getitem__(self, name: str) -> ConfigSetting[Any] | AnnouncedSetting:
        return self.builtin.get(name) or self.announced(name)[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.builtin, **self.announced(None)})

    def __len__(self) -> int:
        return len(list(self))


TABLE = SettingTable()


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
            variables = [TABLE[name].variable for name, value in self._values.items() if value is not None]
            where = ", ".join(variables) or f"{PREFIX}..."
            message = f"{self._call} has no effect by itself: write `with {self._call}:`, or set {where}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


def settings(**values: object) -> AbstractContextManager[None]:
    """Context manager that overrides settings; None removes an outer override."""
    return overrides(values, f"oc.settings({', '.join(f'{name}={value!r}' for name, value in values.items())})")


def overrides(values: dict[str, object], call: str) -> AbstractContextManager[None]:
    """`settings` for a function that users call otherwise, as in the text of its `call`."""
    for name, value in values.items():
        if name not in TABLE:
            raise unknown_setting(name, "context manager", TABLE)
        if value is not None:
            TABLE[name].parse(value, "context manager")
    return Overrides(values, call)


def use_backend(name: str) -> AbstractContextManager[None]:
    """Context manager that sets the default backend of contexts."""
    return overrides({"backend": name}, f"oc.use_backend({name!r})")


class SettingsFunction:
    """`oc.settings`, whose attributes cannot be assigned, since this would not change a setting."""

    def __init__(self, function: Callable[..., AbstractContextManager[None]]) -> None:
        update_wrapper(self, function)

    def __call__(self, *positional: object, **values: object) -> AbstractContextManager[None]:
        return self.__wrapped__(*positional, **values)  # which answers for arguments in positions

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            raise unknown_name("oc.settings", name, lambda: TABLE, assignments(value))
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"oc.settings has no attribute {name!r}")
        reading = "the command `ocannl config` lists the values"
        raise unknown_name("oc.settings", name, lambda: TABLE, dict.fromkeys(TABLE, reading))


def assignments(value: object) -> dict[str, str]:
    """What to write instead of the assignment of a value to an attribute of the module that is named as a setting."""
    return {
        name: f"write `with oc.settings({name}={value!r}):`, or set {setting.variable}"
        for name, setting in TABLE.items()
    }


def project_file() -> SettingsFile | None:
    """Returns the nearest project file in the current folder or its ancestors; None if there is none."""
    return settings_files.project_file(TABLE)


def check() -> tuple[str, ...]:
    """Raises `ConfigError` for a variable that resembles a setting; returns all other unknown `OCANNL_` variables."""
    variables = {setting.variable for setting in SETTINGS}
    strangers = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in variables)
    if strangers:
        variables = {setting.variable for setting in TABLE.values()}
        strangers = [name for name in strangers if name not in variables]
    for name in strangers:
        close = difflib.get_close_matches(name, variables, 1, cutoff=0.85)
        if close:
            raise ConfigError(f"unknown setting `{name}` (environment); did you mean `{close[0]}`?")
    return tuple(strangers)


def explain() -> tuple[tuple[ConfigSetting[object], Resolved[object]], ...]:
    """Returns every setting with its effective value and source; imports the modules of announced settings."""
    return tuple((setting, setting.resolve()) for setting in _declarations())


def _declarations() -> Iterator[ConfigSetting[Any]]:
    for row in map(TABLE.__getitem__, TABLE):
        try:
            yield row if isinstance(row, ConfigSetting) else row.declaration()
        except PluginError as error:
            _log.warning("%s", error)


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
