"""The GPUs of this machine as compilation and launch targets."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.backend import Entry, Location, Queue
from ocannl_backend_triton.compile import compile_kernels
from ocannl_backend_triton.cuda_graph import GraphLaunch
from ocannl_backend_triton.cuda_target import CudaTarget
from ocannl_backend_triton.device import CudaDevice, devices
from ocannl_backend_triton.driver import Driver
from ocannl_backend_triton.kernel_module import KernelModule
from ocannl_backend_triton.serialization import Binaries, KernelPackage
from ocannl_backend_triton.streams import StreamQueue, ThreadedStreamQueue


class CudaMachine:
    """Implements `Machine`."""

    def __init__(self, driver: Driver) -> None:
        self._devices = devices(driver)

    @property
    def targets(self) -> tuple[CudaTarget, ...]:
        """One target per kind of GPU."""
        return tuple({device.target.sm: device.target for device in self._devices}.values())

    @property
    def fingerprint(self) -> str:
        return " ".join(map(str, self.targets))

    def devices(self) -> Sequence[CudaDevice]:
        return self._devices

    def compile(self, modules: Sequence[KernelModule]) -> Binaries:
        return {target.sm: [compile_kernels(module, target) for module in modules] for target in self.targets}

    def link(self, package: KernelPackage, number: int, queue: Queue, locations: Sequence[Location]) -> Entry:
        assert isinstance(queue, StreamQueue | ThreadedStreamQueue)
        compiled = package.binaries[queue.device.target.sm][number]
        return GraphLaunch(package.modules[number], compiled, queue, locations)
