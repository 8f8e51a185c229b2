"""Runtime support for native CPU backends: devices, queues, threads and entry points."""

from ocannl.backend.cpu.cpu_description import host_cpu
from ocannl.backend.cpu.device import CpuDevice, cores, devices
from ocannl.backend.cpu.native_backend import NativeBackend, native_capabilities
from ocannl.backend.cpu.native_code import NativeCode, Package, Source, backend_version, refuse_overlap, validate
from ocannl.backend.cpu.queue import Control
from ocannl.backend.cpu.thread_pool import ThreadPool, ThreadPoolCode
from ocannl.backend.cpu.vectorcall import Frame, SymbolRange

__all__ = [
    "Control",
    "CpuDevice",
    "Frame",
    "NativeBackend",
    "NativeCode",
    "Package",
    "Source",
    "SymbolRange",
    "ThreadPool",
    "ThreadPoolCode",
    "backend_version",
    "cores",
    "devices",
    "host_cpu",
    "native_capabilities",
    "refuse_overlap",
    "validate",
]
