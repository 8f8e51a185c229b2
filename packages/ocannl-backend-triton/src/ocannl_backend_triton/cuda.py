"""The GPUs of this machine, as what programs are compiled for and linked on."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.backend import Entry, Location, Queue
from ocannl_backend_triton.compile import binaries
from ocannl_backend_triton.device import CudaDevice, devices
from ocannl_backend_triton.driver import Driver
from ocannl_backend_triton.graph import Launch
from ocannl_backend_triton.kernel import Module
from ocannl_backend_triton.package import Binaries, Package
from ocannl_backend_triton.streams import StreamQueue, ThreadedStreamQueue
from ocannl_backend_triton.target import Target


class CudaMachine:
    """Implements `Machine`."""

    def __init__(self, driver: Driver) -> None:
        self._devices = devices(driver)

    @property
    def targets(self) -> tuple[Target, ...]:
        """One for each kind of GPU."""
        return tuple({device.target.sm: device.target for device in self._devices}.values())

    @property
    def words(self) -> str:
        return " ".join(map(str, self.targets))

    def devices(self) -> Sequence[CudaDevice]:
        return self._devices

    def compile(self, modules: Sequence[Module]) -> Binaries:
        return {target.sm: [binaries(module, target) for module in modules] for target in self.targets}

    def link(self, package: Package, number: int, queue: Queue, locations: Sequence[Location]) -> Entry:
        assert isinstance(queue, StreamQueue | ThreadedStreamQueue)
        made = package.binaries[queue.device.target.sm][number]
        return Launch(package.modules[number], made, queue, locations)
