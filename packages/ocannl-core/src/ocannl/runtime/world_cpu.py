"""The description of the processor for which all processes of a world compile."""

from __future__ import annotations

import json
from dataclasses import asdict

from ocannl.backend.api import Backend
from ocannl.backend.cpu.cpu_description import adopt_cpu
from ocannl.backend.cpu.native_backend import NativeBackend
from ocannl.ir.cpu import cpu_from_tree
from ocannl.runtime.world import World


def agree_on_cpu(world: World, backend: Backend) -> None:
    """Lets all processes plan for the processor of rank 0: measurements differ a little between equal processors, and
    between the cores to which processes are bound."""
    if world.size == 1 or not isinstance(backend, NativeBackend):
        return
    content = json.dumps(asdict(backend.capabilities.cpu)).encode() if world.rank == 0 else b""
    cpu = cpu_from_tree(json.loads(world.gather(content)[0]))
    if world.rank:
        adopt_cpu(cpu)
