"""A CUDA driver made of host memory, behind the same table of functions, called through the same C signatures.

It does work as late as it can: nothing in a stream happens before somebody waits for it, and the kernels of a graph run
in a random order that their dependences allow. So what relies on more than it was promised comes out wrong.
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
SOILED = 1 << 16  # bytes of what is given and taken back, at most, that hold something surprising
NAMES = {2: "CUDA_ERROR_OUT_OF_MEMORY", 100: "CUDA_ERROR_NO_DEVICE", 700: "CUDA_ERROR_ILLEGAL_ADDRESS"}
FREE = {"cuInit", "cuGetErrorName", "cuGetErrorString", "cuDriverGetVersion", "cuDevicePrimaryCtxRetain",
        "cuCtxPushCurrent_v2", "cuMemPoolCreate", "cuMemPoolSetAttribute", "cuMemPoolSetAccess"}  # fmt: skip
Body = Callable[..., None]  # of a kernel: its grid, then its arguments as addresses


class Refused(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


@dataclass
class Stream:
    waiting: list[Callable[[], None]] = field(default_factory=list)
    done: int = 0

    @property
    def length(self) -> int:
        return self.done + len(self.waiting)


@dataclass
class Event:
    stream: Stream | None = None
    place: int = 0


@dataclass
class Function:
    name: str
    body: Body
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
        self.kernels: dict[bytes, tuple[Body, int]] = {}  # by the image of the module: what it does, its parameters
        self.failing: dict[str, int] = {}  # the next call of a function, or all: what it says
        self.sticky = 0
        self.objects: dict[int, object] = {}
        self.memory: dict[int, tuple[np.ndarray, Device, int]] = {}
        self.launched: list[str] = []
        self.broken: list[Exception] = []
        self.calls: list[str] = []
        self._next = 0x1000
        self._lock = threading.RLock()
        self._thread = threading.local()
        self.functions = {
            name: ctypes.CFUNCTYPE(ctypes.c_int, *takes)(self._answering(name)) for name, takes in signatures().items()
        }

    def _answering(self, name: str) -> Callable[..., int]:
        function = getattr(self, name)

        def answer(*arguments: int) -> int:
            with self._lock:
                self.calls.append(name)
                if name in self.failing:
                    return self.failing.pop(name)
                if self.sticky and not name.startswith("cuGetError"):
                    return self.sticky
                needs_context = name not in FREE and not name.startswith("cuDevice") and name[:6] != "cuCtxP"
                if needs_context and not self._stack():
                    return INVALID_CONTEXT
                try:
                    function(*arguments)
                except Refused as wrong:
                    return wrong.status
                except Exception as wrong:  # a kernel that is broken: nothing can be raised through C
                    self.broken.append(wrong)
                    self.sticky = LAUNCH_FAILED
                return self.sticky

        return answer

    def _stack(self) -> list[int]:
        if not hasattr(self._thread, "stack"):
            self._thread.stack = []
        return self._thread.stack

    # --- objects ---

    def _made(self, out: int, thing: object) -> None:
        self._next += 0x10
        self.objects[self._next] = thing
        ctypes.c_uint64.from_address(out).value = self._next

    def _known(self, handle: int, kind: type):
        found = self.objects.get(handle)
        if not isinstance(found, kind):
            raise Refused(INVALID_HANDLE)
        return found

    def _gone(self, handle: int, kind: type) -> None:
        self._known(handle, kind)
        del self.objects[handle]

    def alive(self, kind: type) -> int:
        return sum(isinstance(thing, kind) for thing in self.objects.values())

    # --- devices ---

    def cuInit(self, flags): pass

    def cuDriverGetVersion(self, out): ctypes.c_int.from_address(out).value = self.version

    def cuGetErrorName(self, status, out):
        self._name = ctypes.create_string_buffer(NAMES.get(status, f"CUDA_ERROR_{status}").encode())
        ctypes.c_uint64.from_address(out).value = ctypes.addressof(self._name)

    def cuGetErrorString(self, status, out):
        self._words = ctypes.create_string_buffer(b"in words")
        ctypes.c_uint64.from_address(out).value = ctypes.addressof(self._words)

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

    # --- memory: what a device holds lies in host memory, at the address that it says ---

    def cuMemPoolCreate(self, out, props):
        given = MemPoolProps.from_address(props)
        assert (given.allocType, given.location.type) == (1, 1) and not any(given.reserved)
        self._made(out, self.devices[given.location.id])

    def cuMemPoolSetAttribute(self, pool, attribute, value):
        assert attribute == 4 and ctypes.c_uint64.from_address(value).value == 2**64 - 1

    def cuMemPoolSetAccess(self, pool, descriptions, count):
        for each in (MemAccess * count).from_address(descriptions):
            assert each.flags == 3 and self.devices[each.location.id] is not self._known(pool, Device)

    def cuMemPoolTrimTo(self, pool, keep): self._known(pool, Device)

    def cuMemAllocFromPoolAsync(self, out, size, pool, stream):
        self._known(stream, Stream)
        device = self._known(pool, Device)
        if device.used + size > device.total:
            raise Refused(OUT_OF_MEMORY)
        self._allocate(out, size, device)

    def _allocate(self, out, size, device):
        memory = np.empty(size + 256, np.uint8)
        address = (memory.ctypes.data + 255) // 256 * 256
        ctypes.memset(address, 0xA5, min(size, SOILED))
        device.used += size
        self.memory[address] = memory, device, size
        ctypes.c_uint64.from_address(out).value = address

    def cuMemFreeAsync(self, address, stream):
        if address not in self.memory:
            raise Refused(INVALID_VALUE)

        def free():
            _, device, size = self.memory.pop(address)
            device.used -= size
            ctypes.memset(address, 0x5A, min(size, SOILED))  # whoever still uses it sees

        self._known(stream, Stream).waiting.append(free)

    def cuMemHostAlloc(self, out, size, flags): self._allocate(out, size, Device(1 << 60, {}))

    def cuMemFreeHost(self, address): del self.memory[address]

    def _inside(self, address, size):
        if not any(start <= address and address + size <= start + m[2] for start, m in self.memory.items()):
            raise Refused(ILLEGAL_ADDRESS)

    def _move(self, target, source, size, stream, *checked):
        for address in checked:
            self._inside(address, size)

        def move():
            for address in checked:
                self._inside(address, size)
            ctypes.memmove(target, source, size)

        self._known(stream, Stream).waiting.append(move)

    def cuMemcpyHtoDAsync_v2(self, to, source, size, stream): self._move(to, source, size, stream, to, source)

    def cuMemcpyDtoHAsync_v2(self, to, source, size, stream): self._move(to, source, size, stream, to, source)

    def cuMemcpyDtoDAsync_v2(self, to, source, size, stream): self._move(to, source, size, stream, to, source)

    def cuMemcpyPeerAsync(self, to, here, source, there, size, stream):
        assert here != there
        self._move(to, source, size, stream, to, source)

    def cuMemsetD8Async(self, address, value, size, stream):
        self._inside(address, size)
        self._known(stream, Stream).waiting.append(lambda: ctypes.memset(address, value, size))

    # --- streams and events ---

    def cuStreamCreate(self, out, flags):
        assert flags == 1
        self._made(out, Stream())

    def cuStreamDestroy_v2(self, stream):
        self._run(self._known(stream, Stream))
        self._gone(stream, Stream)

    def _run(self, stream: Stream, until: int | None = None) -> None:
        until = stream.length if until is None else until
        while stream.done < until:
            stream.done += 1
            try:
                stream.waiting.pop(0)()
            except Refused as wrong:
                self.sticky = wrong.status
            if self.sticky:
                stream.done += len(stream.waiting)
                stream.waiting.clear()

    def cuStreamSynchronize(self, stream): self._run(self._known(stream, Stream))

    def cuStreamWaitEvent(self, stream, event, flags):
        found = self._known(event, Event)
        other, place = found.stream, found.place
        if other is not None:
            self._known(stream, Stream).waiting.append(lambda: self._run(other, place))

    def cuEventCreate(self, out, flags): self._made(out, Event())

    def cuEventDestroy_v2(self, event): self._gone(event, Event)

    def cuEventRecord(self, event, stream):
        found = self._known(event, Event)
        found.stream = self._known(stream, Stream)
        found.place = found.stream.length

    def cuEventQuery(self, event):
        found = self._known(event, Event)
        if found.stream is not None and found.stream.done < found.place:
            self._run(found.stream, found.stream.done + 1)  # time passes
            raise Refused(NOT_READY)

    def cuEventSynchronize(self, event):
        found = self._known(event, Event)
        if found.stream is not None:
            self._run(found.stream, found.place)

    # --- kernels and graphs ---

    def cuModuleLoadData(self, out, image):
        name = ctypes.string_at(image)
        if name not in self.kernels:
            raise Refused(200)
        self._made(out, self.kernels[name])

    def cuModuleUnload(self, module): self._gone(module, tuple)

    def cuModuleGetFunction(self, out, module, name):
        body, parameters = self._known(module, tuple)
        self._made(out, Function(ctypes.string_at(name).decode(), body, parameters))

    def cuFuncSetAttribute(self, function, attribute, value):
        assert attribute == 8
        self._known(function, Function).shared_allowed = value

    def cuGraphCreate(self, out, flags): self._made(out, [])

    def cuGraphDestroy(self, graph): self._gone(graph, list)

    def _node(self, address) -> Node:
        given = KernelNode.from_address(address)
        function = self._known(given.func, Function)
        if given.sharedMemBytes > function.shared_allowed or not all((*given.grid, *given.block)):
            raise Refused(INVALID_VALUE)
        pointers = (ctypes.c_uint64 * function.parameters).from_address(given.kernelParams or 0)
        arguments = [ctypes.c_uint64.from_address(pointer).value for pointer in pointers]
        return Node(function, tuple(given.grid), tuple(given.block), given.sharedMemBytes, arguments)

    def cuGraphAddKernelNode_v2(self, out, graph, dependences, count, params):
        nodes: list[Node] = self._known(graph, list)
        node = self._node(params)
        handles = (ctypes.c_uint64 * count).from_address(dependences) if count else ()
        node.after = [nodes.index(self._known(handle, Node)) for handle in handles]
        nodes.append(node)
        self._made(out, node)

    def cuGraphInstantiateWithFlags(self, out, graph, flags):
        self._made(out, {id(node): node for node in self._known(graph, list)})

    def cuGraphExecDestroy(self, executable): self._gone(executable, dict)

    def cuGraphExecKernelNodeSetParams_v2(self, executable, node, params):
        nodes, known = self._known(executable, dict), self._known(node, Node)
        changed = self._node(params)
        assert changed.function is known.function
        changed.after = known.after
        nodes[id(known)] = changed

    def cuGraphLaunch(self, executable, stream):
        nodes = list(self._known(executable, dict).values())  # as they are now: later changes are of later launches
        self._known(stream, Stream).waiting.append(lambda: self._launch(nodes))

    def _launch(self, nodes: list[Node]) -> None:
        done: set[int] = set()
        while len(done) < len(nodes):
            ready = [n for n, node in enumerate(nodes) if n not in done and set(node.after) <= done]
            chosen = self.random.choice(ready)
            node = nodes[chosen]
            self.launched.append(node.function.name)
            node.function.body(node.grid, *node.arguments)
            done.add(chosen)
