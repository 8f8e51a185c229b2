"""Array privatization: buffers whose values do not outlive the statements that write them (Tu and Padua 1993)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ocannl.ir.affine import TRUE
from ocannl.ir.loops import BindIndex, Body, Buf, For, If, Let, Ref, Stmt, Store, Update
from ocannl.opt.analysis.nests import PerfectNest, accessed_buffers, covers_buffer, loads


def privatizable_buffers(body: Iterable[Stmt]) -> set[Buf]:
    """Returns the buffers that the statements overwrite as a whole before they read any cell."""
    covered: set[Buf] = set()
    exposed: set[Buf] = set()  # accessed before they are overwritten
    for stmt in body:
        covered |= _overwritten((stmt,)) - exposed
        exposed.update(buf for bufs in accessed_buffers(stmt) for buf in bufs if buf not in covered)
    return covered


def _overwritten(body: Body) -> set[Buf]:
    """Returns the buffers of which a statement stores every cell, and reads a cell only after storing it."""
    stored: dict[Buf, Ref] = {}
    exposed: set[Buf] = set()
    for loops, is_unconditional, leaf in _leaves(body, (), True):
        value = leaf.value
        for ref in loads(value):
            if ref.buf not in stored or stored[ref.buf].indices != ref.indices:
                exposed.add(ref.buf)
        if isinstance(leaf, Store) and leaf.ref.buf not in stored:
            if is_unconditional and covers_buffer(PerfectNest(loops, TRUE, leaf)):
                stored[leaf.ref.buf] = leaf.ref
            else:
                exposed.add(leaf.ref.buf)
        elif isinstance(leaf, Update) and leaf.ref.buf not in stored:
            exposed.add(leaf.ref.buf)
    return stored.keys() - exposed


def _leaves(
    body: Body, loops: tuple[For, ...], is_unconditional: bool
) -> Iterator[tuple[tuple[For, ...], bool, Store | Update | Let | BindIndex]]:
    """Yields the statements inside loops, with these loops, and whether no condition guards them."""
    for stmt in body:
        match stmt:
            case For(body=inner):
                yield from _leaves(inner, (*loops, stmt), is_unconditional)
            case If(cond, then, orelse):
                yield from _leaves(then, loops, is_unconditional and cond.is_true)
                yield from _leaves(orelse, loops, False)
            case BindIndex(body=inner):
                yield loops, is_unconditional, stmt
                yield from _leaves(inner, loops, False)
            case Store() | Update() | Let():
                yield loops, is_unconditional, stmt
            case _:
                pass
