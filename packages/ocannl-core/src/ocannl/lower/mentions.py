"""What a computation mentions: its static symbols, and how it uses the array of each node."""

from __future__ import annotations

from ocannl.base.errors import CodeError
from ocannl.ir.assign import Apply, Comp, Convert, Index, Number, Read, Value, assigns
from ocannl.ir.index import Affine, Sym, SymKind
from ocannl.ir.loops import Access
from ocannl.ir.names import identifier
from ocannl.ir.tnode import Role, TNode
from ocannl.lower.coverage import overwrites


def statics(code: Comp) -> tuple[Sym, ...]:
    """The static symbols that the code mentions, in order of first mention."""
    found: dict[Sym, None] = {}

    def note(*indices: Affine) -> None:
        for index in indices:
            found.update((s, None) for _, s in index.terms if s.kind is SymKind.STATIC)

    def visit(value: Value) -> None:
        match value:
            case Read(_, at):
                note(*at)
            case Index(index):
                note(index)
            case Apply(_, args):
                for arg in args:
                    visit(arg)
            case Convert(inner, _):
                visit(inner)
            case Number():
                pass

    for assign in assigns(code):
        for piece in assign.pieces:
            visit(piece.value)
            for pick in piece.picks:
                visit(pick.value)
            note(*piece.at, *piece.when.ge0, *piece.when.eq0)
    by_name: dict[str, Sym] = {}
    for sym in found:
        if identifier(sym.name) != sym.name:
            raise CodeError(f"a static symbol is called {sym.name!r}; name it with letters, digits and underscores")
        if by_name.setdefault(sym.name, sym) is not sym:
            raise CodeError(f"two different static symbols are called `{sym.name}`; give one of them another name")
    return tuple(found)


def accesses(code: Comp) -> dict[TNode, Access]:
    """What the routine does with the own array of each node."""
    read: dict[TNode, None] = {}  # before anything overwrote it
    written: dict[TNode, None] = {}
    whole: set[TNode] = set()
    for assign in assigns(code):
        for piece in assign.pieces:
            read.update((r.node, None) for r in piece.reads if not r.merge and r.node not in whole)
        if assign.lhs not in whole:
            if overwrites(assign):
                whole.add(assign.lhs)
            else:
                read.setdefault(assign.lhs)
        written.setdefault(assign.lhs)
    access = {n: Access.INOUT if n in read else Access.OUT for n in written}
    for node in read:
        access.setdefault(node, Access.CONST if node.role is Role.DATA else Access.IN)
    return access
