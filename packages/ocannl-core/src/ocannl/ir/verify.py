"""The rules that every program keeps, checked between passes.

Always: names and symbols are bound once and used in scope; types agree as `loops` says; `Update` holds a monoid; a
reference has an index per axis, each *proved* inside; nothing writes what it may only read. Then, by stage:

    lowered    every statement one perfect nest with constant bounds, and no local arrays
    optimized  nothing reads a temporary, or a result of the routine, before it is written; kept nodes are in global
               memory and written if they should be, other nodes are not
    placed     the arena holds each of its buffers, aligned, and no two that are live in one nest overlap
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, get_args

from ocannl.base.errors import VerifyError
from ocannl.ir.accesses import has_no_loop_carried_dependence, is_aligned, memory_accesses
from ocannl.ir.affine import Affine, Bound, Cond, Sym
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
)
from ocannl.ir.ops import Domain
from ocannl.ir.precision import Family, Precision, int64
from ocannl.ir.printer import format_expr, format_ref, format_stmt
from ocannl.ir.prove import Region, cond_facts, negated_facts
from ocannl.ir.tnode import Placement
from ocannl.ir.walk import walk

Stage = Literal["lowered", "optimized", "placed"]

READ_ONLY = (AccessMode.IN, AccessMode.CONST, AccessMode.MERGE)
UNSET = (AccessMode.OUT, AccessMode.TEMP)  # hold nothing before the routine writes them


def verify(proc: Proc, stage: Stage, *, alignment_bytes: int = 1) -> None:
    """Raises `VerifyError`, naming the statement, when the program breaks a rule of its stage."""
    if stage not in get_args(Stage):
        raise ValueError(f"no stage is called {stage!r}; there are {', '.join(get_args(Stage))}")
    _Check(proc, stage).run()
    if stage == "placed":
        _check_arena(proc, alignment_bytes)


class _Check:
    """One walk over the program, with what is in scope."""

    def __init__(self, proc: Proc, stage: Stage) -> None:
        self.proc = proc
        self.stage = stage
        self.region = Region(proc.syms)
        self.names: set[str] = set()  # bound anywhere so far
        self.bufs: set[Buf] = set(proc.bufs)  # in scope
        self.vars: dict[str, Precision] = {}  # in scope
        self.written: set[Buf] = set()
        self.path: list[Stmt] = []  # from the outermost loop to the statement at hand

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
            raise self.fail(f"`{name}` is bound twice, here as {what}")
        if not (name.isidentifier() and name.isascii()):
            raise self.fail(f"`{name}` is no name for {what}")
        self.names.add(name)

    def known(self, index: Affine) -> None:
        for _, sym in index.terms:
            if sym not in self.region.ranges:
                raise self.fail(f"`{sym.name}` is not in scope")

    def storage(self, buf: Buf) -> None:
        if len(buf.strides) != len(buf.shape):
            raise self.fail(f"`{buf.name}` has {len(buf.shape)} axes and {len(buf.strides)} strides")
        if (buf.access is AccessMode.TEMP) == (buf.space is MemorySpace.GLOBAL):
            raise self.fail(f"`{buf.name}` is `{buf.access.value}` and in `{buf.space.value}` memory")
        if buf.space is MemorySpace.GLOBAL and buf.node is None:
            raise self.fail(f"`{buf.name}` is global and stores no node")

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
                self.same(self.expr(value), ref.buf.precision, "is stored in", ref)
                self.write(ref)
                if stmt.nontemporal:
                    self.nontemporal_store(ref)
            case Update(ref, op, value):
                if not op.monoid:
                    raise self.fail(f"`{op}` is not a monoid, and updates")
                self.same(self.expr(value), ref.buf.precision, "updates", ref)
                self.read(ref)
                self.write(ref)
            case For(sym, lo, hi, body):
                self.bind(sym.name, "a loop")
                if stmt.step < 1:
                    raise self.fail(f"a loop takes steps of {stmt.step}")
                self.bounds(sym, lo, hi)
                if stmt.parallel_chunk:
                    self.parallel(stmt)
                if stmt.mode is not Mode.SERIAL:
                    self.expanded(stmt)
                with self.region.loop(sym, lo, hi):
                    self.block(body)
            case BindIndex(sym, value, body):
                if self.expr(value) is not int64:
                    raise self.fail(f"`{sym.name}` is bound to a value that is not int64")
                self.bind(sym.name, "a bound index")
                with self.region.loop(sym, Bound.lower(sym.lo), Bound.upper(sym.hi + 1)):
                    self.block(body)
            case If(cond, then, orelse):
                self.cond(cond)
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
                if buf.space is not MemorySpace.LOCAL:
                    raise self.fail(f"the local array `{buf.name}` is in `{buf.space.value}` memory")
                self.bufs.add(buf)
                if fill is not None:
                    self.number(fill, buf.precision)
                    self.written.add(buf)
            case Prefetch(ref):
                self.cell(ref)
            case ReadClock(ref):
                self.same(int64, ref.buf.precision, "is read from the clock, and stored in", ref)
                self.write(ref)
            case Comment() | Poll():
                pass
        self.path.pop()

    def parallel(self, loop: For) -> None:
        """Checks that threads can execute the iterations in any order."""
        if len(self.path) != 1 or loop.step != 1 or loop.lo.constant is None or loop.hi.constant is None:
            raise self.fail("a parallel loop is outermost, has step 1 and constant bounds")
        accesses = memory_accesses(loop.body)
        if loop.parallel_chunk < 1 or not has_no_loop_carried_dependence(accesses, loop.sym, (), sums=False):
            raise self.fail(f"`{loop.sym.name}` cannot be parallel: an iteration may access a cell that another iteration writes")

    def nontemporal_store(self, ref: Ref) -> None:
        """Checks that a non-temporal store writes an aligned vector."""
        lanes = self.path[-2] if len(self.path) > 1 else None
        if not isinstance(lanes, For) or lanes.mode is not Mode.VECTORIZED or not is_aligned(ref, lanes):
            raise self.fail("a nontemporal store must provably write a vector that is aligned to its size")

    def expanded(self, loop: For) -> None:
        """Checks that the loop can be unrolled or vectorized."""
        if loop.step != 1 or loop.lo.constant is None or loop.hi.constant is None:
            raise self.fail(f"a loop that is {loop.mode.value} has step 1 and constant bounds")
        if loop.mode is not Mode.VECTORIZED:
            return
        if not _is_straight(loop.row.body if loop.row else loop.body):
            raise self.fail("a vectorized loop contains stores, updates and definitions only, or one vectorized loop")
        accesses, outer = memory_accesses(loop.body), tuple(self.region.ranges)
        if not has_no_loop_carried_dependence(accesses, loop.sym, outer, sums=True):
            raise self.fail(f"`{loop.sym.name}` cannot be vectorized: an iteration may access a cell that another iteration writes")

    def chosen_in_lanes(self, choice: When) -> None:
        """Checks that the loads of a `When` inside a vectorized loop are in bounds for all lanes."""
        for node in walk(choice):
            if isinstance(node, Load):
                axes = zip(node.ref.indices, node.ref.buf.shape, strict=True)
                if not all(self.region.is_inside(index, size) for index, size in axes):
                    raise self.fail(f"whether `{format_expr(choice)}` reads memory differs between lanes")

    def bounds(self, sym: Sym, lo: Bound, hi: Bound) -> None:
        if not lo.quotients or not hi.quotients:
            raise self.fail(f"`{sym.name}` has no bounds")
        for index, divisor in (*lo.quotients, *hi.quotients):
            self.known(index)
            if divisor < 1:
                raise self.fail(f"a bound of `{sym.name}` is divided by {divisor}")
        low, high = lo.constant, hi.constant
        if low is not None and high is not None and (high < low or (sym.lo <= low and high <= sym.hi)):
            return
        with self.region.loop(sym, lo, hi, trusted=False):
            if not self.region.is_nonnegative(Affine.of(sym) - sym.lo):
                raise self.fail(f"`{sym.name}` is not proved to stay at or above {sym.lo}, its smallest value")
            if not self.region.is_nonnegative(Affine.of(sym.hi) - sym):
                raise self.fail(f"`{sym.name}` is not proved to stay at or below {sym.hi}, its largest value")

    def cond(self, cond: Cond) -> None:
        for index in (*cond.ge0, *cond.eq0):
            self.known(index)

    # --- cells ---

    def cell(self, ref: Ref) -> None:
        buf = ref.buf
        if buf not in self.bufs:
            raise self.fail(f"`{buf.name}` is not in scope")
        if len(ref.indices) != len(buf.shape):
            indices, axes = len(ref.indices), len(buf.shape)
            raise self.fail(f"`{format_ref(ref)}` has {indices} indices, and `{buf.name}` {axes} axes")
        for axis, (index, size) in enumerate(zip(ref.indices, buf.shape, strict=True)):
            self.known(index)
            if not self.region.is_inside(index, size):
                raise self.fail(f"`{format_ref(ref)}` is not proved inside axis {axis} of `{buf.name}`, of size {size}")

    def read(self, ref: Ref) -> None:
        self.cell(ref)
        if self.stage != "lowered" and ref.buf.access in UNSET and ref.buf not in self.written:
            raise self.fail(f"`{format_ref(ref)}` is read, and nothing wrote `{ref.buf.name}` before")

    def write(self, ref: Ref) -> None:
        self.cell(ref)
        if ref.buf.access in READ_ONLY:
            raise self.fail(f"`{format_ref(ref)}` is written, and `{ref.buf.name}` is `{ref.buf.access.value}`")
        self.written.add(ref.buf)

    # --- types ---

    def same(self, given: Precision, wanted: Precision, how: str, ref: Ref) -> None:
        if given is not wanted:
            raise self.fail(f"a value of type {given} {how} `{format_ref(ref)}`, which is {wanted}")

    def number(self, value: float, precision: Precision) -> None:
        if precision.is_float:
            return
        nbits = precision.nbytes * 8
        match precision.family:
            case Family.BOOL: least, most = 0, 1
            case Family.SIGNED: least, most = -(2 ** (nbits - 1)), 2 ** (nbits - 1) - 1
            case _: least, most = 0, 2**nbits - 1
        if not (least <= value <= most) or value != int(value):
            raise self.fail(f"{value} is not a number of type {precision}")

    def expr(self, expr: Expr) -> Precision:
        """Verifies an expression and returns its type."""
        match expr:
            case Load(ref):
                self.read(ref)
                return ref.buf.precision
            case Apply(op, args):
                if len(args) != op.arity:
                    raise self.fail(f"`{op}` has {len(args)} operands, and takes {op.arity}")
                kinds = [self.expr(a) for a in args]
                kind = kinds[0]
                if any(k is not kind for k in kinds):
                    names = ", ".join(kind.name for kind in kinds)
                    raise self.fail(f"operands of `{format_expr(expr)}` have the types {names}")
                if op.domain is not Domain.ANY and (op.domain is Domain.FLOAT) != kind.is_float:
                    raise self.fail(f"`{op}` takes operands of kind {op.domain.value}, not {kind}")
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
                    self.chosen_in_lanes(expr)
                with self.region.where(cond_facts(cond)):
                    kind = self.expr(then)
                with self.region.where(negated_facts(cond)):
                    other = self.expr(orelse)
                if kind is not other:
                    raise self.fail(f"the sides of `{format_expr(expr)}` have the types {kind}, {other}")
                return kind
            case Var(name, precision):
                if self.vars.get(name) is not precision:
                    held = f"is {self.vars[name]}, not {precision}" if name in self.vars else "is not in scope"
                    raise self.fail(f"`{name}` {held}")
                return precision
            case IndexValue(index, precision):
                self.known(index)
                if not precision.is_float and not self.region.is_empty:
                    for value in self.region.range(index):
                        self.number(value, precision)
                return precision

    # --- stages ---

    def perfect(self, stmt: Stmt) -> None:
        """That a statement of a lowered program is one nest around one store."""
        path: list[Stmt] = [stmt]
        inner = stmt
        while True:
            match inner:
                case For(_, lo, hi, (only,), step):
                    if step != 1 or lo.constant is None or hi.constant is None:
                        raise self.at(path, "the loop has no constant bounds")
                case BindIndex(_, _, (only,)) | If(_, ((Store() | Update()) as only,), ()):
                    pass
                case Store() | Update() | Comment():
                    return
                case _:
                    raise self.at(path, "the statement is not one perfect nest")
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
                raise self.fail(f"nothing writes `{buf.name}`, which is `{buf.access.value}`")
            if fact is not None and buf.access is not AccessMode.MERGE:
                home = MemorySpace.GLOBAL if fact.placement is Placement.KEPT else MemorySpace.ARENA
                if buf.space is not home:
                    raise self.fail(f"`{buf.name}` is {fact.placement}, and in `{buf.space.value}` memory")


def _check_arena(proc: Proc, alignment_bytes: int) -> None:
    def fail(what: str) -> VerifyError:
        return VerifyError(f"{what}\n  of  proc {proc.name}, placed")

    arena = {b for b in proc.bufs if b.space is MemorySpace.ARENA}
    for buf in arena:
        if buf.offset is None:
            raise fail(f"`{buf.name}` has no place in the arena")
        step = max(alignment_bytes, buf.precision.nbytes)
        if buf.offset < 0 or buf.offset % step:
            raise fail(f"`{buf.name}` is at {buf.offset} in the arena, which is not a multiple of {step} bytes")
        if buf.offset + buf.nbytes > proc.arena:
            raise fail(f"`{buf.name}` ends at {buf.offset + buf.nbytes}, and the arena at {proc.arena}")
    _check_apart(arena, proc.body, "the arena", fail)
    for stmt in proc.body:
        if isinstance(stmt, For):
            own = {each.buf for each in stmt.body if isinstance(each, Local) and each.buf.offset is not None}
            _check_apart(own, stmt.body, "the stack", fail)


def _check_apart(bufs: set[Buf], body: Body, where: str, fail: Callable[[str], VerifyError]) -> None:
    """That those which live together, from the first to the last statement that touches them, do not overlap."""
    first: dict[Buf, int] = {}
    last: dict[Buf, int] = {}
    for n, stmt in enumerate(body):
        for buf in _touched(stmt):
            if buf in bufs:
                first.setdefault(buf, n)
                last[buf] = n
    live: list[Buf] = []
    for buf in first:  # in order of birth
        live = [b for b in live if last[b] >= first[buf]]
        start = buf.offset or 0
        for other in live:
            begin = other.offset or 0
            if start < begin + other.nbytes and begin < start + buf.nbytes:
                here = format_stmt(body[first[buf]])
                raise fail(f"`{other.name}` and `{buf.name}` overlap in {where}, and both live here\n  in  {here}")
        live.append(buf)


def _is_straight(body: Body) -> bool:
    return all(isinstance(stmt, Store | Update | Let | Comment) for stmt in body)


def _touched(stmt: Stmt) -> Iterator[Buf]:
    for node in walk(stmt):
        match node:
            case Load(ref) | Store(ref, _) | Update(ref, _, _): yield ref.buf
