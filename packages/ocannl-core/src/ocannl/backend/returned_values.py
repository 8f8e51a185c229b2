"""Calls of backends by the core. A value that the plugin API excludes is an error that names backend, distribution and
call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import getattr_static
from typing import TypeVar

from ocannl.backend.api import Backend, CompiledCode, Device, Entry, Location, Queue, Tunable
from ocannl.backend.plugin_loader import origin, raise_invalid
from ocannl.ir.loops import Proc

Value = TypeVar("Value")
_MISSING = object()
_CODE = ("source", "blob")
_DEVICE = ("ordinal", "bytes_in_use", "alloc_pool", "free_pool", "reaches", "queue")


def compile_code(backend: Backend, procs: Sequence[Proc]) -> CompiledCode:
    return _checked(backend, "compile", backend.compile(procs), _has(_CODE))


def compile_variants(backend: Tunable, procs: Sequence[Proc], variants: Sequence[Sequence[int]]) -> CompiledCode:
    return _checked(backend, "compile_variants", backend.compile_variants(procs, variants), _has(_CODE))


def restore_code(backend: Backend, blob: bytes) -> CompiledCode:
    return _checked(backend, "restore", backend.restore(blob), _has(_CODE))


def link_program(backend: Backend, code: CompiledCode, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
    return _checked(backend, "link", backend.link(code, name, queue, locations), callable)


def open_device(backend: Backend, ordinal: int) -> Device:
    return _checked(backend, "device", backend.device(ordinal), _has(_DEVICE))


def device_count(backend: Backend) -> int:
    return _checked(backend, "device_count", backend.device_count(), _is_positive)


def blob_of(backend: Backend, code: CompiledCode) -> bytes | None:
    return _checked(backend, "blob", code.blob, _is_blob)


def _checked(backend: object, call: str, value: Value, is_valid: Callable[[object], bool]) -> Value:
    if not is_valid(value):
        raise_invalid(origin(backend), call, value)
    return value


def _has(members: tuple[str, ...]) -> Callable[[object], bool]:
    return lambda value: all(getattr_static(value, name, _MISSING) is not _MISSING for name in members)


def _is_positive(count: object) -> bool:
    return type(count) is int and count > 0


def _is_blob(blob: object) -> bool:
    return blob is None or isinstance(blob, bytes)
