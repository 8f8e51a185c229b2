"""Kernels that fit their GPUs: what needs too much of what kernels share is made again with smaller sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ocannl.backend import CompileError
from ocannl.base.config import PRODUCTS
from ocannl.ir.loops import Proc
from ocannl_backend_triton.kernel import Kernel, Module
from ocannl_backend_triton.launch_config import USUAL, Sizes
from ocannl_backend_triton.machine import Machine
from ocannl_backend_triton.package import Binaries, Binary
from ocannl_backend_triton.source import module
from ocannl_backend_triton.target import Target


def sizes_of(machine: Machine) -> list[Sizes]:
    """Those of the machine, then others that may be tried. Of GPUs of several kinds the one counts that has least."""
    if not machine.targets:
        return [USUAL]
    own = Sizes.of(min(machine.targets, key=lambda target: target.shared_bytes))
    return [own, *own.others()]


def fitted(
    procs: Sequence[Proc], sizes: Sequence[Mapping[int, Sizes]], usual: Sizes, machine: Machine
) -> tuple[tuple[Module, ...], Binaries]:  # fmt: skip
    """The programs, and their machine code. `sizes` are those of nests that have not the usual ones. Raises
    `CompileError` where the smallest sizes need too much."""
    chosen = [dict(mine) for mine in sizes]
    while True:
        modules = tuple([
            module(proc, PRODUCTS.get(), usual, mine) for proc, mine in zip(procs, chosen, strict=True)
        ])  # fmt: skip
        made = machine.compile(modules)
        large = list(_large(modules, made, machine.targets))
        if not large:
            return modules, made
        for number, kernel, binary, target in {(each[0], each[1].nest): each for each in large}.values():
            smaller = chosen[number].get(kernel.nest, usual).smaller()
            if smaller is None:
                raise CompileError(
                    f"kernel `{kernel.name}` needs {binary.shared_bytes} bytes of shared memory, and a block of"
                    f" {target} has at most {target.shared_bytes}"
                )
            chosen[number][kernel.nest] = smaller


def _large(
    modules: Sequence[Module], made: Binaries, targets: Sequence[Target]
) -> Iterator[tuple[int, Kernel, Binary, Target]]:
    """Kernels that need more shared memory than there is, and the numbers of their programs."""
    for target in targets:
        for number, (each, binaries) in enumerate(zip(modules, made[target.sm], strict=True)):
            for kernel, binary in zip(each.kernels, binaries, strict=True):
                if binary.shared_bytes > target.shared_bytes:
                    yield number, kernel, binary, target
