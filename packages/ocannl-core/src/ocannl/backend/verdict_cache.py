"""Verdicts on disk, each with everything that it depends on in its keys.

The key of a record covers the interpreter and the core, the environment variables that affect what is found and loaded,
the folders of `PATH`, and the drivers of accelerators. It has the verdicts on all plugins, since reading many records
takes long; their keys cover the files of the plugin and of its distribution, and the folders into which they were
installed. A backend that cannot be used is checked again after an hour all the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice

from ocannl.backend.api import API_VERSION
from ocannl.backend.discovery import Candidate
from ocannl.backend.verdict import Verdict, verdict_from_tree
from ocannl.base.config import variables
from ocannl.base.disk_cache import Cache, Record, open_cache
from ocannl.base.file_access import file_states

FORMAT = "verdicts 2"
RETRY_SECONDS = 3600.0
MAX_FILES = 1000  # of one plugin
MAX_VERDICTS = 1000
VARIABLES = (
    "OCANNL_", "PATH", "LD_", "DYLD_", "PYTHON", "VIRTUAL_ENV", "CC", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_",
    "TRITON_", "ZE_",
)  # fmt: skip
DRIVERS = ("/proc/driver/nvidia/version", "/sys/module/nvidia/version", "/sys/module/amdgpu", "/dev/kfd", "/dev/dri",
           "/dev/nvidiactl", "/dev/nvidia0", "/usr/local/cuda")  # fmt: skip


@dataclass(frozen=True, slots=True)
class VerdictCache:
    """The kept verdicts of this user for the present state of the machine, which are one record."""

    records: Cache | None
    machine: str

    def load(self, candidates: Iterable[Candidate]) -> dict[Candidate, Verdict]:
        """Returns the verdicts that are known."""
        verdicts = _verdicts_from_tree(self._trees())
        keys = {candidate: _key(candidate) for candidate in candidates} if verdicts else {}
        return {candidate: verdicts[key] for candidate, key in keys.items() if key in verdicts}

    def store(self, verdicts: Mapping[Candidate, Verdict]) -> None:
        if self.records and verdicts:
            retry = time.time() + RETRY_SECONDS
            trees = self._trees()
            for candidate, verdict in verdicts.items():
                trees[_key(candidate)] = {"verdict": verdict.tree(), "expires": None if verdict.is_usable else retry}
            self.records.store(self.machine, Record(dict(list(trees.items())[-MAX_VERDICTS:]), b""))

    def _trees(self) -> dict[str, object]:
        record = self.records.load(self.machine) if self.records else None
        return record.header if record else {}


def _key(candidate: Candidate) -> str:
    """A digest of the state on which the verdict on a plugin depends."""
    identity = [candidate.name, candidate.distribution, candidate.version, candidate.entry.value]
    return _digest([identity, file_states(sorted(_plugin_files(candidate)))])


def _verdicts_from_tree(trees: Mapping[str, object]) -> dict[str, Verdict]:
    """The verdicts by key, without those that have expired or are damaged."""
    verdicts = {}
    for key, tree in trees.items():
        with suppress(ValueError, KeyError, TypeError):
            expires = tree["expires"]  # type: ignore[index]
            if expires is None or time.time() < expires <= time.time() + RETRY_SECONDS:
                verdicts[key] = verdict_from_tree(tree["verdict"])  # type: ignore[index]
    return verdicts


def open_verdict_cache() -> VerdictCache:
    records = open_cache("plugins")
    return VerdictCache(records, _machine() if records else "")


def _machine() -> str:
    """A digest of the state on which all verdicts depend."""
    environment = variables(VARIABLES)
    folders = [path for path in dict(environment).get("PATH", "").split(os.pathsep) if os.path.isabs(path)]
    interpreter = [sys.version, str(sys.executable), sys.prefix, API_VERSION]
    return _digest([FORMAT, interpreter, environment, file_states([*folders, *DRIVERS, __file__])])


def _digest(tree: object) -> str:
    return hashlib.sha256(json.dumps(tree).encode()).hexdigest()


def _plugin_files(candidate: Candidate) -> Iterator[str]:
    """The files that an installation changes: those of the entry module's package, the metadata, and their folder."""
    metadata = candidate.entry.folder
    if metadata is not None:
        yield from (os.path.dirname(metadata), metadata)
        yield from (os.path.join(metadata, file) for file in ("RECORD", "entry_points.txt"))
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
