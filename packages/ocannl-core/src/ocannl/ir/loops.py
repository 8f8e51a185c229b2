"""Loop programs: a `Proc` is compiled to one native function.

    Proc  = (name, bufs, syms, body, facts)
    Body  = stmt*
    Stmt  = For | If | BindIndex | Store | Update | Let | Local | Comment | Poll | Prefetch | ReadClock
    Expr  = Const | IndexValue | Var | Load | Apply | When | Cast

Semantics. Statements execute in order. `For` executes its body for sym = lo, lo+step, ... below hi. A loop with a
positive `parallel_chunk` has no loop-carried dependence, and threads execute chunks of that many iterations in any
order; `private_scope` gives them arrays of their own. The mode is a hint: an `UNROLLED` loop repeats its body for each
iteration; the iterations of a `VECTORIZED` loop, which has no loop-carried dependence except reductions, are the lanes
of vectors, statement by statement, and its reductions are reassociated. A vectorized loop within a vectorized loop is a
register tile, which may be transposed when it is loaded or stored. A `TENSORIZED` loop is a product of matrices for
which some targets have instructions, see `tile_products`; its sums are reassociated. The iterations of a `SEQUENTIAL`
loop, such as the steps of a recurrence, depend on each other; its body consists of whole nests, which may be parallel.
`BindIndex` binds a symbol to the value of an integer expression and executes its body if the value is in the range of
the symbol. A `nontemporal` store bypasses the caches, for cells that are not read again soon; its value is visible to
all statements after the nest.

`Update(ref, op, e)` is `ref = ref op e` for a monoid op, so iterations of a reduction may be reordered. `Let` defines a
value and `Local` allocates storage; the scope of both ends with the enclosing block. The operands and the result of an
`Apply` have the same type. `where` evaluates both branches, `When` only the one that its affine condition selects, as
a guard of padding and partial writes. A `Cast` to bool is `!= 0`; between integers it wraps; from a float to an integer
it truncates toward zero and saturates, and NaN becomes 0. `Poll` is a safepoint, where a cancelled program may return
with the cells written so far; backends may ignore it. `ReadClock` stores the time in a cell. `verify` proves
that every access is in bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from operator import is_not

from ocannl.ir.affine import Affine, Bound, Cond, Sym, SymKind
from ocannl.ir.assign import NOWHERE, Origin
from ocannl.ir.cached_analyses import Analyzed
from ocannl.ir.ops import Op
from ocannl.ir.precision import Precision
from ocannl.ir.tnode import Placement, TNode


class MemorySpace(Enum):
    GLOBAL = "global"  # owned by a context
    ARENA = "arena"  # one block per routine, shared by liveness
    LOCAL = "local"  # registers, or the stack of the call
    PRIVATE = "private"  # of a thread, which fills it before its iterations of a parallel loop, see `private_scope`


class AccessMode(Enum):
    IN = "in"
    OUT = "out"
    INOUT = "inout"
    CONST = "const"  # never written by any routine
    MERGE = "merge"  # another device's copy
    PRECOMPUTED = "precomputed"  # depends on weights only, and keeps its values between calls; belongs to no node
    TEMP = "temp"


@dataclass(frozen=True, slots=True, eq=False)
class Buf:
    """Storage: an identity object with a name that is unique in its program. Strides are in elements; `offset`, in the
    arena, is in bytes and set by the memory pass."""

    name: str
    precision: Precision
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    space: MemorySpace
    access: AccessMode
    node: TNode | None = None
    offset: int | None = None

    @property
    def size(self) -> int:
        """The number of elements that the array spans in memory, gaps between rows included."""
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def nbytes(self) -> int:
        return self.size * self.precision.nbytes

    def __repr__(self) -> str:
        return self.name


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True)
class Ref:
    """One cell of a buffer."""

    buf: Buf
    indices: tuple[Affine, ...]

    @property
    def address(self) -> Affine:
        """The distance of the cell from the first one of the buffer, in elements."""
        const, terms = 0, []
        for index, step in zip(self.indices, self.buf.strides, strict=True):
            const += index.const * step
            terms += [(coef * step, sym) for coef, sym in index.terms]
        return Affine.sum(terms, const)

    @property
    def syms(self) -> tuple[Sym, ...]:
        """The symbols of the indices, in order of first mention."""
        return tuple(dict.fromkeys([sym for index in self.indices for _, sym in index.terms]))

    def stride(self, sym: Sym) -> int:
        """The distance, in elements, between the cells of two successive values of `sym`."""
        total = 0
        for index, step in zip(self.indices, self.buf.strides, strict=True):
            for coef, index_sym in index.terms:
                if index_sym is sym:
                    total += coef * step
        return total

    def substitute(self, values: Mapping[Sym, Affine]) -> Ref:
        """Returns the cell with values in place of symbols; itself if it does not depend on these."""
        indices = tuple([index.substitute(values) for index in self.indices])
        return Ref(self.buf, indices) if any(map(is_not, indices, self.indices)) else self


@dataclass(frozen=True, slots=True)
class Const:
    value: int | float
    precision: Precision


@dataclass(frozen=True, slots=True)
class IndexValue:
    index: Affine
    precision: Precision


@dataclass(frozen=True, slots=True)
class Var:
    name: str
    precision: Precision


@dataclass(frozen=True, slots=True)
class Load:
    ref: Ref

    @property
    def precision(self) -> Precision:
        return self.ref.buf.precision


@dataclass(frozen=True, slots=True)
class Apply:
    op: Op
    args: tuple[Expr, ...]

    @property
    def precision(self) -> Precision:
        return self.args[-1].precision


@dataclass(frozen=True, slots=True)
class When:
    cond: Cond
    on_true: Expr
    on_false: Expr

    @property
    def precision(self) -> Precision:
        return self.on_true.precision


@dataclass(frozen=True, slots=True)
class Cast:
    value: Expr
    precision: Precision


Expr = Const | IndexValue | Var | Load | Apply | When | Cast


class Mode(Enum):
    SERIAL = ""
    UNROLLED = "unrolled"
    VECTORIZED = "vectorized"
    TENSORIZED = "tensorized"
    SEQUENTIAL = "sequential"


@dataclass(frozen=True, slots=True)
class For(Analyzed):
    sym: Sym
    lo: Bound
    hi: Bound
    body: Body
    step: int = 1
    origin: Origin = field(default=NOWHERE, compare=False)
    parallel_chunk: int = 0
    mode: Mode = Mode.SERIAL

    @property
    def row(self) -> For | None:
        """The inner vectorized loop of a register tile; None for other loops."""
        match self:
            case For(mode=Mode.VECTORIZED, body=(For(mode=Mode.VECTORIZED) as row,)):
                return row
            case _:
                return None


@dataclass(frozen=True, slots=True)
class If:
    cond: Cond
    then: Body
    orelse: Body = ()


@dataclass(frozen=True, slots=True)
class BindIndex:
    sym: Sym
    value: Expr  # of int64
    body: Body


@dataclass(frozen=True, slots=True)
class Store:
    ref: Ref
    value: Expr
    origin: Origin = field(default=NOWHERE, compare=False)
    nontemporal: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    ref: Ref
    op: Op
    value: Expr
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Let:
    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Local:
    """Storage in registers or on the stack; `init` is the initial value of every cell."""

    buf: Buf
    init: int | float | None = None


@dataclass(frozen=True, slots=True)
class Comment:
    text: str


@dataclass(frozen=True, slots=True)
class Poll:
    pass


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A hint that the element `distance` elements after the cell is read soon. The address may be out of bounds, and
    backends may ignore the hint."""

    ref: Ref
    distance: int
    level: int = 1  # the first cache that the line is fetched to, of 1 to 3


@dataclass(frozen=True, slots=True)
class ReadClock:
    """Stores the time of a monotonic clock, in nanoseconds, in a cell of an int64 array."""

    ref: Ref


Stmt = For | If | BindIndex | Store | Update | Let | Local | Comment | Poll | Prefetch | ReadClock
Body = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """The placement of a node in this routine, and the pass that decided it."""

    node: TNode
    placement: Placement
    pass_name: str


@dataclass(frozen=True, slots=True)
class Proc:
    """One routine. `bufs` are the arrays that it accesses, except locals, by first use; `syms` its static symbols;
    `reserved` the names that are bound elsewhere, if it is a part of a program."""

    name: str
    bufs: tuple[Buf, ...]
    syms: tuple[Sym, ...]
    body: Body
    facts: tuple[Fact, ...] = ()
    arena: int = 0  # bytes
    reserved: tuple[str, ...] = ()

    @property
    def is_part(self) -> bool:
        """Whether this is a part of a program."""
        return bool(self.reserved)


def loop(sym: Sym, body: Body, origin: Origin = NOWHERE, mode: Mode = Mode.SERIAL) -> For:
    """The loop over the whole range of `sym`."""
    lo, hi = _from_to(sym.lo, sym.hi)
    return For(sym, lo, hi, body, origin=origin, mode=mode)


@lru_cache(maxsize=1 << 10)
def _from_to(first: int, last: int) -> tuple[Bound, Bound]:
    return Bound.lower(first), Bound.upper(last + 1)


def region_body(stmt: Stmt) -> Body | None:
    """The body of a sequential loop or of conditional code, which consists of whole nests; None for other statements.
    """
    match stmt:
        case For(mode=Mode.SEQUENTIAL, body=body):
            return body
        case BindIndex(sym, _, body) if sym.kind is SymKind.CONDITION:
            return body
        case _:
            return None


def is_tensorized(stmt: Stmt) -> bool:
    """Whether the statement is a product of tiles."""
    return isinstance(stmt, For) and stmt.mode is Mode.TENSORIZED


def is_full(loop: For) -> bool:
    """Whether the loop covers the range of its symbol with step 1."""
    return loop.step == 1 and loop.lo.constant == loop.sym.lo and loop.hi.constant == loop.sym.hi
