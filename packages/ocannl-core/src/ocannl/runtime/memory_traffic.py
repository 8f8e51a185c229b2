"""Memory traffic of a program: bytes read and written, with each accessed cell counted once."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ocannl.ir.affine import Affine, SymKind
from ocannl.ir.loops import Body, Buf, Load, Local, Ref, Store, Update
from ocannl.ir.walk import walk

Box = tuple[tuple[int, int], ...]  # first and last index on each axis


def traffic(body: Body) -> tuple[int, int]:
    """Returns the bytes read and written per call, of all arrays that are not local.

    Cells are counted by index ranges, ignoring guards; the bounding box of all accesses to an array limits the count
    where they overlap, as in a sliding window.
    """
    read: dict[Buf, dict[Ref, None]] = {}
    written: dict[Buf, dict[Ref, None]] = {}
    local: set[Buf] = set()
    for node in walk(body):
        match node:
            case Local(buf, _):
                local.add(buf)
            case Load(ref):
                read.setdefault(ref.buf, {})[ref] = None
            case Store(ref):
                written.setdefault(ref.buf, {})[ref] = None
            case Update(ref):
                read.setdefault(ref.buf, {})[ref] = None
                written.setdefault(ref.buf, {})[ref] = None
            case _:
                pass
    return _bytes(read, local), _bytes(written, local)


def _bytes(refs_by_buf: dict[Buf, dict[Ref, None]], local: set[Buf]) -> int:
    return sum(_cells(refs) * buf.precision.nbytes for buf, refs in refs_by_buf.items() if buf not in local)


def _cells(refs: Iterable[Ref]) -> int:
    """Returns an upper bound of the number of cells: the minimum of the bounding box and the sum over accesses."""
    reached = [ref for ref in refs if all(sym.extent for sym in ref.syms)]
    if not reached:
        return 0
    boxes = [_box(ref) for ref in reached]
    hull = tuple((min(a for a, _ in axis), max(b for _, b in axis)) for axis in zip(*boxes, strict=True))
    return min(_size(hull), sum(min(_size(box), _points(ref)) for ref, box in zip(reached, boxes, strict=True)))


def _box(ref: Ref) -> Box:
    ranges = (_fixed(at).range() for at in ref.indices)
    return tuple((max(low, 0), min(high, n - 1)) for (low, high), n in zip(ranges, ref.buf.shape, strict=True))


def _size(box: Box) -> int:
    return prod(max(0, last - first + 1) for first, last in box)


def _points(ref: Ref) -> int:
    """Returns the number of iterations of the loops that the indices depend on."""
    return prod(sym.extent for sym in {s for at in ref.indices for s in _fixed(at).syms})


def _fixed(at: Affine) -> Affine:
    """Replaces static symbols by a constant, as they do not vary within a call."""
    return at.substitute({sym: Affine.of(sym.lo) for sym in at.syms if sym.kind is SymKind.STATIC})
