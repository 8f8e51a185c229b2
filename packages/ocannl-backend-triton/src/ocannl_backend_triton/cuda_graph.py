"""Programs as CUDA graphs: kernels and their dependences, launched by a single call.

Kernel arguments never change. The values of static symbols are parameters of the first node, which stores them in
memory read by the kernels; a call with other values updates only this node.
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
from ocannl.backend.cpu.native_code import refuse_overlap
from ocannl.codegen.abi import MemoryRegion
from ocannl_backend_triton.device import ScratchMemory
from ocannl_backend_triton.driver import FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, KernelNode
from ocannl_backend_triton.kernel_module import SCRATCH_REGION, STATICS_REGION, KernelModule
from ocannl_backend_triton.serialization import Binary
from ocannl_backend_triton.streams import StreamDevice, StreamQueue, ThreadedStreamQueue

DEFAULT_SHARED_BYTES = 48 * 1024  # per block, without a larger limit set on the function
SYMBOL_BYTES = 8  # int64


@cache
def symbol_writer(symbols: int) -> Binary:
    """A kernel in PTX that stores the values of static symbols, from the address in its first parameter on."""
    numbers = range(symbols)
    parameters = ", ".join([".param .u64 cells", *(f".param .u64 value_{n}" for n in numbers)])
    stores = "".join(
        f"    ld.param.u64 %value, [value_{n}];\n    st.global.u64 [%cells+{SYMBOL_BYTES * n}], %value;\n"
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


class LoadedKernel:
    """A kernel loaded on a device, until the last reference to it is dropped."""

    def __init__(self, device: StreamDevice, image: bytes, name: str, shared_bytes: int) -> None:
        with device.current() as driver:
            library = driver.get_handle("cuModuleLoadData", image)
            weakref.finalize(self, device.defer, lambda: device.release("cuModuleUnload", library))
            self.handle = driver.get_handle("cuModuleGetFunction", library, name.encode())
            if shared_bytes > DEFAULT_SHARED_BYTES:
                driver("cuFuncSetAttribute", self.handle, FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)


_loaded_kernels: weakref.WeakKeyDictionary[StreamDevice, weakref.WeakValueDictionary[Binary, LoadedKernel]]
_loaded_kernels = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def load_kernel(device: StreamDevice, binary: Binary) -> LoadedKernel:
    """Loads a kernel, once per device."""
    with _lock:
        functions = _loaded_kernels.setdefault(device, weakref.WeakValueDictionary())
        function = functions.get(binary)
        if function is None:
            function = functions[binary] = LoadedKernel(device, binary.image, binary.name, binary.shared_bytes)
        return function


class CudaGraphNode:
    """A kernel node with its launch parameters, kept at fixed addresses for the driver."""

    def __init__(self, device: StreamDevice, binary: Binary, grid: tuple[int, int, int], values: Sequence[int]) -> None:
        self.values = (c_uint64 * len(values))(*values)
        start, step = ctypes.addressof(self.values), ctypes.sizeof(c_uint64)
        self._pointers = (c_void_p * len(values))(*(start + n * step for n in range(len(values))))
        self._function = load_kernel(device, binary)
        self.params = KernelNode(
            func=self._function.handle,
            grid=grid,
            block=(binary.threads, 1, 1),
            sharedMemBytes=binary.shared_bytes,
            kernelParams=ctypes.addressof(self._pointers),
        )


class GraphBuilder:
    """A CUDA graph under construction."""

    def __init__(self, device: StreamDevice) -> None:
        self.device = device
        self.nodes: list[CudaGraphNode] = []
        self.handles: list[c_void_p] = []
        self.handle = device.driver.get_handle("cuGraphCreate", 0)
        weakref.finalize(self, device.release, "cuGraphDestroy", self.handle)

    def add(self, node: CudaGraphNode, after: Sequence[int]) -> int:
        """Adds a node that depends on the nodes of the given indices; returns its index."""
        dependences = (c_void_p * len(after))(*(self.handles[n].value for n in after))
        handle = self.device.driver.get_handle(
            "cuGraphAddKernelNode_v2", self.handle, dependences, len(after), byref(node.params)
        )
        self.nodes.append(node)
        self.handles.append(handle)
        return len(self.nodes) - 1


class GraphLaunch:
    """An entry: a call launches the program's graph in the stream of its queue."""

    def __init__(
        self,
        module: KernelModule,
        binaries: Sequence[Binary],
        queue: StreamQueue | ThreadedStreamQueue,
        locations: Sequence[Location],
    ) -> None:
        device = self._device = queue.device
        self.stream = queue.stream
        self._locations = tuple(locations)  # keeps them alive, like the queue
        self._queue = queue
        self._scratch: list[ScratchMemory] = []
        addresses = self._region_addresses(module)
        with device.current() as driver:
            self._graph = GraphBuilder(device)
            if module.symbols:
                values = [addresses[STATICS_REGION], *[0] * module.symbols]
                self._graph.add(CudaGraphNode(device, symbol_writer(module.symbols), (1, 1, 1), values), ())
            self._add_kernels(module, binaries, addresses)
            self._executable = driver.get_handle("cuGraphInstantiateWithFlags", self._graph.handle, 0)
        weakref.finalize(self, device.release, "cuGraphExecDestroy", self._executable)
        self._symbol_node = self._graph.nodes[0] if module.symbols else None

    def _region_addresses(self, module: KernelModule) -> dict[int, int]:
        """The address of each region, allocating the backend's own ones."""
        regions, locations = module.regions, self._locations
        if len(locations) != len(regions):
            needed, passed = len(regions), len(locations)
            raise CompileError(f"`{module.name}` takes {needed} memory regions, but {passed} are passed")
        starts = [self._device.address(where, size) for where, (_, size) in zip(locations, regions, strict=True)]
        written = {a.region for kernel in module.kernels for a in kernel.arguments if a.writes}
        refuse_overlap(module.name, [MemoryRegion(*r, n in written) for n, r in enumerate(regions)], starts)
        addresses = dict(enumerate(starts))
        for region, size in ((SCRATCH_REGION, module.scratch_bytes), (STATICS_REGION, SYMBOL_BYTES * module.symbols)):
            if size:
                addresses[region] = self._allocate_scratch(size)
        return addresses

    def _allocate_scratch(self, size_bytes: int) -> int:
        self._scratch.append(ScratchMemory(self._device, size_bytes))
        return self._scratch[-1].address

    def _add_kernels(self, module: KernelModule, binaries: Sequence[Binary], addresses: Mapping[int, int]) -> None:
        predecessors: list[set[int]] = [set() for _ in module.kernels]
        for earlier, later in module.dependences:
            predecessors[later].add(earlier)
        nodes_of_kernels: list[set[int]] = []  # nodes to wait for; several for kernels without programs
        for kernel, binary, before in zip(module.kernels, binaries, predecessors, strict=True):
            after = {node for earlier in before for node in nodes_of_kernels[earlier]}
            if any(argument.region == STATICS_REGION for argument in kernel.arguments):
                after.add(0)
            if not all(kernel.grid):  # nothing to launch, but transitive dependences to keep
                nodes_of_kernels.append(after)
                continue
            programs = math.prod(kernel.grid)
            values = [addresses[argument.region] + argument.offset_bytes for argument in kernel.arguments]
            values += [self._allocate_scratch(size * programs) if size else 0 for size in binary.scratch]
            node = CudaGraphNode(self._device, binary, kernel.grid, values)
            nodes_of_kernels.append({self._graph.add(node, sorted(after))})

    def __call__(self, *values: int) -> None:
        """Launches the program. Not thread-safe for one entry: its symbol values have a single buffer."""
        if not self._graph.nodes:
            return
        with self._device.current() as driver:
            if self._symbol_node is not None:
                self._symbol_node.values[1:] = [value % 2**64 for value in values]
                node, params = self._graph.handles[0], byref(self._symbol_node.params)
                driver("cuGraphExecKernelNodeSetParams_v2", self._executable, node, params)
            driver("cuGraphLaunch", self._executable, self.stream)
