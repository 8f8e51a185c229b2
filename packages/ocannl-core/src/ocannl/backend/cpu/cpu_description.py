"""The description of the processor at hand (see `ocannl.ir.cpu`): from a file, from the cache, or measured.

A measurement is kept in the cache folder, by what identifies the processor and the system. Two processes that measure
at once use the description that is found first later on.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache, lru_cache
from pathlib import Path

from ocannl.backend.cpu.native_code import NativeCode
from ocannl.base.config import CPU
from ocannl.base.disk_cache import Record, open_cache
from ocannl.base.errors import CompileError, ConfigError
from ocannl.base.file_access import read_regular_file
from ocannl.base.forks import replace_after_fork
from ocannl.base.log import logger
from ocannl.ir.cpu import Cpu, cpu_from_tree
from ocannl.ir.loops import Proc

CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
CPU_INFO = Path("/proc/cpuinfo")
FORMAT = "cpu 2"  # changes with the fields of `Cpu` and with the way in which they are measured
MAX_FILE_BYTES = 1 << 16
IDENTIFICATION = ("vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags", "Features")
_log = logger("backend.cpu")
_guard = threading.Lock()
replace_after_fork(globals(), "_guard", threading.Lock)
_measured: dict[str, Cpu] = {}

Compiler = Callable[[Sequence[Proc]], NativeCode]


def host_cpu(compile: Compiler, lanes: int) -> Cpu:
    """Returns the description in the file that the setting `cpu` names, or that of the processor at hand; `compile`
    compiles the programs that measure it, with vectors of `lanes` float32 elements. Raises `ConfigError` if the file
    has no description."""
    key = identification()
    if CPU.get() is None and key not in _measured:
        with _guard:
            if key not in _measured:
                _measured[key] = _stored_cpu() or _measure(compile, lanes)
    return described_cpu() or _measured[key]


def described_cpu() -> Cpu | None:
    """Returns the description in the file that the setting `cpu` names, or that of this processor if it has been
    measured. Raises `ConfigError` if the file has no description."""
    path = CPU.get()
    if path is not None:
        return _read(path, _modification_ns(path))
    return _measured.get(identification()) or _stored_cpu()


def adopt_cpu(cpu: Cpu) -> None:
    """Replaces the measurement in this process, as if it had given this description."""
    _measured[identification()] = cpu


def _stored_cpu() -> Cpu | None:
    records = open_cache("cpu")
    record = records.load(identification()) if records else None
    if record is None:
        return None
    try:
        return cpu_from_tree(record.header.get("cpu"))
    except ValueError as error:
        _log.warning("the kept description of the processor is measured anew: %s", error)
        return None


def _measure(compile: Compiler, lanes: int) -> Cpu:
    from ocannl.backend.cpu.cpu_probe import measure_cpu  # not needed if a description is kept

    reported = reported_cpu()
    try:
        cpu = measure_cpu(compile, lanes, reported)
    except (CompileError, OSError) as error:
        _log.warning("the processor could not be measured: %s", error)
        return reported
    records = open_cache("cpu")
    if records is None:
        return cpu
    records.store(identification(), Record({"cpu": asdict(cpu)}, b""))
    return _stored_cpu() or cpu


@cache
def identification() -> str:
    """Returns a digest of what identifies this processor: its model and features, those of the system, and the cores
    that this process may use."""
    info: dict[str, str] = {}
    with suppress(OSError):
        for line in CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in IDENTIFICATION:
                info.setdefault(name.strip(), value.strip())
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    system = [platform.system(), platform.machine(), platform.processor(), platform.release()]
    parts = [FORMAT, sorted(info.items()), cores, system, reported_cpu().canonical()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def reported_cpu(folder: Path = CACHE_FOLDER) -> Cpu:
    """Returns the description with the caches that the operating system reports; the remainder is that of a common
    processor."""
    cpu, by_level = Cpu(), dict[int, tuple[int, int]]()
    for index in sorted(folder.glob("index*")):
        with suppress(OSError, ValueError):
            level, kind, size, associativity = (
                (index / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size", "ways_of_associativity")
            )
            if kind != "Instruction" and int(size.removesuffix("K")) > 0 and int(associativity) > 0:
                by_level[int(level)] = int(size.removesuffix("K")) << 10, int(associativity)
    if 2 not in by_level:
        return cpu
    sizes = by_level.get(1, (cpu.l1.size_bytes, cpu.l1.associativity)), by_level[2], by_level[max(by_level)]
    l1, l2, l3 = (
        replace(level, size_bytes=size, associativity=ways)
        for level, (size, ways) in zip((cpu.l1, cpu.l2, cpu.l3), sizes, strict=True)
    )
    return replace(cpu, l1=l1, l2=l2, l3=l3)


def _modification_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError as error:
        raise ConfigError(f"cpu = {str(path)!r} cannot be read: {error.strerror}") from None


@lru_cache(maxsize=16)
def _read(path: Path, _modified_ns: int) -> Cpu:
    try:
        content, _ = read_regular_file(path, MAX_FILE_BYTES)
        return cpu_from_tree(json.loads(content))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"cpu = {str(path)!r} does not describe a processor: {reason}; `ocannl doctor --save-cpu FILE` writes a "
            "description"
        ) from None
