"""A simulated CUDA driver on host memory, behind the table of functions and C signatures of the real one.

Work is done as late as possible: nothing in a stream runs before a synchronization requires it, and the kernels of a
graph run in a random order that respects their dependences. Missing synchronization therefore gives wrong results.
"""

from __future__ import annotations

import ctypes
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ocannl_backend_triton.driver import KernelNode, MemAccess, MemPoolProps, signatures

INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY, ILLEGAL_ADDRESS = 1, 2, 201, 400, 600, 700
LAUNCH_FAILED = 719
MAX_POISONED_BYTES = 1 << 16  # allocated and freed memory is overwritten up to this size
NAMES = {2: "CUDA_ERROR_OUT_OF_MEMORY", 100: "CUDA_ERROR_NO_DEVICE", 700: "CUDA_ERROR_ILLEGAL_ADDRESS"}
CONTEXT_FREE = {"cuInit", "cuGetErrorName", "cuGetErrorString", "cuDriverGetVersion", "cuDevicePrimaryCtxRetain",
        "cuCtxPushCurrent_v2", "cuMemPoolCreate", "cuMemPoolSetAttribute", "cuMemPoolSetAccess"}  # fmt: skip
KernelBody = Callable[..., None]  # takes the grid, then the arguments as addresses


class StatusError(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


@dataclass
class Stream:
    pending: list[Callable[[], None]] = field(default_factory=list)
    done: int = 0

    @property
    def length(self) -> int:
        return self.done + len(self.pending)


@dataclass
class Event:
    stream: Stream | None = None
    position: int = 0


@dataclass
class Function:
    name: str
    body: KernelBody
    parameters: int
    shared_allowed: int = 48 * 1024


@dataclass
class Node:
    function: Function
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    arguments: list[int]
    after: list[int] = field(default_factory=list)


@dataclass
class Device:
    total: int
    attributes: dict[int, int]
    used: int = 0


class FakeCuda:
    def __init__(self, devices: int = 1, total: int = 1 << 30, seed: int = 0, sm: int = 90) -> None:
        attributes = {75: sm // 10, 76: sm % 10, 97: 227 << 10, 16: 132, 8: 48 << 10, 115: 1}
        self.devices = [Device(total, attributes) for _ in range(devices)]
        self.random = random.Random(seed)
        self.version = 12080
        self.kernels: dict[bytes, tuple[KernelBody, int]] = {}  # body and number of parameters, by image
        self.failing: dict[str, int] = {}  # the status of the next call of a function
        self.sticky = 0
        self.objects: dict[int, object] = {}
        self.memory: dict[int, tuple[np.ndarray, Device, int]] = {}
        self.launched: list[str] = []
        self.errors: list[Exception] = []
        self.calls: list[str] = []
        self._next = 0x1000
        self._lock = threading.RLock()
        self._thread = threading.local()
        self.functions = {
            name: ctypes.CFUNCTYPE(ctypes.c_int, *parameter_types)(self._checked(name))
            for name, parameter_types in signatures().items()
        }

    def _checked(self, name: str) -> Callable[..., int]:
        function = getattr(self, name)

        def call(*arguments: int) -> int:
            with self._lock:
                self.calls.append(name)
                if name in self.failing:
                    return self.failing.pop(name)
                if self.sticky and not name.startswith("cuGetError"):
                    return self.sticky
                needs_context = name not in CONTEXT_FREE and not name.startswith("cuDevice") and name[:6] != "cuCtxP"
                if needs_context and not self._stack():
                    return INVALID_CONTEXT
                try:
                    function(*arguments)
                except StatusError as error:
                    return error.status
                except Exception as error:  # in a kernel; exceptions cannot be raised through C
                    self.errors.append(error)
                    self.sticky = LAUNCH_FAILED
                return self.sticky

        return call

    def _stack(self) -> list[int]:
        if not hasattr(self._thread, "stack"):
            self._thread.stack = []
        return self._thread.stack

    # --- objects ---

    def _create(self, out: int, value: object) -> None:
        self._next += 0x10
        self.objects[self._next] = value
        ctypes.c_uint64.from_address(out).value = self._next

    def _lookup(self, handle: int, kind: type):
        value = self.objects.get(handle)
        if not isinstance(value, kind):
            raise StatusError(INVALID_HANDLE)
        return value

    def _destroy(self, handle: int, kind: type) -> None:
        self._lookup(handle, kind)
        del self.objects[handle]

    def count_alive(self, kind: type) -> int:
        return sum(isinstance(value, kind) for value in self.objects.values())

    # --- devices ---

    def cuInit(self, flags): pass

    def cuDriverGetVersion(self, out): ctypes.c_int.from_address(out).value = self.version

    def cuGetErrorName(self, status, out):
        self._error_name = ctypes.create_string_buffer(NAMES.get(status, f"CUDA_ERROR_{status}").encode())
        ctypes.c_uint64.from_address(out).value = ctypes.addressof(self._error_name)

    def cuGetErrorString(self, status, out):
        self._error_text = ctypes.create_string_buffer(b"in words")
        ctypes.c_uint64.from_address(out).value = ctypes.addressof(self._error_text)

    def cuDeviceGetCount(self, out): ctypes.c_int.from_address(out).value = len(self.devices)

    def cuDeviceGet(self, out, ordinal): ctypes.c_int.from_address(out).value = ordinal

    def cuDeviceGetName(self, out, length, device): ctypes.memmove(out, b"Fake GPU\0", 9)

    def cuDeviceGetAttribute(self, out, attribute, device):
        ctypes.c_int.from_address(out).value = self.devices[device].attributes[attribute]

    def cuDeviceTotalMem_v2(self, out, device): ctypes.c_size_t.from_address(out).value = self.devices[device].total

    def cuDeviceCanAccessPeer(self, out, device, peer): ctypes.c_int.from_address(out).value = device != peer

    def cuDevicePrimaryCtxRetain(self, out, device): ctypes.c_uint64.from_address(out).value = 0xC0 + device

    def cuDevicePrimaryCtxRelease_v2(self, device): pass

    def cuCtxPushCurrent_v2(self, context):
        assert 0 <= context - 0xC0 < len(self.devices)
        self._stack().append(context)

    def cuCtxPopCurrent_v2(self, out): ctypes.c_uint64.from_address(out).value = self._stack().pop()

    # --- memory: device memory is host memory at the same address ---

    def cuMemPoolCreate(self, out, props):
        properties = MemPoolProps.from_address(props)
        assert (properties.allocType, properties.location.type) == (1, 1) and not any(properties.reserved)
        self._create(out, self.devices[properties.location.id])

    def cuMemPoolSetAttribute(self, pool, attribute, value):
        assert attribute == 4 and ctypes.c_uint64.from_address(value).value == 2**64 - 1

    def cuMemPoolSetAccess(self, pool, descriptions, count):
        for access in (MemAccess * count).from_address(descriptions):
            assert access.flags == 3 and self.devices[access.location.id] is not self._lookup(pool, Device)

    def cuMemPoolTrimTo(self, pool, keep): self._lookup(pool, Device)

    def cuMemAllocFromPoolAsync(self, out, size, pool, stream):
        self._lookup(stream, Stream)
        device = self._lookup(pool, Device)
        if device.used + size > device.total:
            raise StatusError(OUT_OF_MEMORY)
        self._allocate(out, size, device)

    def _allocate(self, out, size, device):
        memory = np.empty(size + 256, np.uint8)
        address = (memory.ctypes.data + 255) // 256 * 256
        ctypes.memset(address, 0xA5, min(size, MAX_POISONED_BYTES))
        device.used += size
        self.memory[address] = memory, device, size
        ctypes.c_uint64.from_address(out).value = address

    def cuMemFreeAsync(self, address, stream):
        if address not in self.memory:
            raise StatusError(INVALID_VALUE)

        def free():
            _, device, size = self.memory.pop(address)
            device.used -= size
            ctypes.memset(address, 0x5A, min(size, MAX_POISONED_BYTES))  # exposes use after free

        self._lookup(stream, Stream).pending.append(free)

    def cuMemHostAlloc(self, out, size, flags): self._allocate(out, size, Device(1 << 60, {}))

    def cuMemFreeHost(self, address): del self.memory[address]

    def _inside(self, address, size):
        if not any(start <= address and address + size <= start + m[2] for start, m in self.memory.items()):
            raise StatusError(ILLEGAL_ADDRESS)

    def _move(self, target, source, size, stream, *checked):
        for address in checked:
            self._inside(address, size)

        def move():
            for address in checked:
                self._inside(address, size)
            ctypes.memmove(target, source, size)

        self._lookup(stream, Stream).pending.append(move)

    def cuMemcpyHtoDAsync_v2(self, to, source, size, stream): self._move(to, source, size, stream, to, source)

    def cuMemcpyDtoHAsync_v2(self, to, source, size, stream): self._move(to, source, size, stream, to, source)

    def cuMemcpyDtoDAsync_v2(self, to, source, size, stream): self._move(to, source, size, stream, to, source)

    def cuMemcpyPeerAsync(self, to, target_context, source, source_context, size, stream):
        assert target_context != source_context
        self._move(to, source, size, stream, to, source)

    def cuMemsetD8Async(self, address, value, size, stream):
        self._inside(address, size)
        self._lookup(stream, Stream).pending.append(lambda: ctypes.memset(address, value, size))

    # --- streams and events ---

    def cuStreamCreate(self, out, flags):
        assert flags == 1
        self._create(out, Stream())

    def cuStreamDestroy_v2(self, stream):
        self._run(self._lookup(stream, Stream))
        self._destroy(stream, Stream)

    def _run(self, stream: Stream, until: int | None = None) -> None:
        until = stream.length if until is None else until
        while stream.done < until:
            stream.done += 1
            try:
                stream.pending.pop(0)()
            except StatusError as error:
                self.sticky = error.status
            if self.sticky:
                stream.done += len(stream.pending)
                stream.pending.clear()

    def cuStreamSynchronize(self, stream): self._run(self._lookup(stream, Stream))

    def cuStreamWaitEvent(self, stream, event, flags):
        record = self._lookup(event, Event)
        awaited, position = record.stream, record.position
        if awaited is not None:
            self._lookup(stream, Stream).pending.append(lambda: self._run(awaited, position))

    def cuEventCreate(self, out, flags): self._create(out, Event())

    def cuEventDestroy_v2(self, event): self._destroy(event, Event)

    def cuEventRecord(self, event, stream):
        record = self._lookup(event, Event)
        record.stream = self._lookup(stream, Stream)
        record.position = record.stream.length

    def cuEventQuery(self, event):
        record = self._lookup(event, Event)
        if record.stream is not None and record.stream.done < record.position:
            self._run(record.stream, record.stream.done + 1)  # time advances
            raise StatusError(NOT_READY)

    def cuEventSynchronize(self, event):
        record = self._lookup(event, Event)
        if record.stream is not None:
            self._run(record.stream, record.position)

    # --- kernels and graphs ---

    def cuModuleLoadData(self, out, image):
        name = ctypes.string_at(image)
        if name not in self.kernels:
            raise StatusError(200)
        self._create(out, self.kernels[name])

    def cuModuleUnload(self, module): self._destroy(module, tuple)

    def cuModuleGetFunction(self, out, module, name):
        body, parameters = self._lookup(module, tuple)
        self._create(out, Function(ctypes.string_at(name).decode(), body, parameters))

    def cuFuncSetAttribute(self, function, attribute, value):
        assert attribute == 8
        self._lookup(function, Function).shared_allowed = value

    def cuGraphCreate(self, out, flags): self._create(out, [])

    def cuGraphDestroy(self, graph): self._destroy(graph, list)

    def _node(self, address) -> Node:
        parameters = KernelNode.from_address(address)
        function = self._lookup(parameters.func, Function)
        if parameters.sharedMemBytes > function.shared_allowed or not all((*parameters.grid, *parameters.block)):
            raise StatusError(INVALID_VALUE)
        pointers = (ctypes.c_uint64 * function.parameters).from_address(parameters.kernelParams or 0)
        arguments = [ctypes.c_uint64.from_address(pointer).value for pointer in pointers]
        return Node(function, tuple(parameters.grid), tuple(parameters.block), parameters.sharedMemBytes, arguments)

    def cuGraphAddKernelNode_v2(self, out, graph, dependences, count, params):
        nodes: list[Node] = self._lookup(graph, list)
        node = self._node(params)
        handles = (ctypes.c_uint64 * count).from_address(dependences) if count else ()
        node.after = [nodes.index(self._lookup(handle, Node)) for handle in handles]
        nodes.append(node)
        self._create(out, node)

    def cuGraphInstantiateWithFlags(self, out, graph, flags):
        self._create(out, {id(node): node for node in self._lookup(graph, list)})

    def cuGraphExecDestroy(self, executable): self._destroy(executable, dict)

    def cuGraphExecKernelNodeSetParams_v2(self, executable, node, params):
        nodes, original = self._lookup(executable, dict), self._lookup(node, Node)
        changed = self._node(params)
        assert changed.function is original.function
        changed.after = original.after
        nodes[id(original)] = changed

    def cuGraphLaunch(self, executable, stream):
        nodes = list(self._lookup(executable, dict).values())  # a copy: later updates apply to later launches
        self._lookup(stream, Stream).pending.append(lambda: self._launch(nodes))

    def _launch(self, nodes: list[Node]) -> None:
        done: set[int] = set()
        while len(done) < len(nodes):
            ready = [n for n, node in enumerate(nodes) if n not in done and set(node.after) <= done]
            index = self.random.choice(ready)
            node = nodes[index]
            self.launched.append(node.function.name)
            node.function.body(node.grid, *node.arguments)
            done.add(index)
