"""Saving of checkpoints."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from operator import index
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, SupportsIndex, runtime_checkable

import numpy as np
from safetensors import SafetensorError

from ocannl.base.config import SEED
from ocannl.base.errors import ArgumentError, CheckpointError
from ocannl.base.forks import replace_after_fork
from ocannl.base.log import logger
from ocannl.base.traceback_filtering import public_class
from ocannl.checkpoint import replacement, safetensors_file
from ocannl.checkpoint.entries import Entry, entries_of
from ocannl.checkpoint.safetensors_file import Array
from ocannl.runtime.context import Context

FORMAT = "ocannl_checkpoint"
FORMAT_VERSION = "1"
STEP, DATA, SEED_KEY, VERSIONS, KINDS, TYPES = "step", "data", "seed", "versions", "kinds", "types"
_log = logger("checkpoint")


@runtime_checkable
class HasPosition(Protocol):
    """An iterator over data, such as `train.batches(...)`, whose position, plain data, can be read and set."""

    position: Any


@public_class()
class Saving:
    """A checkpoint that is being written in the background."""

    def __init__(self, path: Path, future: Future[None]) -> None:
        self.path = path
        self._future = future

    def wait(self, timeout: float | None = None) -> None:
        """Waits until the file is complete. Raises: CheckpointError if it could not be written."""
        self._future.result(timeout)

    @property
    def is_done(self) -> bool:
        return self._future.done()

    def __repr__(self) -> str:
        return f"<saving {self.path}: {'done' if self.is_done else 'in progress'}>"


def save(
    path: str | PathLike[str],
    ctx: Context,
    what: object,
    *,
    step: int | None = None,
    data: object = None,
    keep: int = 1,
    background: bool = False,
) -> Saving | None:
    """Saves what a model, or its training, needs to continue, as a file of safetensors.

        step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss)))
        oc.save("model.safetensors", ctx, step, step=100, keep=3)

    `what` is a block (its parameters and states), a tensor (those that it depends on, and the numbers of calls of
    random streams), a routine (all that its calls change: also the state of an optimizer), the result of `train.fit`
    (its routine), or a mapping of these.
    `step` is stored; `data` is a position in data: plain data, or an object with the attribute `position`, such as
    `train.batches(...)`. With `keep` > 1 the last versions are kept, in files with the number of the step, and `path`
    is a link to the latest. `background` writes the file in a thread, after the values are copied, and returns a
    `Saving`.

    The file is replaced at once and durably: after a failure, the file is as before.
    Raises: CheckpointError if two nodes have one name, or the file cannot be written; UninitializedError.
    """
    target = checked_path(path)
    if not isinstance(ctx, Context):
        raise ArgumentError(f"oc.save takes a context after the path, not {ctx!r}"[:200])
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        raise ArgumentError(f"`keep` is the number of files that are kept, at least 1, not {keep!r}"[:200])
    number = None if step is None else _checked_step(step)
    entries = entries_of(what)
    absolute = Path(os.path.abspath(target))  # the current folder may change before it is written
    write = partial(_write, absolute, metadata=_metadata(ctx, entries, number, data), keep=keep, number=number)
    with ctx.lock:
        if background:
            return Saving(target, _submit(partial(write, _values(ctx, entries, copied=True))))
        _submit(lambda: None).result()  # after all that is being written in the background
        write(_values(ctx, entries, copied=False))
    return None


def checked_path(path: object) -> Path:
    if not isinstance(path, str | PathLike):
        raise ArgumentError(f"a checkpoint has a path, not {path!r}"[:200])
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise ArgumentError(f"{text!r} is not a path"[:200])
    return Path(text)


def _checked_step(step: SupportsIndex) -> int:
    if isinstance(step, bool) or not isinstance(step, SupportsIndex) or index(step) < 0:
        raise ArgumentError(f"`step` is the number of steps so far, not {step!r}"[:200])
    return index(step)


def stored_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that stands for another in files: the library does not read types of 8 bits that NumPy lacks."""
    return np.dtype(np.uint8) if dtype.name.startswith("float8") else dtype


def _values(ctx: Context, entries: list[Entry], *, copied: bool) -> dict[str, Array]:
    """The values of all entries, as views of the memory of the context where that is possible and a copy not needed."""
    for entry in entries:
        ctx.readable(entry.node)  # raises `UninitializedError` before anything is copied
    values = {}
    for entry in entries:
        array = ctx.get(entry.node) if copied else ctx.host_array(entry.node)
        values[entry.key] = array.view(stored_type(array.dtype))
    return values


def _metadata(ctx: Context, entries: list[Entry], step: int | None, data: object) -> dict[str, str]:
    position = data.position if isinstance(data, HasPosition) else data
    try:
        position_text = json.dumps(position)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(
            "`data` is a position in data, of numbers, texts, lists and mappings, or an object with such a `position`: "
            f"{error}"
        ) from None
    kinds: dict[str, list[str]] = {}
    for entry in entries:
        kinds.setdefault(entry.kind, []).append(entry.key)
    types = {e.key: e.node.precision for e in entries}
    narrow = {key: str(kind) for key, kind in types.items() if stored_type(kind.numpy) != kind.numpy}
    versions = {name: _version(name) for name in ("ocannl-core", "numpy", "safetensors")}
    return {
        FORMAT: FORMAT_VERSION,
        STEP: json.dumps(step),
        DATA: position_text,
        SEED_KEY: json.dumps(SEED.get()),
        VERSIONS: json.dumps({**versions, "backend": ctx.backend.name}),
        KINDS: json.dumps(kinds),
        TYPES: json.dumps(narrow),
    }


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"


def _write(
    path: Path, arrays: Mapping[str, Array], *, metadata: Mapping[str, str], keep: int, number: int | None
) -> None:
    try:
        _refuse_foreign(path)
        replacement.replace(
            path, lambda new: safetensors_file.write(new, arrays, metadata), keep=keep, number=number
        )
    except (OSError, SafetensorError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise CheckpointError(f"{path} cannot be written, and is as it was before: {reason}") from None


def _refuse_foreign(path: Path) -> None:
    """Raises CheckpointError if a path leads to something that `save` has not written, which it would destroy."""
    if os.path.isdir(path):
        raise CheckpointError(f"{path} is a folder: a checkpoint is a file")
    if not os.path.exists(path) or (os.path.isfile(path) and not path.stat().st_size):
        return
    if not safetensors_file.has_metadata(path, FORMAT):
        raise CheckpointError(f"{path} is no checkpoint, and is not overwritten: choose another path, or remove it")


def _new_writer() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "ocannl-checkpoints")


_writer = _new_writer()  # of files in the background, in order
replace_after_fork(globals(), "_writer", _new_writer)


def _submit(write: Callable[[], None]) -> Future[None]:
    future = _writer.submit(write)
    future.add_done_callback(_log_failure)
    return future


def _log_failure(future: Future[None]) -> None:
    error = future.exception()
    if error is not None:
        _log.warning("%s", error)
