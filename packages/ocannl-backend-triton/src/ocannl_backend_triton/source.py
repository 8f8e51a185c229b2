"""A program as kernels: one for each nest of loops, and their text.

    @triton.jit
    def step_1(x, y, BLOCK_i: tl.constexpr):
        i = tl.program_id(0) * BLOCK_i + tl.arange(0, BLOCK_i)
        i_inside = i < 1000
        tl.store(y + i, tl.exp(tl.load(x + i, mask=i_inside, other=0)), mask=i_inside)
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Mapping, Sequence

from ocannl.codegen import Document, Nest, nests, pool_bufs, printable
from ocannl.ir.index import Sym
from ocannl.ir.loops import Body, Buf, Home, Load, Local, Proc, Store, Update
from ocannl.ir.names import Namer
from ocannl.ir.walk import walk
from ocannl_backend_triton.axes import layout
from ocannl_backend_triton.collapse import collapsed
from ocannl_backend_triton.emit import Emitter
from ocannl_backend_triton.hazards import Hazards
from ocannl_backend_triton.kernel import SCRATCH, STATICS, Argument, Kernel, Module
from ocannl_backend_triton.launch_config import USUAL, Sizes
from ocannl_backend_triton.nests import hoisted, parallel, written
from ocannl_backend_triton.types import held
from ocannl_backend_triton.values import Operations

RESERVED = (*keyword.kwlist, *dir(builtins), "libdevice", "statics", "tl", "triton")
NONE: Mapping[int, Sizes] = {}
ALIGNMENT = 256  # of what lies in the scratch memory, in bytes


def module(
    proc: Proc, products: str = "ieee", usual: Sizes = USUAL, sizes: Mapping[int, Sizes] = NONE
) -> Module:  # fmt: skip
    """The program as kernels; `products` is how matrices of float32 are multiplied, `sizes` are those of nests, by
    place, that have not the usual ones."""
    return _Program(proc, products, usual, sizes).module()


class _Program:
    def __init__(self, proc: Proc, products: str, usual: Sizes, sizes: Mapping[int, Sizes]) -> None:
        self.proc, self.products, self.usual, self.sizes = proc, products, usual, sizes
        self.operations = Operations()
        self.names = Namer(RESERVED)  # of functions
        self.pools = pool_bufs(proc)
        self.kernels: list[Kernel] = []
        self.texts: list[str] = []
        self.scratch_bytes = 0

    def module(self) -> Module:
        for place, nest in enumerate(nests(self.proc)):
            self.add(place, nest)
        regions = [(buf.name, buf.nbytes) for buf in self.pools]
        if self.proc.arena:
            regions.append(("arena", self.proc.arena))
        return Module(
            self.proc.name, self.text(), tuple(self.kernels), tuple(regions), len(self.proc.syms), self.scratch_bytes
        )

    def text(self) -> str:
        doc = Document()
        doc.line(f"# {printable(self.proc.name)}")
        doc.line("import triton")
        doc.line("import triton.language as tl")
        if self.operations.uses_library:
            doc.line("from triton.language.extra import libdevice")
        return doc.text() + "".join(f"\n\n{text}" for text in (*self.operations.helpers.values(), *self.texts))

    def add(self, place: int, nest: Nest) -> None:
        if not written(nest.body) or any(loop.sym.extent == 0 for loop in parallel(nest.body)[0]):
            return
        body, views = collapsed(hoisted(nest.body))
        plan = layout(body, self.sizes.get(place, self.usual))
        names = Namer(RESERVED)
        touched = _touched(body, views)
        parameters = {buf: names(buf.name) for buf in touched}
        seen = parameters | {view: parameters[buf] for view, buf in views.items() if buf in parameters}
        emitter = Emitter(plan, names, self.operations, Hazards(body, nest.disjoint, views), seen, self.products)
        emitter.kernel(body)
        arguments = [self.argument(name, buf, touched[buf]) for buf, name in parameters.items()]
        head = []
        if emitter.scope.statics:
            arguments.append(Argument("statics", "i64", STATICS, 0, 8 * len(self.proc.syms), True, False))
            head = [self.static(sym, index.text) for sym, index in emitter.scope.statics.items()]
        for name, buf, count in emitter.memory.scratch:
            arguments.append(self.scratch(name, buf, count))
        label = nest.labels[0] if nest.labels else ""
        name = self.names(f"{self.proc.name}_{label}" if label else f"{self.proc.name}_{len(self.kernels) + 1}")
        words = set(re.findall(r"\w+", emitter.scope.doc.text()))
        constants = tuple([(name, value) for name, value in emitter.scope.constants.items() if name in words])
        self.texts.append(_function(name, nest.labels, arguments, constants, head, emitter.scope.doc))
        grid = plan.programs, 1, 1
        self.kernels.append(
            Kernel(name, label, tuple(arguments), grid, constants, plan.num_warps, plan.num_stages, place)
        )

    def static(self, sym: Sym, name: str) -> str:
        return f"    {name} = tl.load(statics + {self.proc.syms.index(sym)})"

    def argument(self, name: str, buf: Buf, how: str) -> Argument:
        region = self.pools.index(buf) if buf.home is Home.POOL else len(self.pools) if buf.nbytes else 0
        kind = held(buf.precision).pointer
        return Argument(name, kind, region, buf.offset or 0, buf.nbytes, "r" in how, "w" in how)

    def scratch(self, name: str, buf: Buf, count: int) -> Argument:
        nbytes, offset = buf.nbytes * count, self.scratch_bytes
        self.scratch_bytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return Argument(name, held(buf.precision).pointer, SCRATCH, offset, nbytes, True, True)


def _touched(body: Body, views: Mapping[Buf, Buf]) -> dict[Buf, str]:
    """The arrays that the statements share with others, and whether they read (r) and write (w) them."""
    found: dict[Buf, str] = {}
    local = {node.buf for node in walk(body) if isinstance(node, Local)}
    for node in walk(body):
        match node:
            case Load(ref): how = "r"
            case Store(ref): how = "w"
            case Update(ref): how = "rw"
            case _: continue
        if ref.buf not in local:
            buf = views.get(ref.buf, ref.buf)
            found[buf] = found.get(buf, "") + how
    return found


def _function(
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
