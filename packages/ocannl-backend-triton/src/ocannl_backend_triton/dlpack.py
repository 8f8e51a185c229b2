"""Arrays that go from library to library without being copied: DLPack, as far as a GPU's memory needs it.

A capsule holds a `DLManagedTensor`: where the array lies, its type and sizes, and what to call when it is no longer
needed. Who takes the array out of a capsule renames it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocannl.base.errors import DataError
from ocannl.ir.precision import PRECISIONS, Family

GPU = 2  # kDLCUDA
FRESH, USED = b"dltensor", b"used_dltensor"
CODES = {Family.SIGNED: 0, Family.UNSIGNED: 1, Family.FLOAT: 2, Family.BOOL: 6}
SPECIAL = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}
TYPES = {p.numpy: (SPECIAL.get(p.name, CODES[p.family]), 8 * p.nbytes) for p in PRECISIONS}
Kind = np.dtype[Any]


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (("tensor", _Tensor), ("manager", ctypes.c_void_p), ("deleter", _Deleter))


@dataclass(frozen=True, slots=True)
class Lent:
    """An array in the memory of a device, for others to use in place: `torch.from_dlpack(lent)`.

    `holds` is what keeps the memory; `order` makes a stream of the other library wait for what is under way here.
    """

    address: int
    ordinal: int
    dims: tuple[int, ...]
    kind: Kind
    holds: object
    order: Callable[[int], None]
    device_type: int = GPU

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_type, self.ordinal

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> object:
        """The caller says in which stream it will use the array: by the driver's handle, -1 for none."""
        if stream != -1:
            self.order(1 if stream is None else stream)
        code, bits = TYPES[self.kind]
        shape = (ctypes.c_int64 * len(self.dims))(*self.dims)
        tensor = _Tensor(self.address, self.device_type, self.ordinal, len(self.dims), code, bits, 1, shape, None, 0)
        managed = _Managed(tensor, None, _forgetting)
        address = ctypes.addressof(managed)
        _lent[address] = managed, shape, self.holds
        return _new(address, FRESH, ctypes.cast(_destroying, ctypes.c_void_p))


@dataclass(frozen=True, slots=True)
class Borrowed:
    """An array of another library; `done` is to be called once, when nothing reads it any more."""

    address: int
    device: tuple[int, int]
    dims: tuple[int, ...]
    kind: Kind
    done: Callable[[], None]


def borrow(array: Any, stream: int) -> Borrowed:
    """What is behind an object with `__dlpack__`, in order with all that is put into the stream from now on."""
    capsule = array.__dlpack__(stream=stream)
    address = _pointer(capsule, FRESH)
    managed = _Managed.from_address(address)
    _rename(capsule, USED)

    def done() -> None:
        if managed.deleter:
            managed.deleter(ctypes.pointer(managed))

    tensor = managed.tensor
    dims = tuple(tensor.shape[n] for n in range(tensor.ndim))
    kinds = [kind for kind, known in TYPES.items() if known == (tensor.code, tensor.bits) and tensor.lanes == 1]
    if kinds and _is_contiguous(dims, tensor.strides):
        place = tensor.device_type, tensor.device_id
        return Borrowed((tensor.data or 0) + tensor.byte_offset, place, dims, kinds[0], done)
    done()
    wrong = "is not contiguous" if kinds else f"is of a type that is unknown here, {tensor.code}/{tensor.bits} bits"
    raise DataError(f"the array {wrong}")


def _is_contiguous(dims: tuple[int, ...], strides: Any) -> bool:
    if not strides or not math.prod(dims):
        return True
    expected = [math.prod(dims[n + 1 :]) for n in range(len(dims))]
    return all(size == 1 or strides[n] == step for n, (size, step) in enumerate(zip(dims, expected, strict=True)))


# ------------------------------------------------------------------------------------------------- Python's capsules

_new = ctypes.pythonapi.PyCapsule_New
_new.argtypes, _new.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes, _rename.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
_lent: dict[int, tuple[object, ...]] = {}  # what capsules that somebody has point to


def _forget(managed: Any) -> None:
    _lent.pop(ctypes.addressof(managed.contents), None)


# A capsule that goes has no references left, and must not get one: it is passed on as an address.
_is_fresh = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_behind = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _destroy(capsule: int) -> None:
    """What was taken out of the capsule belongs to who took it."""
    if _is_fresh(capsule, FRESH):
        _lent.pop(_behind(capsule, FRESH), None)


_forgetting = _Deleter(_forget)
_destroying = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy)
