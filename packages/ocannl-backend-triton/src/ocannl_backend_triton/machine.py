"""What programs run on: the GPUs that are here, or triton's interpreter on the processor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Protocol

from ocannl.backend import BackendUnavailable, Device, Entry, Location, Queue
from ocannl_backend_triton.driver import present
from ocannl_backend_triton.kernel import Module
from ocannl_backend_triton.package import Binaries, Package
from ocannl_backend_triton.target import Target

INTERPRET = "TRITON_INTERPRET"


class Machine(Protocol):
    @property
    def words(self) -> str:
        """What code for this machine depends on."""
        ...

    @property
    def targets(self) -> Sequence[Target]:
        """The kinds of GPUs that code is made for; none where kernels are interpreted."""
        ...

    def devices(self) -> Sequence[Device]: ...

    def compile(self, modules: Sequence[Module]) -> Binaries: ...

    def link(self, package: Package, number: int, queue: Queue, locations: Sequence[Location]) -> Entry:
        """Binds one of the package's modules to memory."""
        ...


def interprets() -> bool:
    return os.environ.get(INTERPRET) == "1"


def obstacle() -> str | None:
    """Why nothing runs here, and what does work; None when something runs. Costs little, and leaves no trace."""
    if find_spec("triton") is None:
        return "triton is not installed; run: pip install ocannl-backend-triton[triton]"
    if interprets():
        return None
    try:
        present()
    except BackendUnavailable as wrong:
        return (
            f"no GPU: {wrong}; kernels can be compiled here, and with {INTERPRET}=1 set they run in triton's"
            " interpreter"
        )
    return None


def machine() -> Machine:
    """Raises `BackendUnavailable`."""
    if interprets():
        from ocannl_backend_triton.interpreter import InterpretingMachine

        return InterpretingMachine()
    from ocannl_backend_triton.cuda import CudaMachine
    from ocannl_backend_triton.driver import cuda

    return CudaMachine(cuda())
