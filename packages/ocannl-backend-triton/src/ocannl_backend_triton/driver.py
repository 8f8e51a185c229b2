"""The CUDA driver API through `ctypes`: a table of functions with their signatures, and checked status codes.

The table is the only access to the GPU, so a `Driver` with other functions simulates one.

After an error that makes the GPU unusable, and in a forked child of a process that used it, the driver is closed: calls
raise `DeviceLost`, and resources are left to the end of the process.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from functools import partial

from ocannl.backend import BackendUnavailable, CompileError, DeviceLost, OutOfMemory
from ocannl.base.errors import BackendError
from ocannl.base.forks import after_fork_in_child

FUNCTIONS = """
cuInit                            u
cuDriverGetVersion                p
cuGetErrorName                    ip
cuGetErrorString                  ip
cuDeviceGetCount                  p
cuDeviceGet                       pi
cuDeviceGetName                   pii
cuDeviceGetAttribute              pii
cuDeviceTotalMem_v2               pi
cuDeviceCanAccessPeer             pii
cuDevicePrimaryCtxRetain          pi
cuCtxPushCurrent_v2               p
cuCtxPopCurrent_v2                p
cuModuleLoadData                  pp
cuModuleUnload                    p
cuModuleGetFunction               ppp
cuFuncSetAttribute                pii
cuStreamCreate                    pu
cuStreamDestroy_v2                p
cuStreamSynchronize               p
cuStreamWaitEvent                 ppu
cuEventCreate                     pu
cuEventDestroy_v2                 p
cuEventRecord                     pp
cuEventQuery                      p
cuEventSynchronize                p
cuMemPoolCreate                   pp
cuMemPoolSetAttribute             pip
cuMemPoolSetAccess                ppz
cuMemPoolTrimTo                   pz
cuMemAllocFromPoolAsync           pzpp
cuMemFreeAsync                    dp
cuMemHostAlloc                    pzu
cuMemFreeHost                     p
cuMemcpyHtoDAsync_v2              dpzp
cuMemcpyDtoHAsync_v2              pdzp
cuMemcpyDtoDAsync_v2              ddzp
cuMemcpyPeerAsync                 dpdpzp
cuMemsetD8Async                   dczp
cuGraphCreate                     pu
cuGraphDestroy                    p
cuGraphAddKernelNode_v2           pppzp
cuGraphInstantiateWithFlags       ppl
cuGraphExecKernelNodeSetParams_v2 ppp
cuGraphExecDestroy                p
cuGraphLaunch                     pp
"""
TYPE_CODES = {
    "p": ctypes.c_void_p,  # a pointer, or one of the driver's handles
    "d": ctypes.c_uint64,  # an address on a device
    "z": ctypes.c_size_t,
    "l": ctypes.c_uint64,
    "u": ctypes.c_uint,
    "i": ctypes.c_int,
    "c": ctypes.c_ubyte,
}
Functions = Mapping[str, Callable[..., int]]


def signatures() -> dict[str, tuple[type, ...]]:
    """Parameter types of each function; all of them return a status."""
    rows = (line.split() for line in FUNCTIONS.split("\n") if line)
    return {name: tuple(TYPE_CODES[letter] for letter in letters) for name, letters in rows}


class Attribute(IntEnum):
    """Device attributes (CUdevice_attribute)."""

    MAX_SHARED_MEMORY_PER_BLOCK = 8
    MULTIPROCESSOR_COUNT = 16
    CLOCK_RATE = 13
    MEMORY_CLOCK_RATE = 36
    GLOBAL_MEMORY_BUS_WIDTH = 37
    L2_CACHE_SIZE = 38
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    MEMORY_POOLS_SUPPORTED = 115


FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
MEMPOOL_RELEASE_THRESHOLD = 4
STREAM_NON_BLOCKING = 1
EVENT_DISABLE_TIMING = 2
ALLOCATION_PINNED = 1
LOCATION_DEVICE = 1
ACCESS_READ_WRITE = 3


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2"""

    _fields_ = (
        ("func", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("sharedMemBytes", ctypes.c_uint),
        ("kernelParams", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kern", ctypes.c_void_p),
        ("ctx", ctypes.c_void_p),
    )


class MemLocation(ctypes.Structure):
    """CUmemLocation"""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class MemPoolProps(ctypes.Structure):
    """CUmemPoolProps"""

    _fields_ = (
        ("allocType", ctypes.c_int),
        ("handleTypes", ctypes.c_int),
        ("location", MemLocation),
        ("win32SecurityAttributes", ctypes.c_void_p),
        ("maxSize", ctypes.c_size_t),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 54),
    )


class MemAccess(ctypes.Structure):
    """CUmemAccessDesc"""

    _fields_ = (("location", MemLocation), ("flags", ctypes.c_int))


OUT_OF_MEMORY, NOT_READY = 2, 600
DEVICE_LOST_ERRORS = {
    "DEINITIALIZED": 4, "DEVICE_UNAVAILABLE": 46, "ECC_UNCORRECTABLE": 214, "NVLINK_UNCORRECTABLE": 220,
    "CONTAINED": 226, "ILLEGAL_ADDRESS": 700, "LAUNCH_TIMEOUT": 702, "CONTEXT_IS_DESTROYED": 709, "ASSERT": 710,
    "HARDWARE_STACK_ERROR": 714, "ILLEGAL_INSTRUCTION": 715, "MISALIGNED_ADDRESS": 716, "INVALID_ADDRESS_SPACE": 717,
    "INVALID_PC": 718, "LAUNCH_FAILED": 719, "EXTERNAL_DEVICE": 911,
}  # fmt: skip
"""Errors after which a process cannot use its GPU any more, by their names without CUDA_ERROR_."""
BINARY_ERRORS = {"INVALID_IMAGE": 200, "NO_BINARY_FOR_GPU": 209, "INVALID_PTX": 218, "UNSUPPORTED_PTX_VERSION": 222}
"""Errors of machine code that the driver cannot load."""


class Driver:
    """Calls functions of the driver by name, and raises an exception for an error status."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self.closed: str | None = None  # reason why the GPU can no longer be used

    def __call__(self, name: str, *arguments: object) -> None:
        status = self._status(name, *arguments)
        if status:
            raise self._error(name, status)

    def is_ready(self, event: ctypes.c_void_p) -> bool:
        status = self._status("cuEventQuery", event)
        if status not in (0, NOT_READY):
            raise self._error("cuEventQuery", status)
        return status == 0

    def release(self, name: str, *arguments: object) -> None:
        """Calls a function that frees a resource. Errors are ignored, and a closed driver has nothing to free."""
        if self.closed is None:
            self._functions[name](*arguments)

    @contextmanager
    def current(self, context: ctypes.c_void_p) -> Iterator[None]:
        """Makes the context current for this thread, and restores the previous one afterwards."""
        self("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self.release("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def get_int(self, name: str, *arguments: int) -> int:
        """The integer that a function returns through its first parameter."""
        result = ctypes.c_int()
        self(name, ctypes.byref(result), *arguments)
        return result.value

    def get_handle(self, name: str, *arguments: object) -> ctypes.c_void_p:
        """The handle or address that a function returns through its first parameter."""
        result = ctypes.c_void_p()
        self(name, ctypes.byref(result), *arguments)
        return result

    def _status(self, name: str, *arguments: object) -> int:
        if self.closed is not None:
            raise DeviceLost(self.closed)
        return self._functions[name](*arguments)

    def _error(self, function: str, status: int) -> BackendError:
        name, description = self._text("cuGetErrorName", status), self._text("cuGetErrorString", status)
        message = f"{function} returned {name}: {description}"
        if status == OUT_OF_MEMORY:
            return OutOfMemory(message)
        if status in BINARY_ERRORS.values():
            return CompileError(f"the CUDA driver rejected the code of a kernel: {message}")
        if status in DEVICE_LOST_ERRORS.values():
            self.closed = f"the GPU can no longer be used by this process, and its contents are lost: {message}"
            return DeviceLost(self.closed)
        return BackendError(f"the CUDA driver failed: {message}")

    def _text(self, function: str, status: int) -> str:
        result = ctypes.c_char_p()
        self._functions[function](status, ctypes.byref(result))
        return (result.value or f"error {status}".encode()).decode(errors="replace")


DEVICE_FILES = ("/dev/nvidiactl", "/dev/dxg")  # of the kernel driver, on Linux and on WSL
LIBRARIES = {"win32": ("nvcuda.dll",), "linux": ("libcuda.so.1",)}
MIN_VERSION = 12000  # 12.0, as reported by `cuDriverGetVersion`


def _library() -> Functions:
    reason = "there is no CUDA on this system"
    for name in LIBRARIES.get(sys.platform, ()):
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            reason = f"the CUDA driver cannot be loaded: {error}"
            continue
        functions = {}
        for function, parameter_types in signatures().items():
            function_pointer = getattr(library, function, None)
            if function_pointer is None:
                raise BackendUnavailable(f"the CUDA driver is too old: it has no {function}")
            function_pointer.argtypes, function_pointer.restype = parameter_types, ctypes.c_int
            functions[function] = function_pointer
        return functions
    raise BackendUnavailable(reason)


def check_driver() -> None:
    """Raises `BackendUnavailable` if there is certainly no usable GPU. Does not initialize CUDA, so that the process
    can still fork."""
    _library()
    if sys.platform == "linux" and not any(map(os.path.exists, DEVICE_FILES)):
        raise BackendUnavailable(f"the system shows no GPU to this process: there is no {' nor '.join(DEVICE_FILES)}")


def open_driver(functions: Functions) -> Driver:
    """Initializes the driver. Raises `BackendUnavailable` without a usable device."""
    driver = Driver(functions)
    try:
        driver("cuInit", 0)
        version, count = driver.get_int("cuDriverGetVersion"), driver.get_int("cuDeviceGetCount")
    except BackendError as error:
        raise BackendUnavailable(f"no GPU can be used: {error}") from None
    if version < MIN_VERSION:
        version_text = "{}.{}".format(*divmod(version // 10, 100))
        raise BackendUnavailable(f"the CUDA driver supports version {version_text}, but 12.0 is required")
    if count == 0:
        raise BackendUnavailable("the CUDA driver finds no GPU")
    after_fork_in_child(partial(_after_fork, driver))
    return driver


def _after_fork(driver: Driver) -> None:
    driver.closed = (
        "this process was forked from one that used a GPU, and CUDA cannot be used after a fork: "
        'use the start method "spawn" of multiprocessing'
    )


_lock = threading.Lock()
_drivers: list[Driver] = []


def system_driver() -> Driver:
    """The driver of this machine. Raises `BackendUnavailable`."""
    with _lock:
        if not _drivers:
            _drivers.append(open_driver(_library()))
        return _drivers[0]
