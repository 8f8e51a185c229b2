"""The execution target: the GPUs of this machine, or Triton's interpreter on the CPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Protocol

from ocannl.backend import BackendUnavailable, Device, Entry, Location, Queue
from ocannl_backend_triton.cuda_target import CudaTarget
from ocannl_backend_triton.driver import check_driver
from ocannl_backend_triton.kernel_module import KernelModule
from ocannl_backend_triton.serialization import Binaries, KernelPackage

INTERPRET = "TRITON_INTERPRET"


class Machine(Protocol):
    @property
    def fingerprint(self) -> str:
        """Identifies the machine in cache keys and packages."""
        ...

    @property
    def targets(self) -> Sequence[CudaTarget]:
        """The kinds of GPUs to compile for; empty where kernels are interpreted."""
        ...

    def devices(self) -> Sequence[Device]: ...

    def compile(self, modules: Sequence[KernelModule]) -> Binaries: ...

    def link(self, package: KernelPackage, number: int, queue: Queue, locations: Sequence[Location]) -> Entry:
        """Binds the package's module of index `number` to memory."""
        ...


def is_interpreting() -> bool:
    return os.environ.get(INTERPRET) == "1"


def unavailable_reason() -> str | None:
    """Reason why no kernel can run here, and what works instead; None if kernels can run. Initializes nothing."""
    if find_spec("triton") is None:
        return "triton is not installed; run: pip install ocannl-backend-triton[triton]"
    if is_interpreting():
        return None
    try:
        check_driver()
    except BackendUnavailable as error:
        return (
            f"no GPU: {error}; kernels can be compiled here, and with {INTERPRET}=1 set they run in triton's"
            " interpreter"
        )
    return None


def current_machine() -> Machine:
    """The machine to run on. Raises `BackendUnavailable`."""
    if is_interpreting():
        from ocannl_backend_triton.interpreter import InterpretingMachine

        return InterpretingMachine()
    from ocannl_backend_triton.cuda_machine import CudaMachine
    from ocannl_backend_triton.driver import system_driver

    return CudaMachine(system_driver())
