"""Memory of routines that is allocated before their code is generated: meanwhile the system provides its pages."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ocannl.backend.cpu.device import CpuDevice
from ocannl.backend.cpu.prefaulting import MIN_BYTES, prefault
from ocannl.ir.assign import Comp, nodes
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.literals import Constant
from ocannl.runtime.device_arrays import Arrays
from ocannl.runtime.slabs import Slab


def reserve_states(arrays: Arrays, codes: Iterable[Comp]) -> None:
    """Allocates the states that start with the same number in every cell, such as the moments of Adam, if they are
    large."""
    states = [node for node in dict.fromkeys(node for code in codes for node in nodes(code)) if _is_filled(node)]
    with arrays.lock:
        new = [node for node in states if node not in arrays]
        if sum(math.prod(node.dims, start=node.precision.nbytes) for node in new) >= MIN_BYTES:
            arrays.allocate(new)
            _prefault(arrays, arrays[new[0]].slab)


def reserve_arena(arrays: Arrays, size_bytes: int) -> None:
    """Allocates scratch memory for routines that need so much of it, if this is large."""
    if size_bytes >= MIN_BYTES:
        with arrays.lock:
            _prefault(arrays, arrays.arena(size_bytes))


def _is_filled(node: TNode) -> bool:
    return node.role is Role.STATE and isinstance(node.contents, Constant)


def _prefault(arrays: Arrays, slab: Slab) -> None:
    device = arrays.queue.device
    if isinstance(device, CpuDevice):
        prefault(device.window(slab.at(0), slab.size_bytes))
