"""Loading of checkpoints."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from ocannl.base.errors import ArgumentError, CheckpointError
from ocannl.checkpoint.entries import Entry, entries_of
from ocannl.checkpoint.safetensors_file import TensorFile, opened
from ocannl.checkpoint.saving import (
    DATA,
    FORMAT,
    FORMAT_VERSION,
    KINDS,
    SEED_KEY,
    STEP,
    TYPES,
    VERSIONS,
    HasPosition,
    checked_path,
    stored_type,
)
from ocannl.runtime.context import Context


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was loaded: the step and the position in data that were saved, None without; the setting `seed`
    and the versions of the process that saved it; and the differences to what it was loaded into."""

    step: int | None
    data: Any
    seed: int
    versions: Mapping[str, str]
    differences: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Stored:
    """What a file holds, by key."""

    step: int | None
    data: Any
    seed: int
    versions: Mapping[str, str]
    kinds: Mapping[str, str]
    types: Mapping[str, str]


def load(
    path: str | PathLike[str], ctx: Context, what: object, *, strict: bool = True, data: object = None
) -> Checkpoint:
    """Loads a file of `oc.save` into a context.

    `what` is like the argument of `oc.save`. A key fits if it is the same, or if one of the two keys ends with the
    other, as `layer.w` of a block and `net.layer.w` of a tensor. the attribute `position` of `data` is
    set to the position that was saved.

    Raises: CheckpointError for a file that is damaged, or is no checkpoint, and, with all differences, for one that
            holds more or less than `what`, or other sizes or types; then nothing is loaded. With `strict=False` all
            that fits is loaded, and the result lists the differences.
    """
    target = checked_path(path)
    if not isinstance(ctx, Context):
        raise ArgumentError(f"oc.load takes a context after the path, not {ctx!r}"[:200])
    if data is not None and not isinstance(data, HasPosition):
        raise ArgumentError(f"`data` is an object with a `position`, not {data!r}"[:200])
    entries = entries_of(what)
    with opened(target) as file:
        stored = _stored(file)
        keys = _matching_keys(entries, stored.kinds)
        fitting, differences = _compare(file, stored, entries, keys)
        if differences and strict:
            lines = "".join(f"\n  {line}" for line in differences)
            fix = "strict=False loads what fits"
            raise CheckpointError(f"{target} differs from what it is loaded into:{lines}\n  fix  {fix}")
        arrays = file.read_verified()
    values = {entry: arrays[keys[entry]].view(entry.node.precision.numpy) for entry in fitting}
    with ctx.lock:
        ctx.refuse_closed()
        ctx.arrays.allocate(entry.node for entry in values)  # raises `OutOfMemory` before anything is changed
        for entry, value in values.items():
            ctx.set(entry.node, value)
    if data is not None:
        data.position = stored.data
    return Checkpoint(stored.step, stored.data, stored.seed, stored.versions, tuple(differences))


def _stored(file: TensorFile) -> _Stored:
    """The metadata of a checkpoint. Raises: CheckpointError for files of other programs."""
    if FORMAT not in file.metadata:
        raise CheckpointError(f"{file.path} was not written by oc.save: oc.load_weights reads files of other programs")
    if file.metadata[FORMAT] != FORMAT_VERSION:
        raise CheckpointError(
            f"{file.path} has version {file.metadata[FORMAT]!r} of the format, and this release reads "
            f"{FORMAT_VERSION}: upgrade ocannl"
        )
    try:
        step, data, seed, versions, kinds, types = (
            json.loads(file.metadata[key]) for key in (STEP, DATA, SEED_KEY, VERSIONS, KINDS, TYPES)
        )
        kind_of = {key: kind for kind, listed in kinds.items() for key in listed}
        if not (isinstance(versions, dict) and isinstance(types, dict) and set(kind_of) == set(file.types)):
            raise ValueError("the tables of its header differ")
        return _Stored(step, data, seed, versions, kind_of, types)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{file.path} is damaged: its header cannot be understood: {error}") from None


def _matching_keys(entries: Iterable[Entry], stored: Mapping[str, str]) -> dict[Entry, str]:
    """The key in the file of each entry that has one: the same, or else the only one of its kind that ends with it or
    that it ends with."""
    entries = list(entries)
    equal = {entry: entry.key for entry in entries if stored.get(entry.key) == entry.kind}
    used = set(equal.values())
    by_name: dict[tuple[str, str], list[str]] = {}  # the keys by kind and last part of the path
    for key, kind in stored.items():
        if key not in used:
            by_name.setdefault((kind, _last_part(key)), []).append(key)
    candidates = {
        entry: [key for key in by_name.get((entry.kind, _last_part(entry.key)), ()) if _is_suffix(entry.key, key)]
        for entry in entries
        if entry not in equal
    }
    claims = Counter(key for keys in candidates.values() for key in keys)
    return {**equal, **{e: keys[0] for e, keys in candidates.items() if len(keys) == 1 and claims[keys[0]] == 1}}


def _last_part(key: str) -> str:
    return key.rpartition(".")[2]


def _is_suffix(a: str, b: str) -> bool:
    return f".{a}".endswith(f".{b}") or f".{b}".endswith(f".{a}")


def _compare(
    file: TensorFile, stored: _Stored, entries: Sequence[Entry], keys: Mapping[Entry, str]
) -> tuple[list[Entry], list[str]]:
    """The entries whose sizes and types agree with the file, and the differences."""
    fitting, lines = [], []
    for entry in entries:
        key = keys.get(entry)
        if key is None:
            lines.append(f"missing in the file: `{entry.key}`, {_described(entry)}")
            continue
        kind, dims = stored.types.get(key, file.types[key]), file.dims[key]
        if dims != entry.node.dims:
            lines.append(f"other sizes: `{entry.key}` has {entry.node.dims}, the file {dims}")
        elif kind != _type_of(entry) or file.types[key] != stored_type(entry.node.precision.numpy):
            lines.append(f"other type: `{entry.key}` is {_type_of(entry)}, in the file {kind}")
        else:
            fitting.append(entry)
    used = set(keys.values())
    lines += [
        f"only in the file: `{key}`, {file.dims[key]} {stored.types.get(key, file.types[key])}"
        for key in stored.kinds
        if key not in used
    ]
    return fitting, lines


def _type_of(entry: Entry) -> object:
    kind = entry.node.precision
    return str(kind) if stored_type(kind.numpy) != kind.numpy else kind.numpy


def _described(entry: Entry) -> str:
    return f"{entry.node.dims} {entry.node.precision}"
