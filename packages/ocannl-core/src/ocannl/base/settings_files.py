"""Files of settings: the project file, the user's own file, and the folders that the user trusts.

The project file is the nearest `ocannl.toml`, or `pyproject.toml` with a table `[tool.ocannl]`, in the current folder
or its ancestors. Whoever can write to one of these folders could place it there. Settings that run commands or choose
where files are written therefore count only if the user trusts the folder. A file of another user raises no errors
either: invalid entries are left out, with a warning.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from ocannl.base.errors import ConfigError
from ocannl.base.file_access import FOREIGN_WRITE_BITS, foreign_owner, foreign_writers, read_regular_file

NAMES = ("ocannl.toml", "pyproject.toml")
MAX_BYTES = 1 << 20
_log = logging.getLogger("ocannl.base.settings_files")
_warned: set[str] = set()


class SettingRow(Protocol):
    """A setting. `personal` settings run commands or choose where files are written."""

    @property
    def name(self) -> str: ...
    @property
    def variable(self) -> str: ...
    @property
    def personal(self) -> bool: ...
    def parse(self, raw: object, source: str) -> object: ...


class SettingRows(Mapping[str, SettingRow]):
    """All settings by name. Those that are not `builtin` are announced by other distributions."""

    builtin: Mapping[str, SettingRow]


@dataclass(frozen=True, slots=True)
class SettingsFile:
    path: Path
    table: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Content:
    """The table of a file with the status of the file; `problem` is the reason why the file cannot be used."""

    table: Mapping[str, object] | None
    status: os.stat_result
    problem: str = ""


def project_file(rows: SettingRows) -> SettingsFile | None:
    """Returns the nearest settings file in the current folder or its ancestors; None if there is none. Raises
    `ConfigError` for a file of the user that is invalid."""
    try:
        paths = _project_paths(os.getcwd())
    except FileNotFoundError:  # the current folder has been deleted
        return None
    for path in paths:
        content = _current_content(path)
        if content is None or (content.table is None and not content.problem):
            continue
        author = _foreign_author(path, content.status)
        table = _harmless(path, content, rows, author) if author else _own(path, content, rows)
        if table is not None:
            return SettingsFile(Path(path), table)
    return None


def user_file(rows: SettingRows) -> SettingsFile | None:
    """Returns the user's own settings file; None if there is none, or if others can write it."""
    path = _user_path("ocannl.toml")
    content = _current_content(path)
    if content is None:
        return None
    if problem := foreign_writers(content.status):
        _warn(f"{path} {problem}: its settings are ignored; run: chmod 600 {path}")
        return None
    return SettingsFile(Path(path), _checked(path, content, rows) or {})


def user_config_folder() -> Path:
    """Returns the folder of the user's own settings."""
    import platformdirs

    return Path(platformdirs.user_config_dir("ocannl", appauthor=False))


@lru_cache(maxsize=16)
def _project_paths(folder: str) -> tuple[str, ...]:
    """Returns the candidate paths of a project file, nearest first."""
    current = Path(folder)
    return tuple(str(ancestor / name) for ancestor in (current, *current.parents) for name in NAMES)


def _user_path(name: str) -> str:
    return _user_paths(os.environ.get("XDG_CONFIG_HOME"), os.environ.get("HOME"), name)


@lru_cache(maxsize=16)
def _user_paths(_config_home: str | None, _home: str | None, name: str) -> str:
    return str(user_config_folder() / name)


# ------------------------------------------------------------------------------------------------------ which settings


def _own(path: str, content: _Content, rows: SettingRows) -> Mapping[str, object] | None:
    """Returns the settings of a file that belongs to the user, to root, or to the owner of a trusted folder."""
    table = _checked(path, content, rows)
    if table is None or not (personal := [name for name in table if rows[name].personal]):
        return table
    folder = os.path.dirname(path)
    if _is_foreign_writable(content.status):
        _warn(
            f"{_listed(personal)} in {path} has no effect, because others can write this file; run: chmod go-w {path}"
        )
    elif trusted_owner(folder) is None:
        _warn(
            f"{_listed(personal)} in {path} has no effect, because the folder is not trusted: settings that run "
            f"commands or choose where files are written count after: ocannl config trust {folder}"
        )
    else:
        return table
    return {name: value for name, value in table.items() if not rows[name].personal}


def _checked(path: str, content: _Content, rows: SettingRows) -> Mapping[str, object] | None:
    if content.problem:
        raise ConfigError(f"{path} {content.problem}")
    for name in content.table or ():
        if name not in rows:
            raise unknown_setting(name, path, rows)
    return content.table


def _harmless(path: str, content: _Content, rows: SettingRows, author: str) -> Mapping[str, object] | None:
    """Returns the valid settings of a file of another user that neither run commands nor choose where files are
    written."""
    if content.problem:
        _warn(f"{path} {author} and {content.problem}: this file is ignored")
        return None
    assert content.table is not None
    table = {name: value for name, value in content.table.items() if _is_harmless(rows.builtin.get(name), value, path)}
    ignored = [name for name in content.table if name not in table]
    used = f"{_listed(list(table))} in it counts" if table else "nothing in it counts"
    without = f", {_listed(ignored)} does not" if ignored else ""
    _warn(
        f"{path} {author}: {used}{without}; if this folder is yours, run: ocannl config trust {os.path.dirname(path)}"
    )
    return table


def _is_harmless(row: SettingRow | None, value: object, path: str) -> bool:
    if row is None or row.personal:
        return False
    try:
        row.parse(value, path)
    except ConfigError:
        return False
    return True


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`"[:60] for name in names[:8])


def unknown_setting(name: str, source: str, rows: SettingRows) -> ConfigError:
    import difflib

    close = difflib.get_close_matches(name, rows, 1)
    hint = f"did you mean `{close[0]}`?" if close else f"the settings are {', '.join(rows)}"
    return ConfigError(f"unknown setting `{name}` ({source}); {hint}")


def _warn(message: str) -> None:
    """Logs a warning once per process. Names of files and settings may contain control characters."""
    if message not in _warned:
        _warned.add(message)
        _log.warning("%s", "".join(char if char.isprintable() else ascii(char)[1:-1] for char in message))


# ------------------------------------------------------------------------------------------------------------- reading


def _current_content(path: str) -> _Content | None:
    """Returns the content of a file, read again when the file changes; None if there is no file."""
    try:
        status = os.stat(path)  # hot path: with strings ten times as fast as with `Path`
    except OSError:
        return None
    if stat.S_ISDIR(status.st_mode):
        return None
    try:
        return _content(path, status.st_mtime_ns, status.st_size, status.st_ino, status.st_uid, status.st_mode)
    except FileNotFoundError:  # removed in the meantime
        return None


@lru_cache(maxsize=32)
def _content(path: str, *_version: int) -> _Content:
    import tomllib

    status = os.stat(path)
    try:
        data, status = read_regular_file(path, MAX_BYTES)
    except OSError as error:
        return _Content(None, status, f"cannot be read: {error.strerror}")
    text = data.decode("utf-8", errors="replace")
    is_pyproject = path.endswith("pyproject.toml")
    if is_pyproject and "ocannl" not in text:
        return _Content(None, status)
    try:
        table: object = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError) as error:
        return _Content(None, status, f"cannot be read: {error}")
    except RecursionError:
        return _Content(None, status, "cannot be read: it is nested too deeply")
    if is_pyproject:
        tool = table.get("tool") if isinstance(table, dict) else None
        table = tool.get("ocannl") if isinstance(tool, dict) else None
        if table is None:
            return _Content(None, status)
    if not isinstance(table, dict):
        return _Content(None, status, "has something else in place of a table: `tool.ocannl` must be a table")
    return _Content(table, status)


# --------------------------------------------------------------------------------------------------------------- trust


def trusted_folders() -> dict[str, int]:
    """Returns the trusted folders, each with the number of its owner at the time of `trust`."""
    path = _user_path("trusted.json")
    try:
        status = os.stat(path)
        return _trusted(path, status.st_mtime_ns, status.st_size, status.st_ino, status.st_uid, status.st_mode)
    except OSError:
        return {}


@lru_cache(maxsize=4)
def _trusted(path: str, *_version: int) -> dict[str, int]:
    try:
        data, status = read_regular_file(path, MAX_BYTES)
        if problem := foreign_writers(status):
            raise PermissionError(0, problem, path)
        table = json.loads(data)
        return {str(folder): int(owner) for folder, owner in table.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        _warn(f"the list of trusted folders {path} is ignored: {getattr(error, 'strerror', None) or error}")
        return {}


def trusted_owner(folder: str) -> int | None:
    """Returns the number of the owner of a trusted folder; None if the folder is not trusted, has another owner than
    when it was trusted, or can be changed by others."""
    owner = trusted_folders().get(os.path.realpath(folder))
    if owner is None:
        return None
    status = os.stat(folder)
    return owner if status.st_uid == owner and not _is_foreign_writable(status) else None


def _is_foreign_writable(status: os.stat_result) -> bool:
    """Whether users besides the owner, the user and root can write."""
    if foreign_owner(status) is None:
        return foreign_writers(status) is not None
    return bool(status.st_mode & FOREIGN_WRITE_BITS)


def _foreign_author(path: str, status: os.stat_result) -> str | None:
    """Returns a description of who else could have written a project file; None if this can only be the user, root or
    the owner of a trusted folder."""
    if not hasattr(os, "geteuid"):
        return None
    for version in (status, os.lstat(path)):
        owner = foreign_owner(version)
        if owner and trusted_owner(os.path.dirname(path)) != version.st_uid:
            return owner
    return "can be written by all users" if status.st_mode & stat.S_IWOTH else None


def trust(folder: Path) -> None:
    """Lets all settings of the project files in a folder count. Raises `ConfigError` if the folder does not exist, is
    not private to its owner, or the list cannot be written."""
    path = os.path.realpath(folder)
    try:
        status = os.stat(path)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(0, "is not a folder", path)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be trusted: {error.strerror}") from None
    if _is_foreign_writable(status):
        raise ConfigError(f"{folder} cannot be trusted: others can write to it; run: chmod go-w {folder}")
    _write_trusted({**trusted_folders(), path: status.st_uid})


def distrust(folder: Path) -> None:
    """Removes a folder from the trusted ones."""
    path = os.path.realpath(folder)
    folders = trusted_folders()
    if path not in folders:
        raise ConfigError(f"{folder} is not among the trusted folders")
    _write_trusted({name: owner for name, owner in folders.items() if name != path})


def _write_trusted(folders: Mapping[str, int]) -> None:
    path = Path(_user_path("trusted.json"))
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(folders, file, indent=1)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise ConfigError(f"the list of trusted folders {path} cannot be written: {error.strerror}") from None
