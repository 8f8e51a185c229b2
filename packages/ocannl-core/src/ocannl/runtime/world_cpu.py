"""The description of the processor for which all processes of a world compile."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict

from ocannl.backend.api import Backend
from ocannl.backend.cpu.cpu_description import adopt_cpu
from ocannl.backend.cpu.native_backend import NativeBackend
from ocannl.ir.cpu import cpu_from_tree
from ocannl.runtime.world import World


def agree_on_cpu(world: World, backends: Iterable[Backend]) -> None:
    """Lets all processes plan for the processor of rank 0: measurements differ a little between equal processors, and
    between the cores to which processes are bound. All processes call this, whatever their backends are."""
    if world.size == 1:
        return
    native = next((backend for backend in backends if isinstance(backend, NativeBackend)), None)
    content = json.dumps(asdict(native.capabilities.cpu)).encode() if native and world.rank == 0 else b""
    first = world.gather(content)[0]
    if first and native and world.rank:
        adopt_cpu(cpu_from_tree(json.loads(first)))
