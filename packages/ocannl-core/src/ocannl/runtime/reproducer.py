"""Reproducers: files that reproduce a defect of the compiler, with a program and everything that determines its passes.

A reproducer is a JSON object. It holds the lowered program with its names and constants, but no values of tensors and
no source lines. The folder is private to the user and holds a limited number of files.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from traceback import walk_tb
from typing import Any

from ocannl.backend.api import Backend
from ocannl.backend.discovery import core_version
from ocannl.base import config
from ocannl.base.config import CACHE
from ocannl.base.disk_cache import cache_root
from ocannl.base.plugin_settings import code_values
from ocannl.base.plugins import exception_summary
from ocannl.base.private_folder import PrivateFolder, open_private_folder
from ocannl.ir.capabilities import ALL_OPERATIONS, Capabilities
from ocannl.ir.cpu import cpu_from_tree
from ocannl.ir.loops import Proc
from ocannl.ir.printer import print_proc
from ocannl.ir.serialize import Tree, dump, load, nodes_of
from ocannl.ir.tnode import TNode
from ocannl.opt.schedule.schedule import PlanChoices

FORMAT = "ocannl reproducer 3"
READABLE_FORMATS = (FORMAT, "ocannl reproducer 2")  # before 3, the capabilities had no `operations`: backends had all
MAX_FILES = 16
MAX_BYTES = 1 << 28  # of a file that is read
UNPUBLISHED_SETTINGS = frozenset({"cache_dir", "c_compiler", "cpu"})  # paths of this machine
ABOUT = (
    "This file reproduces a defect of ocannl: `ocannl replay FILE`. It holds a program, with the names of its tensors"
    " and its constants, but no values of tensors."
)


@dataclass(frozen=True, slots=True)
class Reproducer:
    """What a file holds: the lowered program, the input of its optimization, and what failed."""

    version: str  # of ocannl
    backend: str
    failed: str  # "backend", or the name of the first pass that failed
    error: str
    proc: Proc
    keep_reasons: Mapping[TNode, str]
    capabilities: Capabilities
    choices: PlanChoices


def content(
    failed: str,
    error: Exception,
    before: Proc | None,
    lowered: Proc,
    keep_reasons: Mapping[TNode, str],
    backend: Backend,
    choices: PlanChoices,
) -> str:
    """Returns the text of a reproducer; `before` is the program that the failing pass was applied to."""
    nodes = nodes_of(lowered)
    document: dict[str, Tree] = {
        "format": FORMAT,
        "about": ABOUT,
        "version": core_version(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "backend": backend.name,
        "backend_version": backend.version,
        "plugin_settings": code_values(type(backend).__module__.partition(".")[0]),
        "settings": {s.name: str(s.get()) for s in config.SETTINGS if s.name not in UNPUBLISHED_SETTINGS},
        "failed": failed,
        "error": str(error).replace(str(Path.home()), "~").splitlines(),
        "error_type": type(error).__name__,
        "frames": list(internal_frames(error)),
        "before": print_proc(before).splitlines() if before is not None else [],
        "capabilities": _capabilities_tree(backend.capabilities),
        "choices": [[position, list(choice)] for position, choice in choices.items()],
        "keep": [[nodes.index(node), reason] for node, reason in keep_reasons.items() if node in nodes],
        "program": dump(lowered),
    }
    rows = [f"{json.dumps(key)}: {json.dumps(value, indent=_indent(value))}" for key, value in document.items()]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _indent(value: Tree) -> int | None:
    """Lists of lines are easier to read one below the other."""
    is_text = isinstance(value, list) and all(isinstance(line, str) for line in value)
    return 1 if is_text and value else None


def internal_frames(error: Exception) -> Iterator[str]:
    """Yields the frames of the framework in the traceback of an error, without paths: `module:line function`."""
    for frame, line in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__"))
        if module.startswith("ocannl"):
            yield f"{module}:{line} {frame.f_code.co_name}"


def write(text: str) -> Path:
    """Writes a reproducer to the cache folder, or to a temporary folder if that cannot be used or caching is disabled.

    Raises `OSError` if neither can be written. Only the newest files are kept.
    """
    data = text.encode()
    name = f"ocannl-defect-{sha256(data).hexdigest()[:16]}.json"
    reasons: list[OSError] = []
    for location in _locations():
        try:
            with open_private_folder(*location, create=True) as folder:
                folder.write(name, data)
                _remove_oldest(folder)
                return folder.path / name
        except OSError as error:
            reasons.append(error)
    raise reasons[-1]


def _locations() -> Iterator[tuple[Path, str]]:
    if CACHE.get():
        yield cache_root(), "defects"
    user = os.geteuid() if hasattr(os, "geteuid") else "user"
    yield Path(tempfile.gettempdir()), f"ocannl-defects-{user}"


def _remove_oldest(folder: PrivateFolder) -> None:
    files = sorted((status.st_mtime_ns, name) for name, status in folder.entries())
    for _, name in files[:-MAX_FILES]:
        with suppress(OSError):
            folder.remove(name)


def read(path: Path) -> Reproducer:
    """Reads a reproducer and executes nothing that it holds. Raises `OSError`, or `ValueError` if it is damaged."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"the file is larger than {MAX_BYTES} bytes")
    try:
        document = json.loads(data)
    except RecursionError:
        raise ValueError("the file is nested too deeply") from None
    if not isinstance(document, dict) or document.get("format") not in READABLE_FORMATS:
        raise ValueError(f"the file is not a reproducer of the format {' or '.join(map(repr, READABLE_FORMATS))}")
    try:
        proc = load(document["program"])
        nodes = nodes_of(proc)
        choices = {int(position): tuple(map(int, choice)) for position, choice in document["choices"]}
        error = ": ".join([document["error_type"], *(["\n".join(document["error"])] if document["error"] else [])])
        return Reproducer(
            str(document["version"]),
            str(document["backend"]),
            str(document["failed"]),
            error,
            proc,
            {nodes[number]: str(reason) for number, reason in document["keep"]},
            _capabilities(document["capabilities"]),
            choices,
        )
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"the file is damaged: {exception_summary(error)}") from None


def _capabilities_tree(capabilities: Capabilities) -> Tree:
    names = {"precisions": sorted(capabilities.precisions), "operations": sorted(capabilities.operations)}
    return {**asdict(capabilities), **names}


def _capabilities(tree: Tree) -> Capabilities:
    scalars: dict[str, Any] = {name: value for name, value in tree.items() if isinstance(value, bool | int)}
    precisions = frozenset(map(str, tree["precisions"]))
    operations = frozenset(map(str, tree.get("operations", ALL_OPERATIONS)))
    return Capabilities(precisions, **scalars, operations=operations, cpu=cpu_from_tree(tree["cpu"]))
