"""Compiles modules with launch configurations that fit the shared memory of the targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ocannl.backend import CompileError
from ocannl.base.config import PRODUCTS
from ocannl.ir.loops import Proc
from ocannl_backend_triton.cuda_target import CudaTarget
from ocannl_backend_triton.emit_module import generate_module
from ocannl_backend_triton.kernel_module import Kernel, KernelModule
from ocannl_backend_triton.launch_config import DEFAULT_CONFIG, LaunchConfig
from ocannl_backend_triton.machine import Machine
from ocannl_backend_triton.serialization import Binaries, Binary


def launch_configs(machine: Machine) -> list[LaunchConfig]:
    """The base configuration of the machine, then candidates for autotuning. Several kinds of GPUs share the
    configuration of the one with the least shared memory."""
    if not machine.targets:
        return [DEFAULT_CONFIG]
    base = LaunchConfig.for_target(min(machine.targets, key=lambda target: target.shared_bytes))
    return [base, *base.candidates()]


def compile_to_fit(
    procs: Sequence[Proc], configs: Sequence[Mapping[int, LaunchConfig]], default: LaunchConfig, machine: Machine
) -> tuple[tuple[KernelModule, ...], Binaries]:  # fmt: skip
    """Compiles the programs, shrinking the configuration of each kernel that exceeds the shared memory of a target.

    `configs` are, for each program, the configurations by nest that differ from `default`. Raises `CompileError` when
    the smallest configuration does not fit either.
    """
    chosen = [dict(overrides) for overrides in configs]
    while True:
        modules = tuple([
            generate_module(proc, PRODUCTS.get(), default, overrides)
            for proc, overrides in zip(procs, chosen, strict=True)
        ])  # fmt: skip
        compiled = machine.compile(modules)
        oversized = list(_oversized_kernels(modules, compiled, machine.targets))
        if not oversized:
            return modules, compiled
        for number, kernel, binary, target in {(item[0], item[1].nest): item for item in oversized}.values():
            smaller = chosen[number].get(kernel.nest, default).shrunk()
            if smaller is None:
                raise CompileError(
                    f"kernel `{kernel.name}` needs {binary.shared_bytes} bytes of shared memory, and a block of"
                    f" {target} has at most {target.shared_bytes}"
                )
            chosen[number][kernel.nest] = smaller


def _oversized_kernels(
    modules: Sequence[KernelModule], compiled: Binaries, targets: Sequence[CudaTarget]
) -> Iterator[tuple[int, Kernel, Binary, CudaTarget]]:
    """Kernels whose shared memory exceeds that of a target, with the index of their module."""
    for target in targets:
        for number, (module, binaries) in enumerate(zip(modules, compiled[target.sm], strict=True)):
            for kernel, binary in zip(module.kernels, binaries, strict=True):
                if binary.shared_bytes > target.shared_bytes:
                    yield number, kernel, binary, target
