"""Static symbols of a computation, and the access mode of each node's array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ocannl.base.errors import CodeError
from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.assign import (
    Assign,
    Call,
    Comp,
    Conditional,
    Convert,
    Index,
    LabeledBlock,
    Loop,
    Number,
    Read,
    Seq,
    Value,
    reads,
    statements,
)
from ocannl.ir.loops import AccessMode
from ocannl.ir.name_mangling import identifier
from ocannl.ir.tnode import Role, TNode
from ocannl.lower.coverage import overwrites


def static_symbols(code: Comp) -> tuple[Sym, ...]:
    """Returns the static symbols of the code, in order of first occurrence."""
    syms = dict.fromkeys(sym for index in _indices(code) for _, sym in index.terms if sym.kind is SymKind.STATIC)
    by_name: dict[str, Sym] = {}
    for sym in syms:
        if identifier(sym.name) != sym.name:
            raise CodeError(f"a static symbol has the invalid name {sym.name!r}; use letters, digits and underscores")
        if by_name.setdefault(sym.name, sym) is not sym:
            raise CodeError(f"two different static symbols are called `{sym.name}`; rename one of them")
    return tuple(syms)


def _indices(code: Comp) -> Iterator[Affine]:
    """Yields the indices and conditions of the code, in the order of the text."""
    for statement in statements(code):
        match statement:
            case Conditional(condition):
                yield from _indices_in(condition)
            case Assign(pieces=pieces):
                for piece in pieces:
                    yield from _indices_in(piece.value)
                    for pick in piece.indirect:
                        yield from _indices_in(pick.value)
                    yield from (*piece.indices, *piece.when.ge0, *piece.when.eq0)


def _indices_in(value: Value) -> Iterator[Affine]:
    match value:
        case Read(_, at):
            yield from at
        case Index(index):
            yield index
        case Call(_, args):
            for arg in args:
                yield from _indices_in(arg)
        case Convert(inner, _):
            yield from _indices_in(inner)
        case Number():
            pass


def accesses(code: Comp) -> dict[TNode, AccessMode]:
    """Returns the access mode of each node's array; merge buffers are not included."""
    table = _AccessTable()
    table.visit(code, set(_private_nodes(code)))
    access = {n: AccessMode.INOUT if n in table.read else AccessMode.OUT for n in table.written}
    for node in table.read:
        access.setdefault(node, AccessMode.CONST if node.role is Role.DATA else AccessMode.IN)
    return access


def _private_nodes(code: Comp) -> Iterator[TNode]:
    """The nodes of which no cell is read before the code has written the cell, as its loops and conditionals declare.
    """
    stack: list[Comp] = [code]
    while stack:
        match stack.pop():
            case Seq(items):
                stack.extend(items)
            case LabeledBlock(_, body):
                stack.append(body)
            case Loop(_, body, private) | Conditional(_, body, private):
                yield from private
                stack.append(body)
            case _:
                pass


class _AccessTable:
    """The nodes that code reads before it overwrites them, and those that it writes, in order of first access."""

    def __init__(self) -> None:
        self.read: dict[TNode, None] = {}
        self.written: dict[TNode, None] = {}

    def visit(self, code: Comp, overwritten: set[TNode]) -> None:
        """Adds the accesses of the code, and adds the nodes that it overwrites to `overwritten`."""
        stack: list[Comp] = [code]
        while stack:
            match stack.pop():
                case Seq(items):
                    stack.extend(reversed(items))
                case LabeledBlock(_, body):
                    stack.append(body)
                case Loop(sym, body, overwritten=nodes):
                    overwritten.update(nodes)
                    self.visit(body, overwritten if sym.extent else set(overwritten))
                case Conditional(condition, body):
                    self._note(reads(condition), overwritten)
                    self.visit(body, set(overwritten))  # which may not be executed
                case Assign() as assign:
                    self._assign(assign, overwritten)

    def _assign(self, assign: Assign, overwritten: set[TNode]) -> None:
        for piece in assign.pieces:
            self._note(piece.reads, overwritten)
        if assign.lhs not in overwritten:
            if overwrites(assign):
                overwritten.add(assign.lhs)
            else:
                self.read.setdefault(assign.lhs)
        self.written.setdefault(assign.lhs)

    def _note(self, nodes_read: Iterable[Read], overwritten: set[TNode]) -> None:
        self.read.update((r.node, None) for r in nodes_read if not r.merge and r.node not in overwritten)
