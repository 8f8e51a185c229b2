"""The verifier of loop programs, which runs between passes.

In every stage, names and symbols are bound once and used in scope; operand types follow the rules in `loops`; the
operation of an `Update` is a monoid; a reference has one index for each axis, proved in bounds; read-only buffers are
not written. Each stage adds rules:

    lowered    each statement, also in regions, is one perfect loop nest with constant bounds; there are no local arrays
    optimized  temporaries and outputs are written before they are read; outputs are written; neither is written only
               where an index read from memory is in range, except for reads below the same index; buffers of kept
               nodes are in global memory, those of other nodes are not
    placed     buffers in the arena are aligned and end within it; buffers that are live in one nest do not overlap
"""

from __future__ import annotations

from typing import Literal, get_args

from ocannl.base.errors import VerifyError
from ocannl.ir.accesses import has_no_loop_carried_dependence, is_aligned, memory_accesses
from ocannl.ir.affine import Affine, Bound, Cond, Sym, SymKind
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Body,
    Buf,
    Cast,
    Comment,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    MemorySpace,
    Mode,
    Poll,
    Prefetch,
    Proc,
    ReadClock,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
    region_body,
)
from ocannl.ir.ops import Domain
from ocannl.ir.precision import Family, Precision, int64
from ocannl.ir.printer import format_expr, format_ref, format_stmt
from ocannl.ir.private_scope import private_scope, violated_rule
from ocannl.ir.prove import Region, cond_facts, negated_facts
from ocannl.ir.tile_products import tile_product
from ocannl.ir.tnode import Placement, TNode
from ocannl.ir.verify_arena import check_arena
from ocannl.ir.walk import walk

Stage = Literal["lowered", "optimized", "placed"]

READ_ONLY = (AccessMode.IN, AccessMode.CONST, AccessMode.MERGE)
UNINITIALIZED = (AccessMode.OUT, AccessMode.TEMP)  # undefined on entry to the routine


def verify(
    proc: Proc, stage: Stage, *, alignment_bytes: int = 1, results: frozenset[TNode] = frozenset()
) -> None:
    """Raises `VerifyError`, with the offending statement, if the program violates a rule of the stage.

    `results` are the nodes that the lowered program computes: those among them that are kept are outputs.
    """
    if stage not in get_args(Stage):
        raise ValueError(f"unknown stage {stage!r}; the stages are {', '.join(get_args(Stage))}")
    _Check(proc, stage).run()
    kept = {fact.node for fact in proc.facts if fact.placement is Placement.KEPT}
    if missing := kept & results - {buf.node for buf in proc.bufs}:
        names = ", ".join(sorted(node.label for node in missing))
        raise VerifyError(f"no write to {names}, which the lowered program computes\n  of  proc {proc.name}, {stage}")
    if stage == "placed":
        check_arena(proc, alignment_bytes)


def results_of(lowered: Proc) -> frozenset[TNode]:
    """The nodes that a lowered program computes without reading their previous values."""
    outputs = [buf for buf in lowered.bufs if buf.access is AccessMode.OUT and all(buf.shape)]
    return frozenset(buf.node for buf in outputs if buf.node is not None)


class _Check:
    """One traversal of the program; keeps track of the names in scope."""

    def __init__(self, proc: Proc, stage: Stage) -> None:
        self.proc = proc
        self.stage = stage
        self.region = Region(proc.syms)
        self.names: set[str] = set()  # bound so far, in any scope
        self.bufs: set[Buf] = set(proc.bufs)  # in scope
        self.vars: dict[str, Precision] = {}  # in scope
        self.indirect: frozenset[Sym] = frozenset()  # indices, read from memory, that are in range in this statement
        self.written: dict[Buf, frozenset[Sym]] = {}  # those that are in range in all writes so far
        self.path: list[Stmt] = []  # from the outermost loop to the current statement

    def run(self) -> None:
        for sym in self.proc.syms:
            self.bind(sym.name, "a static symbol")
        for buf in self.proc.bufs:
            self.bind(buf.name, "a buffer")
            self.storage(buf)
        for stmt in self.proc.body:
            if self.stage == "lowered":
                self.perfect(stmt)
            self.stmt(stmt)
        if self.stage != "lowered":
            self.placements()

    def fail(self, what: str) -> VerifyError:
        lines = [what]
        if self.path:
            lines.append(f"  in  {format_stmt(self.path[-1])}")
            lines += [f"  of  {format_stmt(outer)}" for outer in reversed(self.path[:-1])]
        return VerifyError("\n".join([*lines, f"  of  proc {self.proc.name}, {self.stage}"]))

    # --- names ---

    def bind(self, name: str, what: str) -> None:
        if name in self.names:
            raise self.fail(f"redefinition of `{name}` as {what}")
        if not (name.isidentifier() and name.isascii()):
            raise self.fail(f"invalid name `{name}` for {what}")
        self.names.add(name)

    def check_scope(self, index: Affine) -> None:
        for _, sym in index.terms:
            if sym not in self.region.ranges:
                raise self.fail(f"use of symbol `{sym.name}` outside its scope")

    def storage(self, buf: Buf) -> None:
        if len(buf.strides) != len(buf.shape):
            raise self.fail(f"`{buf.name}` has {len(buf.shape)} axes but {len(buf.strides)} strides")
        if (buf.access is AccessMode.TEMP) == (buf.space is MemorySpace.GLOBAL):
            raise self.fail(f"`{buf.access.value}` buffer `{buf.name}` in `{buf.space.value}` memory")
        if buf.access is AccessMode.PRECOMPUTED:
            if buf.node is not None:
                raise self.fail(f"precomputed buffer `{buf.name}` with a node")
        elif buf.space is MemorySpace.GLOBAL and buf.node is None:
            raise self.fail(f"global buffer `{buf.name}` without a node")

    # --- statements ---

    def block(self, body: Body) -> None:
        for stmt in body:
            self.stmt(stmt)
        for stmt in body:
            match stmt:
                case Let(name, _): del self.vars[name]
                case Local(buf, _): self.bufs.discard(buf)

    def stmt(self, stmt: Stmt) -> None:
        self.path.append(stmt)
        match stmt:
            case Store(ref, value):
                self.same(self.expr(value), ref.buf.precision, "store", ref)
                self.write(ref)
                if stmt.nontemporal:
                    self.nontemporal_store(ref)
            case Update(ref, op, value):
                if not op.monoid:
                    raise self.fail(f"update with `{op}`, which is not a monoid")
                self.same(self.expr(value), ref.buf.precision, "update", ref)
                self.read(ref)
                self.write(ref)
            case For(sym, lo, hi, body):
                self.bind(sym.name, "a loop")
                if stmt.step < 1:
                    raise self.fail(f"loop with step {stmt.step}, which is not positive")
                self.bounds(sym, lo, hi)
                if stmt.parallel_chunk:
                    self.parallel(stmt)
                if sym.kind is SymKind.ITERATION:
                    self.not_in_parallel_loop()
                if stmt.mode in (Mode.UNROLLED, Mode.VECTORIZED):
                    self.expanded(stmt)
                if stmt.mode is Mode.TENSORIZED and tile_product(stmt) is None:
                    raise self.fail("tensorized loop is not a product of tiles, see `ocannl.ir.tile_products`")
                with self.region.loop(sym, lo, hi):
                    self.block(body)
            case BindIndex(sym, value, body):
                kind = self.expr(value)
                if kind is not int64:
                    raise self.fail(f"`{sym.name}` is bound to a value of type {kind}, not int64")
                self.bind(sym.name, "a bound index")
                outer = self.indirect
                if sym.kind is SymKind.INDIRECT:
                    self.indirect = outer | {sym}
                with self.region.loop(sym, Bound.lower(sym.lo), Bound.upper(sym.hi + 1)):
                    self.block(body)
                self.indirect = outer
            case If(cond, then, orelse):
                self.cond(cond)
                scope = private_scope(stmt)
                rule = violated_rule(scope) if scope is not None else None
                if rule is not None:
                    raise self.fail(rule)
                with self.region.where(cond_facts(cond)):
                    self.block(then)
                if orelse:
                    with self.region.where(negated_facts(cond)):
                        self.block(orelse)
            case Let(name, value):
                self.bind(name, "a value")
                self.vars[name] = self.expr(value)
            case Local(buf, fill):
                self.bind(buf.name, "a local array")
                self.storage(buf)
                is_private = len(self.path) > 1 and private_scope(self.path[-2]) is not None
                if buf.space is not (MemorySpace.PRIVATE if is_private else MemorySpace.LOCAL):
                    raise self.fail(f"local array `{buf.name}` in `{buf.space.value}` memory")
                self.bufs.add(buf)
                if fill is not None:
                    self.number(fill, buf.precision)
                    self.written[buf] = frozenset()
            case Prefetch(ref):
                self.cell(ref)
            case ReadClock(ref):
                self.same(int64, ref.buf.precision, "store", ref)
                self.write(ref)
            case Comment() | Poll():
                pass
        self.path.pop()

    def parallel(self, loop: For) -> None:
        """Checks that threads can execute the iterations in any order."""
        is_outermost = all(region_body(stmt) is not None or private_scope(stmt) for stmt in self.path[:-1])
        if not is_outermost or loop.step != 1 or loop.lo.constant is None or loop.hi.constant is None:
            raise self.fail("parallel loop must be outermost in its region, with step 1 and constant bounds")
        accesses = memory_accesses((loop,))
        if loop.parallel_chunk < 1 or not has_no_loop_carried_dependence(accesses, loop.sym, (), sums=False):
            raise self.fail(f"parallel loop `{loop.sym.name}` has a loop-carried dependence")

    def not_in_parallel_loop(self) -> None:
        """Checks that no parallel loop contains the current loop, whose symbol is constant within nests."""
        for loop in self.path:
            if isinstance(loop, For) and loop.parallel_chunk:
                raise self.fail(f"parallel loop `{loop.sym.name}` contains symbols that are constant within nests")

    def nontemporal_store(self, ref: Ref) -> None:
        """Checks that a non-temporal store writes an aligned vector."""
        lanes = self.path[-2] if len(self.path) > 1 else None
        if not isinstance(lanes, For) or lanes.mode is not Mode.VECTORIZED or not is_aligned(ref, lanes):
            raise self.fail("nontemporal store is not proved to write a vector that is aligned to its size")

    def expanded(self, loop: For) -> None:
        """Checks that the loop can be unrolled or vectorized."""
        if loop.step != 1 or loop.lo.constant is None or loop.hi.constant is None:
            raise self.fail(f"{loop.mode.value} loop must have step 1 and constant bounds")
        if loop.mode is not Mode.VECTORIZED:
            return
        if not _is_straight(loop.row.body if loop.row else loop.body):
            raise self.fail("vectorized loop may only contain stores, updates and definitions, or one vectorized loop")
        accesses, outer = memory_accesses((loop,)), tuple(self.region.ranges)
        if not has_no_loop_carried_dependence(accesses, loop.sym, outer, sums=True):
            raise self.fail(f"vectorized loop `{loop.sym.name}` has a loop-carried dependence")

    def select_in_lanes(self, select: When) -> None:
        """Checks that the loads of a `When` inside a vectorized loop are in bounds for all lanes."""
        for node in walk(select):
            if isinstance(node, Load):
                axes = zip(node.ref.indices, node.ref.buf.shape, strict=True)
                if not all(self.region.is_inside(index, size) for index, size in axes):
                    raise self.fail(f"load in `{format_expr(select)}` is not proved in bounds in all lanes")

    def bounds(self, sym: Sym, lo: Bound, hi: Bound) -> None:
        if not lo.quotients or not hi.quotients:
            raise self.fail(f"loop `{sym.name}` has no bounds")
        for index, divisor in (*lo.quotients, *hi.quotients):
            self.check_scope(index)
            if divisor < 1:
                raise self.fail(f"bound of loop `{sym.name}` has divisor {divisor}, which is not positive")
        low, high = lo.constant, hi.constant
        if low is not None and high is not None and (high < low or (sym.lo <= low and high <= sym.hi)):
            return
        with self.region.loop(sym, lo, hi, trusted=False):
            if not self.region.is_nonnegative(Affine.of(sym) - sym.lo):
                raise self.fail(f"`{sym.name}` is not proved to be at least {sym.lo}, the minimum of the symbol")
            if not self.region.is_nonnegative(Affine.of(sym.hi) - sym):
                raise self.fail(f"`{sym.name}` is not proved to be at most {sym.hi}, the maximum of the symbol")

    def cond(self, cond: Cond) -> None:
        for index in (*cond.ge0, *cond.eq0):
            self.check_scope(index)

    # --- cells ---

    def cell(self, ref: Ref) -> None:
        buf = ref.buf
        if buf not in self.bufs:
            raise self.fail(f"use of buffer `{buf.name}` outside its scope")
        if len(ref.indices) != len(buf.shape):
            indices, axes = len(ref.indices), len(buf.shape)
            raise self.fail(f"`{format_ref(ref)}` has {indices} indices, but `{buf.name}` has {axes} axes")
        for axis, (index, size) in enumerate(zip(ref.indices, buf.shape, strict=True)):
            self.check_scope(index)
            if not self.region.is_inside(index, size):
                raise self.fail(f"`{format_ref(ref)}` is not proved in bounds of axis {axis}, which has size {size}")

    def read(self, ref: Ref) -> None:
        self.cell(ref)
        if self.stage == "lowered" or ref.buf.access not in UNINITIALIZED:
            return
        if ref.buf not in self.written:
            raise self.fail(f"read of `{format_ref(ref)}` before any write to `{ref.buf.name}`")
        for sym in self.written[ref.buf] - self.indirect:
            raise self.fail(f"read of `{format_ref(ref)}`, which is only written where `{sym.name}` is in range")

    def write(self, ref: Ref) -> None:
        self.cell(ref)
        if ref.buf.access in READ_ONLY:
            raise self.fail(f"write to read-only buffer `{ref.buf.name}`, which is `{ref.buf.access.value}`")
        depends_on = self.indirect if ref.buf.size else frozenset()  # an empty array has no initial values
        self.written[ref.buf] = self.written.get(ref.buf, depends_on) & depends_on

    # --- types ---

    def same(self, kind: Precision, cell_kind: Precision, what: str, ref: Ref) -> None:
        if kind is not cell_kind:
            raise self.fail(f"type mismatch: {what} of {kind} to `{format_ref(ref)}`, which is {cell_kind}")

    def number(self, value: float, precision: Precision) -> None:
        if precision.is_float:
            return
        nbits = precision.nbytes * 8
        match precision.family:
            case Family.BOOL: low, high = 0, 1
            case Family.SIGNED: low, high = -(2 ** (nbits - 1)), 2 ** (nbits - 1) - 1
            case _: low, high = 0, 2**nbits - 1
        if not (low <= value <= high) or value != int(value):
            raise self.fail(f"{value} is not representable in type {precision}")

    def expr(self, expr: Expr) -> Precision:
        """Verifies an expression and returns its type."""
        match expr:
            case Load(ref):
                self.read(ref)
                return ref.buf.precision
            case Apply(op, args):
                if len(args) != op.arity:
                    raise self.fail(f"`{op}` has {len(args)} operands, but takes {op.arity}")
                kinds = [self.expr(a) for a in args]
                kind = kinds[0]
                if any(k is not kind for k in kinds):
                    names = ", ".join(kind.name for kind in kinds)
                    raise self.fail(f"operands of `{format_expr(expr)}` have different types: {names}")
                if op.domain is not Domain.ANY and (op.domain is Domain.FLOAT) != kind.is_float:
                    raise self.fail(f"`{op}` takes {op.domain.value} operands, not {kind}")
                return kind
            case Const(value, precision):
                self.number(value, precision)
                return precision
            case Cast(value, precision):
                self.expr(value)
                return precision
            case When(cond, then, orelse):
                self.cond(cond)
                if any(isinstance(s, For) and s.mode is Mode.VECTORIZED and s.sym in cond.syms for s in self.path):
                    self.select_in_lanes(expr)
                with self.region.where(cond_facts(cond)):
                    kind = self.expr(then)
                with self.region.where(negated_facts(cond)):
                    orelse_kind = self.expr(orelse)
                if kind is not orelse_kind:
                    raise self.fail(f"branches of `{format_expr(expr)}` have different types: {kind}, {orelse_kind}")
                return kind
            case Var(name, precision):
                if name not in self.vars:
                    raise self.fail(f"use of value `{name}` outside its scope")
                if self.vars[name] is not precision:
                    raise self.fail(f"use of value `{name}` as {precision}, but it is {self.vars[name]}")
                return precision
            case IndexValue(index, precision):
                self.check_scope(index)
                if not precision.is_float and not self.region.is_empty:
                    for value in self.region.range(index):
                        self.number(value, precision)
                return precision

    # --- stages ---

    def perfect(self, stmt: Stmt) -> None:
        """Checks that a statement of a lowered program is one nest around one store."""
        region = region_body(stmt)
        if region is not None:
            for inner in region:
                self.perfect(inner)
            return
        path: list[Stmt] = [stmt]
        inner = stmt
        while True:
            match inner:
                case For(_, lo, hi, (only,), step):
                    if step != 1 or lo.constant is None or hi.constant is None:
                        raise self.at(path, "loop of a lowered program must have step 1 and constant bounds")
                case BindIndex(_, _, (only,)) | If(_, ((Store() | Update()) as only,), ()):
                    pass
                case Store() | Update() | Comment():
                    return
                case _:
                    raise self.at(path, "statement is not a perfect loop nest")
            inner = only
            path.append(only)

    def at(self, path: list[Stmt], what: str) -> VerifyError:
        self.path = path
        return self.fail(what)

    def placements(self) -> None:
        kept = {f.node: f for f in self.proc.facts}
        for buf in self.proc.bufs:
            fact = kept.get(buf.node) if buf.node is not None else None
            if buf.access in (AccessMode.OUT, AccessMode.INOUT) and buf not in self.written:
                raise self.fail(f"no write to `{buf.name}`, which is `{buf.access.value}`")
            if buf.access is AccessMode.OUT:
                for sym in self.written[buf]:
                    raise self.fail(f"output `{buf.name}` is only written where `{sym.name}` is in range")
            if fact is not None and buf.access is not AccessMode.MERGE:
                space = MemorySpace.GLOBAL if fact.placement is Placement.KEPT else MemorySpace.ARENA
                if buf.space is not space:
                    raise self.fail(f"`{buf.name}` is {fact.placement}, but in `{buf.space.value}` memory")


def _is_straight(body: Body) -> bool:
    return all(isinstance(stmt, Store | Update | Let | Comment) for stmt in body)
