"""Settings that other distributions declare.

A distribution announces each of its settings in the entry-point group `ocannl.settings`, by the name of the setting and
the `ConfigSetting` in one of its modules. Names are read from metadata; a module is imported when its setting is used,
set by `oc.settings`, or listed. What a setting does is not known before, so project files set it only in folders that
the user trusts.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

from ocannl.base.config import PREFIX, SETTINGS, TABLE, AnnouncedSetting, ConfigSetting
from ocannl.base.entry_points import EntryPoint, entry_points
from ocannl.base.errors import PluginError
from ocannl.base.log import logger
from ocannl.base.plugins import exception_summary, single_line
from ocannl.base.time_limit import TimeLimitReached, time_limit

GROUP = "ocannl.settings"
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
IMPORT_SECONDS = 15.0
_log = logger("base.plugin_settings")
_settings: dict[str, AnnouncedSetting] = {}
_warned: set[EntryPoint] = set()
_search = threading.local()  # searches read settings, such as the folder of the cache: they judge no names


@dataclass(frozen=True, slots=True)
class EntryPointSetting:
    """Implements `AnnouncedSetting`."""

    entry: EntryPoint
    personal: bool = True

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def package(self) -> str:
        return re.split(r"[.:]", self.entry.value)[0].strip()

    def parse(self, raw: object, source: str) -> object:
        return self.declaration().parse(raw, source)

    def declaration(self) -> ConfigSetting[Any]:
        """Imports the setting. Raises: PluginError if this fails, or gives something else."""
        try:
            with time_limit(IMPORT_SECONDS):
                setting = self.entry.load()
        except KeyboardInterrupt:
            raise
        except TimeLimitReached:
            raise self._broken(f"its import did not end within {IMPORT_SECONDS:g} seconds") from None
        except BaseException as error:  # another distribution may even exit
            raise self._broken(f"its import failed with {exception_summary(error)}") from error
        if not isinstance(setting, ConfigSetting) or setting.name != self.name:
            raise self._broken(f"`{self.entry.value}` is not a ConfigSetting of this name")
        return setting

    def _broken(self, problem: str) -> PluginError:
        return PluginError(
            f"the setting `{self.name}` of {self.entry.owner} is broken: {single_line(problem)}; repair it or run:"
            f" pip uninstall {self.entry.distribution}"
        )


def announced(name: str | None = None) -> Mapping[str, AnnouncedSetting]:
    """Returns the announced settings: all that are installed, or those of an earlier search if the name is among
    them."""
    if name in _settings:
        return _settings
    if getattr(_search, "is_running", False):
        return {} if name is None else {name: EntryPointSetting(EntryPoint(GROUP, name, ""), personal=False)}
    _search.is_running = True
    try:
        entries = entry_points(GROUP)
    finally:
        _search.is_running = False
    builtin = {setting.name for setting in SETTINGS}
    settings: dict[str, AnnouncedSetting] = {}
    for entry in entries:
        if not NAME.fullmatch(entry.name):
            _warn(entry, "a name has up to 64 lower-case letters, digits and `_`")
        elif entry.name in builtin:
            _warn(entry, "ocannl has a setting of this name")
        elif entry.name in settings:
            _warn(entry, "another distribution announces the name, too")
        else:
            settings[entry.name] = EntryPointSetting(entry)
    _settings.update(settings)
    return settings


def _warn(entry: EntryPoint, problem: str) -> None:
    if entry not in _warned:
        _warned.add(entry)
        _log.warning("the setting `%s` of %s is passed over: %s", single_line(entry.name, 64), entry.owner, problem)


def code_values(package: str) -> str:
    """Returns the values of the settings that change the code of a backend, declared in its package."""
    return " ".join(f"{setting.name}={setting.get()!r}" for setting in _code_settings(package))


@cache
def _code_settings(package: str) -> tuple[ConfigSetting[Any], ...]:
    rows = [row for row in announced().values() if isinstance(row, EntryPointSetting) and row.package == package]
    settings = [row.declaration() for row in sorted(rows, key=attrgetter("name"))]
    return tuple(setting for setting in settings if setting.changes_code)


TABLE.announced = announced
