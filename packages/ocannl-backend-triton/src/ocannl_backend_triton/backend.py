"""The Triton backend: kernels for GPUs, or, without one, for Triton's interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata

from ocannl.backend import Capabilities, CompiledCode, Device, Entry, Location, Queue
from ocannl.backend.cpu import backend_version, validate
from ocannl.base.config import ONLINE_SOFTMAX, PRODUCTS
from ocannl.ir.loops import Proc
from ocannl_backend_triton.emit_module import generate_module
from ocannl_backend_triton.machine import Machine
from ocannl_backend_triton.serialization import KernelPackage
from ocannl_backend_triton.shrink_to_shared_memory import compile_to_fit, launch_configs
from ocannl_backend_triton.types import TRITON_TYPES

GRID_THREADS = 1 << 18  # of the largest GPUs; smaller ones use it too, so that split reductions give equal results
CAPABILITIES = Capabilities(
    frozenset(precision.name for precision in TRITON_TYPES),
    wants_schedule=False,
    wants_fusion_groups=True,
    grid_threads=GRID_THREADS,
)


class TritonBackend:
    """Implements `Backend`."""

    __slots__ = ("_machine",)

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    source_suffix = ".py"

    @property
    def name(self) -> str:
        return "triton"

    @property
    def version(self) -> str:
        return f"{backend_version('ocannl-backend-triton', __file__)} {self._target} products={PRODUCTS.get()}"

    @property
    def _target(self) -> str:
        return f"triton {metadata.version('triton')} {self._machine.fingerprint}"

    @property
    def capabilities(self) -> Capabilities:
        return replace(CAPABILITIES, wants_online_softmax=ONLINE_SOFTMAX.get())

    def compile(self, procs: Sequence[Proc]) -> KernelPackage:
        return self.compile_variants(procs, [()] * len(procs))

    def variants(self, nest: Proc) -> list[int]:
        """Indices of the launch configurations that generate distinct kernels for the nest."""
        table = launch_configs(self._machine)
        configurations: dict[tuple[object, ...], int] = {}
        for number, config in enumerate(table):
            generated = generate_module(nest, PRODUCTS.get(), config)
            configurations.setdefault((generated.source, generated.kernels), number)
        return list(configurations.values())

    def compile_variants(self, procs: Sequence[Proc], variants: Sequence[Sequence[int]]) -> KernelPackage:
        validate(procs, CAPABILITIES, self.name)
        table = launch_configs(self._machine)
        configs = [{nest: table[variant] for nest, variant in enumerate(selection)} for selection in variants]
        return KernelPackage(self._target, *compile_to_fit(procs, configs, table[0], self._machine))

    def restore(self, blob: bytes) -> KernelPackage:
        return KernelPackage.read(blob, self._target)

    def link(self, code: CompiledCode, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        assert isinstance(code, KernelPackage)
        return self._machine.link(code, code.module_index(name), queue, locations)

    def device_count(self) -> int:
        return len(self._machine.devices())

    def device(self, ordinal: int) -> Device:
        return self._machine.devices()[ordinal]
