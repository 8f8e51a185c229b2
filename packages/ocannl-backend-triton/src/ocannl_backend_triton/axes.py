"""How the loops of a kernel are executed: by programs of a grid, in blocks, or one by one.

    for i in 0..1000:          i: programs, in blocks of 32 along axis 0
      local acc                   program n takes i = 32 * n + (0, 1, ... 31)
      for k in 0..300:         k: in blocks of 64 along axis 1, one block after the other
        acc += x[i, k]
      y[i] = acc
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ocannl.ir.index import Affine, Sym, SymKind
from ocannl.ir.loops import Body, Buf, Comment, For, If, Let, Load, Local, Pick, Poll, Ref, Store, Update
from ocannl.ir.touch import are_independent, touches
from ocannl.ir.walk import walk

CELLS = 1024  # of a block, where nothing is summed
SUMMED = 2048  # of a block that is summed
WIDEST = 1024  # of a row that is summed
KEPT = 8  # rows that are summed together, at least, where they are not long


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop that takes `block` iterations at a time, along an axis of the blocks (`place`); in a `grid`, each program
    takes one of the blocks."""

    loop: For
    block: int
    place: int
    grid: bool

    @property
    def sym(self) -> Sym:
        return self.loop.sym

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return -(-self.sym.extent // self.block)

    @property
    def is_even(self) -> bool:
        return self.sym.extent % self.block == 0


@dataclass(frozen=True, slots=True)
class Layout:
    """The loops of a kernel by their symbols, and of how many axes its blocks are."""

    axes: Mapping[Sym, Axis]
    rank: int

    @property
    def grid(self) -> list[Axis]:
        return [axis for axis in self.axes.values() if axis.grid]


def layout(body: Body) -> Layout:
    """The outermost loops whose iterations have nothing to do with each other are taken by programs."""
    chain, inside = parallel(body)
    inner = [loop for loop in lanes(inside, tuple([loop.sym for loop in chain])) if loop not in chain]
    strides = Strides(body)
    axes: dict[Sym, Axis] = {}
    longest = max([loop.sym.extent for loop in inner], default=0)
    summed = 1
    if inner:
        contiguous = any(strides.unit(loop.sym) for loop in inner)
        summed = min(power_of_two(longest), WIDEST if contiguous else SUMMED // 128)
    room = max(SUMMED // summed, 1) if inner else CELLS
    blocks: dict[Sym, int] = {}
    for loop in sorted(chain, key=lambda loop: (-strides.weight(loop.sym), -chain.index(loop)))[:2]:
        blocks[loop.sym] = min(power_of_two(loop.sym.extent), room)
        room //= blocks[loop.sym]
    wide = [loop.sym for loop in chain if blocks.get(loop.sym, 1) > 1]
    for loop in chain:
        axes[loop.sym] = Axis(loop, blocks.get(loop.sym, 1), wide.index(loop.sym) if loop.sym in wide else 0, True)
    for loop in inner:
        block = min(power_of_two(loop.sym.extent), summed)
        if block > 1:
            axes[loop.sym] = Axis(loop, block, len(wide), False)
    return Layout(axes, len(wide) + any(not axis.grid for axis in axes.values()))


def power_of_two(count: int) -> int:
    """The smallest that is at least so much."""
    return 1 << max(count - 1, 0).bit_length()


def is_whole(loop: For) -> bool:
    return loop.step == 1 and loop.lo.constant == loop.sym.lo and loop.hi.constant == loop.sym.hi


def parallel(body: Body) -> tuple[list[For], Body]:
    """The outermost loops, one inside the other, of which each iteration is independent, and what is inside."""
    chain: list[For] = []
    while True:
        match [stmt for stmt in body if not isinstance(stmt, Comment | Poll)]:
            case [For() as loop] if is_whole(loop):
                outer = [each.sym for each in chain]
                if not are_independent(touches(loop.body), loop.sym, outer, sums=False):
                    return chain, body
                chain.append(loop)
                body = loop.body
            case [If(_, inner, ())]:
                body = inner
            case _:
                return chain, body


def lanes(body: Body, outer: tuple[Sym, ...]) -> Iterator[For]:
    """Loops that can be executed in blocks, statement by statement: innermost ones, whose iterations have nothing in
    common but what they add to."""
    for stmt in body:
        match stmt:
            case For(sym, _, _, inner):
                below = list(lanes(inner, (*outer, sym)))
                if below or any(isinstance(node, For | Local) for node in walk(inner)):
                    yield from below
                elif is_whole(stmt) and not scatters(inner) and are_independent(touches(inner), sym, outer, sums=True):
                    yield stmt
            case If(_, then, orelse):
                yield from lanes(then, outer)
                yield from lanes(orelse, outer)
            case Pick(sym, _, inner):
                yield from lanes(inner, (*outer, sym))


def scatters(body: Body) -> bool:
    """Whether memory says where something is written: iterations may meet in one cell."""
    places = (at for node in walk(body) if isinstance(node, Store | Update) for at in node.ref.at)
    return any(sym.kind is SymKind.PICKED for at in places for sym in at.syms)


class Strides:
    """Of how many accesses a symbol moves the address by one, stores counting more."""

    def __init__(self, body: Body) -> None:
        self.weights: dict[Sym, int] = {}
        self.loads: set[Sym] = set()
        for node in walk(body):
            match node:
                case Load(ref):
                    for sym in _unit(ref):
                        self.weights[sym] = self.weights.get(sym, 0) + 1
                        self.loads.add(sym)
                case Store(ref) | Update(ref):
                    for sym in _unit(ref):
                        self.weights[sym] = self.weights.get(sym, 0) + 2
                case _:
                    pass

    def weight(self, sym: Sym) -> int:
        return self.weights.get(sym, 0)

    def unit(self, sym: Sym) -> bool:
        """Whether a load moves by one."""
        return sym in self.loads


def address(ref: Ref) -> Affine:
    """In elements from the first one."""
    return sum((at * stride for at, stride in zip(ref.at, ref.buf.strides, strict=True)), Affine())


def _unit(ref: Ref) -> list[Sym]:
    return [sym for coef, sym in address(ref).terms if abs(coef) == 1 and sym.kind is SymKind.LOOP]


def written(body: Body) -> dict[Buf, None]:
    return {node.ref.buf: None for node in walk(body) if isinstance(node, Store | Update)}


def mentioned(body: Body) -> Sequence[Buf]:
    """Every array that the statements touch, by first mention, their own local ones apart."""
    found: dict[Buf, None] = {}
    local: set[Buf] = set()
    for node in walk(body):
        match node:
            case Load(ref) | Store(ref) | Update(ref):
                found.setdefault(ref.buf)
            case Local(buf):
                local.add(buf)
            case Let():
                pass
            case _:
                pass
    return [buf for buf in found if buf not in local]
