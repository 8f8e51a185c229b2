"""Rows that are added to a table where memory says so: each program does that for some rows of the table alone.

    for n in 0..8192:                    program p has the rows 16 * p + (0, 1, ... 15), and goes through the ids 256 at
      pick v in 0..50257 = ids[n]:       a time: those that pick one of its rows it takes one after the other
        table[v, j] += x[n, j]

Each cell gets what is added to it in the order of the loop, by one program: the result is the same in each bit, however
many programs there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocannl.ir.index import Sym
from ocannl.ir.loops import Body, Comment, For, If, Pick, Poll, Var
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import int32
from ocannl.ir.touch import are_independent, touches
from ocannl.ir.walk import walk
from ocannl_backend_triton.nests import is_whole
from ocannl_backend_triton.products import symbols
from ocannl_backend_triton.scope import Guard, Index
from ocannl_backend_triton.values import Value

if TYPE_CHECKING:
    from ocannl_backend_triton.emit import Emitter

MIN = BY_NAME["min"]

WIDTH = 256  # places that are looked through at a time


@dataclass(frozen=True, slots=True)
class Share:
    """A program has `block` of the values of a symbol that is picked in `loop`, which is searched for them."""

    pick: Pick
    loop: For
    block: int

    @property
    def sym(self) -> Sym:
        return self.pick.sym

    @property
    def count(self) -> int:
        return -(-self.sym.extent // self.block)

    @property
    def width(self) -> int:
        return min(WIDTH, 1 << (self.loop.sym.extent - 1).bit_length())


def share(body: Body, blocks: frozenset[Sym], programs: int) -> Share | None:
    """How the rows that the statements write to are divided among so many programs, if they can be: what is picked must
    be one for all iterations over the symbols of `blocks`."""
    turns = 1
    while True:
        match [stmt for stmt in body if not isinstance(stmt, Comment | Poll)]:
            case [For(body=(Pick() as pick,)) as loop] if is_whole(loop) and loop.sym.extent:
                programs = min(programs, turns * loop.sym.extent)
                rows = -(-pick.sym.extent // max(programs, 1))
                alone = are_independent(touches(pick.body), pick.sym, (), sums=False)
                varies = any(isinstance(node, Var) for node in walk(pick.value)) or symbols(pick.value, blocks) & blocks
                if rows >= pick.sym.extent or varies or not alone:
                    return None
                return Share(pick, loop, 1 << (rows - 1).bit_length())
            case [For() as loop]:
                turns *= loop.sym.extent
                body = loop.body
            case [If(_, inner, ())]:
                body = inner
            case _:
                return None


def search(emitter: Emitter, shared: Share) -> None:
    """The iterations in which one of the program's own values is picked, one after the other.

    v_first = tl.program_id(0) * 16
    v_last = tl.minimum(v_first + 15, 50256)
    for n_start in range(0, 8192, BLOCK_n):
        n = n_start + tl.arange(0, BLOCK_n)
        v = tl.load(ids + n)
        found = tl.where((v >= v_first) & (v <= v_last), n, 8192)
        n_2 = tl.reduce(found, 0, _fold_min_i32)
        while n_2 < 8192:
            v_2 = tl.load(ids + n_2)
            ...
            n_2 = tl.reduce(tl.where(found > n_2, found, 8192), 0, _fold_min_i32)
    """
    scope, memory, pick, loop = emitter.scope, emitter.memory, shared.pick, shared.loop
    low, high, end = pick.sym.lo, pick.sym.hi, loop.sym.hi + 1
    others = emitter.layout.programs // shared.count
    program = f"tl.program_id(0) // {others}" if others > 1 else "tl.program_id(0)"
    first = scope.let(f"{pick.sym.name}_first", f"{program} * {shared.block}" + (f" + {low}" if low else ""))
    last = scope.let(f"{pick.sym.name}_last", f"tl.minimum({first} + {shared.block - 1}, {high})")
    size = scope.constant(f"BLOCK_{loop.sym.name}", shared.width)
    place = max(scope.rank - 1, 0)
    along = frozenset((place,))

    def next_of(found: str) -> str:
        with scope.along(place, size):
            return memory.folded(MIN, Value(found, int32, along), (), along).text

    emitter.hazards.before(loop.body)
    start = scope.new(f"{loop.sym.name}_start")
    emitter.line(f"for {start} in range({loop.sym.lo}, {end}, {size}):")
    with scope.deeper(), emitter.hazards.loop(loop.body):
        block = scope.let(loop.sym.name, f"{start} + {scope.arange(size, place)}")
        scope.syms[loop.sym] = Index(block, along)
        edge = Guard(scope.let(f"{block}_inside", f"{block} < {end}"), along, frozenset((loop.sym,)), True)
        with scope.along(place, size), scope.guarded(edge):
            picked = scope.let(pick.sym.name, emitter.value(pick.value).text)
        mine = f"{edge.text} & ({picked} >= {first}) & ({picked} <= {last})"
        found = scope.let("found", f"tl.where({mine}, {block}, {end})")
        here = scope.let(loop.sym.name, next_of(found))
        emitter.line(f"while {here} < {end}:")
        with scope.deeper():
            scope.syms[loop.sym] = Index(here)
            scope.syms[pick.sym] = Index(scope.let(pick.sym.name, emitter.value(pick.value).text))
            emitter.statements(pick.body)
            emitter.line(f"{here} = {next_of(f'tl.where({found} > {here}, {found}, {end})')}")
