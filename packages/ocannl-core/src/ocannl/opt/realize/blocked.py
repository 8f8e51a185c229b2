"""Sums in blocks, so that what a tile reads of its operands is near when the next one reads it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ocannl.ir.index import Affine, Cond, Sym
from ocannl.ir.loops import Access, Buf, Expr, Home, Let, Load, Ref, Store, Update, row_major
from ocannl.ir.names import Namer
from ocannl.ir.touch import storage
from ocannl.opt.group import Group
from ocannl.opt.nest import loads
from ocannl.opt.plan.tiled import Tiled


@dataclass(frozen=True, slots=True)
class Block:
    """The group over some of the summed values; in each turn, if there are several, over others."""

    group: Group
    turn: Sym | None = None


@dataclass(frozen=True, slots=True)
class Blocked:
    blocks: tuple[Block, ...]
    bufs: tuple[Buf, ...]  # for sums so far


def blocked(group: Group, plan: Tiled, names: Namer) -> Blocked:
    """The group with so many values at a time of the outermost summed loop as the plan says:

        acc = 0                               acc = 0
        for k in 0..24:                       for k in 0..8:
          acc += ..                             acc += ..
        y[i, j] = acc + 1                     y_sums[i, j] = acc
                                   ==>
                                              acc = y_sums[i, j]
                                              for k in 8*t..8*t+8:       for t in 1..2
                                                acc += ..
                                              y_sums[i, j] = acc

                                              acc = y_sums[i, j]
                                              for k in 16..24:
                                                acc += ..
                                              y[i, j] = acc + 1

    Sums are continued where they stopped, so they are the same to the last bit.
    """
    (total,), sym, size = group.sums, plan.reduced[0], plan.block
    many = -(-sym.extent // size)
    if many < 2:
        return Blocked((Block(group),), ())
    sums, bufs = _sums(group, names)
    keep = (Store(sums, Load(total.update.ref)),)
    turn = Sym(names(sym.name), 1, many - 2)

    def part(block: Affine, start: Expr, tail: tuple[Let | Store | Update, ...]) -> Group:
        first = block * size + sym.lo
        facts = Cond((Affine.of(sym) - first, first + (size - 1) - sym))
        return replace(group, sums=(replace(total, start=start, cond=total.cond & facts),), tail=tail)

    blocks = [Block(part(Affine(), total.start, keep))]
    if turn.extent:
        blocks.append(Block(part(Affine.of(turn), Load(sums), keep), turn))
    blocks.append(Block(part(Affine((), many - 1), Load(sums), group.tail)))
    return Blocked(tuple(blocks), bufs)


def _sums(group: Group, names: Namer) -> tuple[Ref, tuple[Buf, ...]]:
    """Where sums are between blocks: where they go in the end, if nothing else happens to them, and no term reads
    what is there."""
    (total,) = group.sums
    acc, syms = total.update.ref, group.syms
    read = {storage(each.buf) for each in loads(total.update.value)}
    match group.tail:
        case (Store(ref, Load(last)),) if last == acc and ref.buf.precision is acc.buf.precision:
            same = all(each == ref for each in loads(total.start) if storage(each.buf) == storage(ref.buf))
            if same and storage(ref.buf) not in read:
                return ref, ()
    shape = tuple([sym.extent for sym in syms])
    name = names(f"{group.writes[0].buf.name}_sums")
    buf = Buf(name, acc.buf.precision, shape, row_major(shape), Home.ARENA, Access.TEMP)
    return Ref(buf, tuple([Affine.of(sym) - sym.lo for sym in syms])), (buf,)
