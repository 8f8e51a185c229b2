"""Generates the Triton source of a program: one kernel for each loop nest.

    @triton.jit
    def step_1(x, y, BLOCK_i: tl.constexpr):
        i = tl.program_id(0) * BLOCK_i + tl.arange(0, BLOCK_i)
        i_mask = i < 1000
        tl.store(y + i, tl.exp(tl.load(x + i, mask=i_mask, other=0)), mask=i_mask)
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Mapping, Sequence

from ocannl.codegen import Document, Nest, outline_nests, pool_bufs, printable
from ocannl.ir.affine import Sym
from ocannl.ir.loops import Body, Buf, Load, Local, MemorySpace, Proc, Store, Update
from ocannl.ir.name_mangling import Namer
from ocannl.ir.walk import walk
from ocannl_backend_triton.barriers import Hazards
from ocannl_backend_triton.collapse import collapse_loops
from ocannl_backend_triton.emit_kernel import Emitter
from ocannl_backend_triton.kernel_module import SCRATCH_REGION, STATICS_REGION, Argument, Kernel, KernelModule
from ocannl_backend_triton.launch_config import DEFAULT_CONFIG, LaunchConfig
from ocannl_backend_triton.loop_analysis import hoist_parallel_loops, parallel_loops, written_bufs
from ocannl_backend_triton.loop_mapping import choose_layout
from ocannl_backend_triton.types import triton_type
from ocannl_backend_triton.values import OperationPrinter

RESERVED = (*keyword.kwlist, *dir(builtins), "libdevice", "symbols", "tl", "triton")
NO_CONFIGS: Mapping[int, LaunchConfig] = {}
SCRATCH_ALIGNMENT_BYTES = 256  # of each array in scratch memory


def generate_module(
    proc: Proc,
    products: str = "ieee",
    default: LaunchConfig = DEFAULT_CONFIG,
    configs: Mapping[int, LaunchConfig] = NO_CONFIGS,
) -> KernelModule:
    """Generates kernels for the program. `products` is the precision of float32 matrix products, `configs` are the
    launch configurations of nests, by index, that differ from `default`."""
    return _ModuleBuilder(proc, products, default, configs).module()


class _ModuleBuilder:
    """Accumulates the kernels and helper functions of one program."""

    def __init__(self, proc: Proc, products: str, default: LaunchConfig, configs: Mapping[int, LaunchConfig]) -> None:
        self.proc, self.products, self.default, self.configs = proc, products, default, configs
        self.operations = OperationPrinter()
        self.names = Namer(RESERVED)  # of functions
        self.pools = pool_bufs(proc)
        self.kernels: list[Kernel] = []
        self.texts: list[str] = []
        self.scratch_bytes = 0

    def module(self) -> KernelModule:
        for nest_index, nest in enumerate(outline_nests(self.proc)):
            self.add(nest_index, nest)
        regions = [(buf.name, buf.nbytes) for buf in self.pools]
        if self.proc.arena:
            regions.append(("arena", self.proc.arena))
        return KernelModule(
            self.proc.name, self.text(), tuple(self.kernels), tuple(regions), len(self.proc.syms), self.scratch_bytes
        )

    def text(self) -> str:
        doc = Document()
        doc.line(f"# {printable(self.proc.name)}")
        doc.line("import triton")
        doc.line("import triton.language as tl")
        if self.operations.uses_libdevice:
            doc.line("from triton.language.extra import libdevice")
        return doc.text() + "".join(f"\n\n{text}" for text in (*self.operations.helpers.values(), *self.texts))

    def add(self, nest_index: int, nest: Nest) -> None:
        if not written_bufs(nest.body) or any(loop.sym.extent == 0 for loop in parallel_loops(nest.body)[0]):
            return
        body, views = collapse_loops(hoist_parallel_loops(nest.body))
        block_layout = choose_layout(body, self.configs.get(nest_index, self.default))
        names = Namer(RESERVED)
        accesses = _buffer_accesses(body, views)
        parameters = {buf: names(buf.name) for buf in accesses}
        pointer_names = parameters | {view: parameters[buf] for view, buf in views.items() if buf in parameters}
        hazards = Hazards(body, nest.unaliased_bufs, views)
        emitter = Emitter(block_layout, names, self.operations, hazards, pointer_names, self.products)
        emitter.kernel(body)
        arguments = [self.argument(name, buf, accesses[buf]) for buf, name in parameters.items()]
        head = []
        if emitter.scope.statics:
            arguments.append(Argument("symbols", "i64", STATICS_REGION, 0, 8 * len(self.proc.syms), True, False))
            head = [self.static(sym, index.text) for sym, index in emitter.scope.statics.items()]
        for name, buf, count in emitter.memory.scratch_arrays:
            arguments.append(self.add_scratch_argument(name, buf, count))
        label = nest.labels[0] if nest.labels else ""
        name = self.names(f"{self.proc.name}_{label}" if label else f"{self.proc.name}_{len(self.kernels) + 1}")
        used_names = set(re.findall(r"\w+", emitter.scope.doc.text()))
        constants = tuple([(name, value) for name, value in emitter.scope.constants.items() if name in used_names])
        self.texts.append(_function_text(name, nest.labels, arguments, constants, head, emitter.scope.doc))
        grid = block_layout.num_programs, 1, 1
        num_warps, num_stages = block_layout.num_warps, block_layout.num_stages
        self.kernels.append(Kernel(name, label, tuple(arguments), grid, constants, num_warps, num_stages, nest_index))

    def static(self, sym: Sym, name: str) -> str:
        return f"    {name} = tl.load(symbols + {self.proc.syms.index(sym)})"

    def argument(self, name: str, buf: Buf, mode: str) -> Argument:
        region = self.pools.index(buf) if buf.space is MemorySpace.GLOBAL else len(self.pools) if buf.nbytes else 0
        kind = triton_type(buf.precision).pointee
        return Argument(name, kind, region, buf.offset or 0, buf.nbytes, "r" in mode, "w" in mode)

    def add_scratch_argument(self, name: str, buf: Buf, count: int) -> Argument:
        nbytes, offset = buf.nbytes * count, self.scratch_bytes
        self.scratch_bytes += -(-nbytes // SCRATCH_ALIGNMENT_BYTES) * SCRATCH_ALIGNMENT_BYTES
        return Argument(name, triton_type(buf.precision).pointee, SCRATCH_REGION, offset, nbytes, True, True)


def _buffer_accesses(body: Body, views: Mapping[Buf, Buf]) -> dict[Buf, str]:
    """Global arrays that the statements access, with their modes: read (r), write (w)."""
    accesses: dict[Buf, str] = {}
    local = {node.buf for node in walk(body) if isinstance(node, Local)}
    for node in walk(body):
        match node:
            case Load(ref): access = "r"
            case Store(ref): access = "w"
            case Update(ref): access = "rw"
            case _: continue
        if ref.buf not in local:
            buf = views.get(ref.buf, ref.buf)
            accesses[buf] = accesses.get(buf, "") + access
    return accesses


def _function_text(
    name: str, labels: Sequence[str], arguments: Sequence[Argument], constants: Sequence[tuple[str, int]],
    head: Sequence[str], body: Document,
) -> str:  # fmt: skip
    params = [argument.name for argument in arguments] + [f"{constant}: tl.constexpr" for constant, _ in constants]
    doc = Document()
    for label in labels:
        doc.line(f"# {printable(label)}")
    doc.line("@triton.jit")
    doc.line(f"def {name}({', '.join(params)}):")
    for line in head:
        doc.line(line)
    return doc.text() + (body.text() or "    pass\n")
