"""A program on a GPU as one graph: its kernels and who waits for whom, launched by a single call.

The arguments of kernels never change. The values of static symbols are parameters of a first node, which puts them into
memory where the kernels read them; before a call with other values, only that node is changed.
"""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from collections.abc import Mapping, Sequence
from ctypes import byref, c_uint64, c_void_p
from functools import cache

from ocannl.backend import CompileError, Location
from ocannl.backend.cpu.native import refuse_overlap
from ocannl.codegen.abi import Region
from ocannl_backend_triton.device import CudaDevice, Scratch
from ocannl_backend_triton.driver import FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, KernelNode
from ocannl_backend_triton.kernel import SCRATCH, STATICS, Module
from ocannl_backend_triton.package import Binary
from ocannl_backend_triton.streams import StreamQueue, ThreadedStreamQueue

MODEST_SHARED_BYTES = 48 * 1024  # what a kernel may use that has not asked for more
CELL_BYTES = 8  # of a static symbol


@cache
def put(symbols: int) -> Binary:
    """The kernel that writes so many numbers where its first parameter points. The driver takes PTX as well."""
    numbers = range(symbols)
    parameters = ", ".join([".param .u64 cells", *(f".param .u64 value_{n}" for n in numbers)])
    stores = "".join(
        f"    ld.param.u64 %value, [value_{n}];\n    st.global.u64 [%cells+{CELL_BYTES * n}], %value;\n"
        for n in numbers
    )
    text = f"""\
.version 7.0
.target sm_70
.address_size 64
.visible .entry put({parameters})
{{
    .reg .u64 %cells, %value;
    ld.param.u64 %cells, [cells];
    cvta.to.global.u64 %cells, %cells;
{stores}    ret;
}}
"""
    return Binary("put", text.encode() + b"\0", threads=1, shared_bytes=0, scratch=())


class Function:
    """A kernel in the memory of a device, for as long as somebody holds this."""

    def __init__(self, device: CudaDevice, image: bytes, name: str, shared_bytes: int) -> None:
        with device.current() as driver:
            library = driver.handle("cuModuleLoadData", image)
            weakref.finalize(self, device.later, lambda: device.give_back("cuModuleUnload", library))
            self.handle = driver.handle("cuModuleGetFunction", library, name.encode())
            if shared_bytes > MODEST_SHARED_BYTES:
                driver("cuFuncSetAttribute", self.handle, FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)


_loaded: weakref.WeakKeyDictionary[CudaDevice, weakref.WeakValueDictionary[Binary, Function]]
_loaded = weakref.WeakKeyDictionary()
_guard = threading.RLock()


def loaded(device: CudaDevice, binary: Binary) -> Function:
    """The kernel, once on each device."""
    with _guard:
        functions = _loaded.setdefault(device, weakref.WeakValueDictionary())
        function = functions.get(binary)
        if function is None:
            function = functions[binary] = Function(device, binary.image, binary.name, binary.shared_bytes)
        return function


class Node:
    """A kernel and what it is launched with; its values stay where the driver finds them."""

    def __init__(self, device: CudaDevice, binary: Binary, grid: tuple[int, int, int], values: Sequence[int]) -> None:
        self.values = (c_uint64 * len(values))(*values)
        start, step = ctypes.addressof(self.values), ctypes.sizeof(c_uint64)
        self._pointers = (c_void_p * len(values))(*(start + n * step for n in range(len(values))))
        self._function = loaded(device, binary)
        self.given = KernelNode(
            func=self._function.handle,
            grid=grid,
            block=(binary.threads, 1, 1),
            sharedMemBytes=binary.shared_bytes,
            kernelParams=ctypes.addressof(self._pointers),
        )


class Graph:
    """Nodes and who waits for whom, while a graph is being made."""

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self.nodes: list[Node] = []
        self.handles: list[c_void_p] = []
        self.handle = device.driver.handle("cuGraphCreate", 0)
        weakref.finalize(self, device.give_back, "cuGraphDestroy", self.handle)

    def add(self, node: Node, after: Sequence[int]) -> int:
        """The number of the node, which begins after those of the numbers."""
        waits = (c_void_p * len(after))(*(self.handles[n].value for n in after))
        made = self.device.driver.handle("cuGraphAddKernelNode_v2", self.handle, waits, len(after), byref(node.given))
        self.nodes.append(node)
        self.handles.append(made)
        return len(self.nodes) - 1


class Launch:
    """An entry: calling it puts the program into the stream of its queue."""

    def __init__(
        self,
        module: Module,
        binaries: Sequence[Binary],
        queue: StreamQueue | ThreadedStreamQueue,
        locations: Sequence[Location],
    ) -> None:
        device = self._device = queue.device
        self.stream = queue.stream
        self._locations = tuple(locations)  # they, and the queue, outlive the entry
        self._queue = queue
        self._scratch: list[Scratch] = []
        starts = self._starts(module)
        with device.current() as driver:
            self._graph = Graph(device)
            if module.symbols:
                values = [starts[STATICS], *[0] * module.symbols]
                self._graph.add(Node(device, put(module.symbols), (1, 1, 1), values), ())
            self._add_kernels(module, binaries, starts)
            self._executable = driver.handle("cuGraphInstantiateWithFlags", self._graph.handle, 0)
        weakref.finalize(self, device.give_back, "cuGraphExecDestroy", self._executable)
        self._first = self._graph.nodes[0] if module.symbols else None

    def _starts(self, module: Module) -> dict[int, int]:
        """Where each region is."""
        wanted, given = module.regions, self._locations
        if len(given) != len(wanted):
            raise CompileError(f"`{module.name}` works on {len(wanted)} regions of memory and is given {len(given)}")
        found = [self._device.address(where, size) for where, (_, size) in zip(given, wanted, strict=True)]
        written = {a.region for kernel in module.kernels for a in kernel.arguments if a.writes}
        refuse_overlap(module.name, [Region(*r, n in written) for n, r in enumerate(wanted)], found)
        starts = dict(enumerate(found))
        for region, size in ((SCRATCH, module.scratch_bytes), (STATICS, CELL_BYTES * module.symbols)):
            if size:
                starts[region] = self._room(size)
        return starts

    def _room(self, size_bytes: int) -> int:
        self._scratch.append(Scratch(self._device, size_bytes))
        return self._scratch[-1].address

    def _add_kernels(self, module: Module, binaries: Sequence[Binary], starts: Mapping[int, int]) -> None:
        waits: list[set[int]] = [set() for _ in module.kernels]
        for earlier, later in module.edges:
            waits[later].add(earlier)
        places: list[set[int]] = []  # of each kernel, the nodes that stand for it
        for kernel, binary, before in zip(module.kernels, binaries, waits, strict=True):
            after = {node for earlier in before for node in places[earlier]}
            if any(argument.region == STATICS for argument in kernel.arguments):
                after.add(0)
            if not all(kernel.grid):  # there is nothing to do
                places.append(after)
                continue
            programs = math.prod(kernel.grid)
            values = [starts[argument.region] + argument.offset_bytes for argument in kernel.arguments]
            values += [self._room(size * programs) if size else 0 for size in binary.scratch]
            places.append({self._graph.add(Node(self._device, binary, kernel.grid, values), sorted(after))})

    def __call__(self, *values: int) -> None:
        """Two threads must not call the same entry at once: it has one place for the values of its symbols."""
        if not self._graph.nodes:
            return
        with self._device.current() as driver:
            if self._first is not None:
                self._first.values[1:] = [value % 2**64 for value in values]
                node, given = self._graph.handles[0], byref(self._first.given)
                driver("cuGraphExecKernelNodeSetParams_v2", self._executable, node, given)
            driver("cuGraphLaunch", self._executable, self.stream)
