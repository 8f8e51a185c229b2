"""Zero-copy exchange of device arrays with other libraries, through DLPack.

A capsule holds a `DLManagedTensor`: address, type and shape of an array, and a deleter. A consumer renames the capsule
when it takes ownership.
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

CUDA_DEVICE = 2  # kDLCUDA
CAPSULE_NAME, USED_CAPSULE_NAME = b"dltensor", b"used_dltensor"
CODES = {Family.SIGNED: 0, Family.UNSIGNED: 1, Family.FLOAT: 2, Family.BOOL: 6}
SPECIAL_CODES = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}
TYPES = {p.numpy: (SPECIAL_CODES.get(p.name, CODES[p.family]), 8 * p.nbytes) for p in PRECISIONS}
Dtype = np.dtype[Any]


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
class ExportedArray:
    """A device array that other libraries can use in place: `torch.from_dlpack(array)`.

    `owner` keeps the memory alive; `block_stream` makes a stream of the other library wait for work submitted here.
    """

    address: int
    ordinal: int
    dims: tuple[int, ...]
    dtype: Dtype
    owner: object
    block_stream: Callable[[int], None]
    device_type: int = CUDA_DEVICE

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_type, self.ordinal

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> object:
        """`stream` is the consumer's stream, as a handle of the driver; -1 omits synchronization."""
        if stream != -1:
            self.block_stream(1 if stream is None else stream)
        code, bits = TYPES[self.dtype]
        shape = (ctypes.c_int64 * len(self.dims))(*self.dims)
        tensor = _Tensor(self.address, self.device_type, self.ordinal, len(self.dims), code, bits, 1, shape, None, 0)
        managed = _Managed(tensor, None, _DELETER)
        address = ctypes.addressof(managed)
        _exported[address] = managed, shape, self.owner
        return _new_capsule(address, CAPSULE_NAME, ctypes.cast(_CAPSULE_DESTRUCTOR, ctypes.c_void_p))


@dataclass(frozen=True, slots=True)
class ImportedArray:
    """An array of another library; `release` must be called once, when nothing accesses it any more."""

    address: int
    device: tuple[int, int]
    dims: tuple[int, ...]
    dtype: Dtype
    release: Callable[[], None]


def import_array(array: Any, stream: int) -> ImportedArray:
    """Imports an object with `__dlpack__`, ordered before all work submitted to the stream from now on."""
    capsule = array.__dlpack__(stream=stream)
    address = _get_pointer(capsule, CAPSULE_NAME)
    managed = _Managed.from_address(address)
    _set_name(capsule, USED_CAPSULE_NAME)

    def release() -> None:
        if managed.deleter:
            managed.deleter(ctypes.pointer(managed))

    tensor = managed.tensor
    dims = tuple(tensor.shape[n] for n in range(tensor.ndim))
    dtypes = [dtype for dtype, code in TYPES.items() if code == (tensor.code, tensor.bits) and tensor.lanes == 1]
    if dtypes and _is_contiguous(dims, tensor.strides):
        device = tensor.device_type, tensor.device_id
        return ImportedArray((tensor.data or 0) + tensor.byte_offset, device, dims, dtypes[0], release)
    release()
    problem = "is not contiguous" if dtypes else f"has an unsupported type, {tensor.code}/{tensor.bits} bits"
    raise DataError(f"the array {problem}")


def _is_contiguous(dims: tuple[int, ...], strides: Any) -> bool:
    if not strides or not math.prod(dims):
        return True
    expected = [math.prod(dims[n + 1 :]) for n in range(len(dims))]
    return all(size == 1 or strides[n] == step for n, (size, step) in enumerate(zip(dims, expected, strict=True)))


# ------------------------------------------------------------------------------------------------- Python capsules

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes, _new_capsule.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.argtypes, _get_pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
_set_name = ctypes.pythonapi.PyCapsule_SetName
_set_name.argtypes, _set_name.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
_exported: dict[int, tuple[object, ...]] = {}  # referents of capsules, by the address of the managed tensor


def _release_export(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


# A destructor gets the capsule without a reference, and must not create one: capsules are passed as addresses.
_is_capsule_named = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _destroy_capsule(capsule: int) -> None:
    """Frees an array that no consumer took out of the capsule."""
    if _is_capsule_named(capsule, CAPSULE_NAME):
        _exported.pop(_capsule_pointer(capsule, CAPSULE_NAME), None)


_DELETER = _Deleter(_release_export)
_CAPSULE_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy_capsule)
