"""Verdicts on disk, each with everything that it depends on in its key.

A key covers the interpreter and the core, the files of the plugin and of its distribution, the folders into which they
were installed, the environment variables that affect what is found and loaded, the folders of `PATH`, and the drivers
of accelerators. A backend that cannot be used is checked again after an hour all the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice

from ocannl.backend.api import API_VERSION
from ocannl.backend.discovery import Candidate, core_version
from ocannl.backend.verdict import Verdict, verdict_from_tree
from ocannl.base.config import variables
from ocannl.base.disk_cache import Cache, Record, open_cache

FORMAT = "verdict 1"
RETRY_SECONDS = 3600.0
MAX_FILES = 1000  # of one plugin
VARIABLES = (
    "OCANNL_", "PATH", "LD_", "DYLD_", "PYTHON", "VIRTUAL_ENV", "CC", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_",
    "TRITON_", "ZE_",
)  # fmt: skip
DRIVERS = ("/proc/driver/nvidia/version", "/sys/module/nvidia/version", "/sys/module/amdgpu", "/dev/kfd", "/dev/dri",
           "/dev/nvidiactl", "/dev/nvidia0", "/usr/local/cuda")  # fmt: skip


@dataclass(frozen=True, slots=True)
class VerdictCache:
    """The kept verdicts of this user for the present state of the machine."""

    records: Cache | None
    machine: str

    def load(self, candidates: Iterable[Candidate]) -> dict[Candidate, Verdict]:
        """Returns the verdicts that are known."""
        keys = {candidate: self._key(candidate) for candidate in candidates} if self.records else {}
        records = self.records.load_all(keys.values()) if self.records else {}
        verdicts = {c: _valid_verdict(records[key]) for c, key in keys.items() if key in records}
        return {candidate: verdict for candidate, verdict in verdicts.items() if verdict is not None}

    def store(self, candidate: Candidate, verdict: Verdict) -> None:
        if self.records:
            expires = None if verdict.is_usable else time.time() + RETRY_SECONDS
            self.records.store(self._key(candidate), Record({"verdict": verdict.tree(), "expires": expires}, b""))

    def _key(self, candidate: Candidate) -> str:
        identity = [candidate.name, candidate.distribution, candidate.version, candidate.entry.value]
        content = json.dumps([FORMAT, self.machine, identity, _states(_plugin_files(candidate))])
        return hashlib.sha256(content.encode()).hexdigest()


def _valid_verdict(record: Record) -> Verdict | None:
    """The verdict of a record, unless it has expired or is damaged."""
    expires = record.header.get("expires")
    if isinstance(expires, int | float) and not time.time() < expires <= time.time() + RETRY_SECONDS:
        return None
    try:
        return verdict_from_tree(record.header.get("verdict"))
    except ValueError:
        return None


def open_verdict_cache() -> VerdictCache:
    records = open_cache("plugins")
    return VerdictCache(records, _machine() if records else "")


def _machine() -> str:
    """A digest of the state on which all verdicts depend."""
    environment = variables(VARIABLES)
    folders = [path for path in dict(environment).get("PATH", "").split(os.pathsep) if os.path.isabs(path)]
    interpreter = [sys.version, str(sys.executable), sys.prefix, core_version(), API_VERSION]
    content = json.dumps([interpreter, environment, _states([*folders, *DRIVERS, __file__])])
    return hashlib.sha256(content.encode()).hexdigest()


def _plugin_files(candidate: Candidate) -> Iterator[str]:
    """The files that an installation changes: those of the entry module's package, the metadata, and their folder."""
    dist = candidate.entry.dist
    if dist is not None:
        yield str(dist.locate_file(""))
        if (metadata := getattr(dist, "_path", None)) is not None:
            folder = str(metadata)
            yield from (folder, os.path.join(folder, "RECORD"), os.path.join(folder, "entry_points.txt"))
    try:
        spec = find_spec(candidate.entry.value.partition(":")[0].strip().partition(".")[0])
    except (ImportError, ValueError, AttributeError):
        return
    if spec is not None:
        yield str(spec.origin)
        for folder in spec.submodule_search_locations or ():
            yield from islice(_sources(folder), MAX_FILES)


def _sources(folder: str) -> Iterator[str]:
    for parent, _, files in os.walk(folder):
        yield from (os.path.join(parent, file) for file in files if not file.endswith(".pyc"))


def _states(paths: Iterable[str]) -> list[tuple[str, int, int, int]]:
    states = []
    for path in paths:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            states.append((path, 0, 0, 0))
        else:
            states.append((path, status.st_mtime_ns, status.st_size, status.st_ino))
    return sorted(states)
