"""Weights of other programs: parameters of a block from safetensors and `.npz` files."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.lib import format as npy

from ocannl.base.errors import ArgumentError, CheckpointError
from ocannl.checkpoint.safetensors_file import Array, opened
from ocannl.checkpoint.saving import checked_path
from ocannl.ir.precision import PRECISIONS
from ocannl.lang.blocks import Block
from ocannl.lang.core.literals import HostArray
from ocannl.lang.core.tensor import Tensor
from ocannl.runtime.context import Context

Name = str | tuple[str, int, int]
"""The name of an array in a file, or the n-th of several equal parts of its axis of outputs."""

Names = Mapping[str, Name] | Callable[[str], Name] | None
Transposition = bool | Collection[str] | Mapping[str, Sequence[int]]


class WeightFile(Protocol):
    """A file of arrays: their types and sizes by name, before any is read."""

    @property
    def types(self) -> Mapping[str, Any]: ...

    @property
    def dims(self) -> Mapping[str, tuple[int, ...]]: ...

    def read(self, name: str) -> Array: ...


@dataclass(frozen=True, slots=True)
class _Source:
    """The array of a file that becomes the value of a parameter, with its axes in the order `axes`; of `parts` equal
    parts along the first of these, number `part`."""

    name: str
    axes: tuple[int, ...]
    stored_dims: tuple[int, ...]
    part: int
    parts: int

    @property
    def dims(self) -> tuple[int, ...]:
        first, *rest = (self.stored_dims[axis] for axis in self.axes) if self.axes else (1,)
        return (first // self.parts, *rest) if self.axes else ()

    @property
    def has_part(self) -> bool:
        """Whether the array has equal parts, and this one."""
        outputs = self.stored_dims[self.axes[0]] if self.axes else 1
        return 0 <= self.part < self.parts and outputs % self.parts == 0

    def value(self, array: Array) -> Array:
        ordered = np.transpose(array, self.axes)
        size = self.dims[0] if self.axes else 0
        return ordered if self.parts == 1 else ordered[self.part * size : (self.part + 1) * size]


def load_weights(
    path: str | PathLike[str],
    block: Block | Tensor | Mapping[str, Tensor],
    *,
    names: Names = None,
    transpose: Transposition = False,
    ctx: Context | None = None,
    strict: bool = True,
) -> tuple[str, ...]:
    """Sets the initial values of the parameters and states of a block from a file of another program.

        oc.load_weights("model.safetensors", net, names=lambda path: path.replace(".w", ".weight"))

    Files are safetensors, of any program, and archives of NumPy, `.npz`. `names` maps paths of the block to names in
    the file, or is a function that does; a path that it does not mention is a name, with `.` or `/` between its parts.
    In place of a name, `(name, n, count)` is the n-th, from 0, of `count` equal parts of an array along its axis of
    outputs, as weights of queries, keys and values are often stored in one array.
    `transpose` is True where all arrays of two axes or more have their axes in reverse order, as the kernels of dense
    layers in flax and Keras have; a collection of the paths where this is so; or a mapping from paths to the order of
    axes, as `numpy.transpose` takes it. A path can be given by its end.

    Every context that initializes the block afterwards starts from these values; those that hold others keep them,
    except `ctx`, which takes them at once. Floats are converted to the type of the parameter.

    Returns the differences, of which there are none unless `strict=False`: arrays that are missing, that no parameter
    takes, or that have other sizes or types.
    Raises: CheckpointError for these, with all differences, and for a file that cannot be read; nothing is unpickled.
    """
    target, leaves = checked_path(path), _leaves_of(block)
    names_of, axes_of = _name_function(names, leaves), _axes_function(transpose, leaves)
    values: dict[str, Array] = {}
    with _opened(target) as file:
        sources: dict[str, _Source] = {}
        differences: list[str] = []
        for leaf_path, t in leaves.items():
            wanted, part, parts = _name_and_part(names_of(leaf_path))
            name = _stored_name(wanted, file)
            if name is None:
                differences.append(f"missing in the file: {wanted!r}, for `{leaf_path}`")
                continue
            axes = axes_of(leaf_path, len(file.dims[name]))
            sources[leaf_path] = _Source(name, axes, tuple(file.dims[name]), part, parts)
            differences += _unfit(leaf_path, t, sources[leaf_path], file.types[name])
        used = {source.name for source in sources.values()}
        differences += [f"only in the file: {n!r}, {file.dims[n]} {file.types[n]}" for n in file.dims if n not in used]
        if differences and strict:
            lines = "".join(f"\n  {line}" for line in differences)
            raise CheckpointError(
                f"{target} differs from `{getattr(block, 'label', 'the mapping')}`:{lines}\n  fix  names=... says how "
                "arrays are called, transpose=... how their axes are ordered; strict=False loads what fits"
            )
        for leaf_path, source in sources.items():
            if not _unfit(leaf_path, leaves[leaf_path], source, file.types[source.name]):
                values[leaf_path] = source.value(file.read(source.name))
    for leaf_path, array in values.items():
        _set_initial_value(leaves[leaf_path], array)
        if ctx is not None:
            ctx.set(leaves[leaf_path], array.astype(leaves[leaf_path].dtype.numpy))
    return tuple(differences)


def _leaves_of(block: object) -> Mapping[str, Tensor]:
    match block:
        case Block():
            return {**block.params, **block.states}
        case Tensor() if block.application is not None:
            return {**block.all_params, **block.states}
        case Mapping():
            return dict(block)
    raise ArgumentError(f"oc.load_weights takes a block, an expression or parameters by name, not {block!r}"[:200])


def _set_initial_value(t: Tensor, array: Array) -> None:
    t.node.contents, t.initial = HostArray(np.array(array, t.dtype.numpy, order="C")), None


def _unfit(path: str, t: Tensor, source: _Source, kind: Any) -> list[str]:
    """Why an array cannot be the value of a parameter."""
    if not source.has_part:
        part = f"part {source.part} of {source.parts} of {source.name!r}, which has {source.stored_dims}"
        return [f"other sizes: `{path}` has {t.dims}, and is {part}"]
    if source.dims != t.dims:
        order = "" if source.axes == tuple(range(len(source.axes))) else ", transposed"
        return [f"other sizes: `{path}` has {t.dims}, {source.name!r} {source.dims}{order}"]
    is_known = isinstance(kind, np.dtype) and any(p.numpy == kind for p in PRECISIONS)
    if not is_known or (kind != t.dtype.numpy and not (_is_float(kind) and t.dtype.is_float)):
        return [f"other type: `{path}` is {t.dtype}, {source.name!r} is {kind}"]
    return []


def _is_float(kind: np.dtype[Any]) -> bool:
    return any(p.numpy == kind and p.is_float for p in PRECISIONS)


# --- names and axes ---------------------------------------------------------------------------------------------------


def _full_path(ending: object, leaves: Mapping[str, Tensor], argument: str) -> str:
    """The path with a given end. Raises: ArgumentError if there is none, or several."""
    full = [path for path in leaves if f".{path}".endswith(f".{ending}")]
    if ending in leaves:
        return str(ending)
    if len(full) != 1:
        which = f"several are called so: {', '.join(full)}" if full else f"none is called so, of {', '.join(leaves)}"
        raise ArgumentError(f"`{argument}` of oc.load_weights mentions the parameter {ending!r}, and {which}")
    return full[0]


def _name_and_part(name: object) -> tuple[str, int, int]:
    """The name of an array, the number of the part, and the number of parts. Raises: ArgumentError."""
    match name:
        case str():
            return name, 0, 1
        case (str(array), int(part), int(parts)) if parts > 0:
            return array, part, parts
    raise ArgumentError(f"`names` of oc.load_weights are names of arrays, or (name, n, count), not {name!r}"[:200])


def _name_function(names: Names, leaves: Mapping[str, Tensor]) -> Callable[[str], Name]:
    if names is None:
        return str
    if isinstance(names, Mapping):
        by_path = {_full_path(path, leaves, "names"): name for path, name in names.items()}
        return lambda path: by_path.get(path, path)
    if not callable(names):
        raise ArgumentError(f"`names` maps paths to names in the file, not {names!r}"[:200])
    return names


def _stored_name(name: str, file: WeightFile) -> str | None:
    """The name as it is in the file, where parts may be separated by other signs."""
    candidates = (name, re.sub(r"\.", "/", name))
    return next((candidate for candidate in candidates if candidate in file.dims), None)


def _axes_function(transpose: Transposition, leaves: Mapping[str, Tensor]) -> Callable[[str, int], tuple[int, ...]]:
    if isinstance(transpose, bool):
        return lambda path, count: tuple(reversed(range(count))) if transpose else tuple(range(count))
    if isinstance(transpose, str) or not isinstance(transpose, Collection):
        raise ArgumentError(f"`transpose` is True, some paths, or orders of axes by path, not {transpose!r}"[:200])
    order_of = transpose if isinstance(transpose, Mapping) else dict.fromkeys(transpose)
    orders = {_full_path(path, leaves, "transpose"): order for path, order in order_of.items()}

    def axes(path: str, count: int) -> tuple[int, ...]:
        if path not in orders:
            return tuple(range(count))
        order = orders[path]
        if order is None:
            return tuple(reversed(range(count)))
        if sorted(order) != list(range(count)):
            raise ArgumentError(f"`transpose` orders the axes of `{path}` as {tuple(order)}, and there are {count}")
        return tuple(order)

    return axes


# --- archives of NumPy ------------------------------------------------------------------------------------------------


@contextmanager
def _opened(path: Path) -> Iterator[WeightFile]:
    """Opens a file of weights. Raises: CheckpointError for a file that cannot be read."""
    if not _is_zip(path):
        with opened(path) as file:
            yield file
        return
    try:
        with zipfile.ZipFile(path) as archive:
            if any(name.endswith("data.pkl") for name in archive.namelist()):
                raise CheckpointError(
                    f"{path} is a pickle, which could run any code when it is read: write it as safetensors, by "
                    "safetensors.torch.save_file(model.state_dict(), path)"
                )
            yield _Archive(path, archive)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise CheckpointError(f"{path} is damaged, or is no archive of arrays: {error}") from None


def _is_zip(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"PK"
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from None


class _Archive:
    """An archive of NumPy, whose headers are read, and whose arrays are not yet."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self.types: dict[str, Any] = {}
        self.dims: dict[str, tuple[int, ...]] = {}
        self._archive = archive
        for member in archive.namelist():
            if not member.endswith(".npy"):
                raise CheckpointError(f"{path} is no archive of arrays: it contains {member!r}")
            with archive.open(member) as file:
                version = npy.read_magic(file)
                read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                dims, _, dtype = read_header(file)
            name = member.removesuffix(".npy")
            self.dims[name], self.types[name] = dims, dtype

    def read(self, name: str) -> Array:
        with self._archive.open(f"{name}.npy") as file:
            array: Array = npy.read_array(file, allow_pickle=False)
            return array
