"""Static symbols of a computation, and the access mode of each node's array."""

from __future__ import annotations

from ocannl.base.errors import CodeError
from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.assign import Call, Comp, Convert, Index, Number, Read, Value, assigns
from ocannl.ir.loops import AccessMode
from ocannl.ir.name_mangling import identifier
from ocannl.ir.tnode import Role, TNode
from ocannl.lower.coverage import overwrites


def static_symbols(code: Comp) -> tuple[Sym, ...]:
    """Returns the static symbols of the code, in order of first occurrence."""
    syms: dict[Sym, None] = {}

    def note(*indices: Affine) -> None:
        for index in indices:
            syms.update((s, None) for _, s in index.terms if s.kind is SymKind.STATIC)

    def visit(value: Value) -> None:
        match value:
            case Read(_, at):
                note(*at)
            case Index(index):
                note(index)
            case Call(_, args):
                for arg in args:
                    visit(arg)
            case Convert(inner, _):
                visit(inner)
            case Number():
                pass

    for assign in assigns(code):
        for piece in assign.pieces:
            visit(piece.value)
            for pick in piece.indirect:
                visit(pick.value)
            note(*piece.indices, *piece.when.ge0, *piece.when.eq0)
    by_name: dict[str, Sym] = {}
    for sym in syms:
        if identifier(sym.name) != sym.name:
            raise CodeError(f"a static symbol has the invalid name {sym.name!r}; use letters, digits and underscores")
        if by_name.setdefault(sym.name, sym) is not sym:
            raise CodeError(f"two different static symbols are called `{sym.name}`; rename one of them")
    return tuple(syms)


def accesses(code: Comp) -> dict[TNode, AccessMode]:
    """Returns the access mode of each node's array; merge buffers are not included."""
    read: dict[TNode, None] = {}  # before it is overwritten
    written: dict[TNode, None] = {}
    overwritten: set[TNode] = set()
    for assign in assigns(code):
        for piece in assign.pieces:
            read.update((r.node, None) for r in piece.reads if not r.merge and r.node not in overwritten)
        if assign.lhs not in overwritten:
            if overwrites(assign):
                overwritten.add(assign.lhs)
            else:
                read.setdefault(assign.lhs)
        written.setdefault(assign.lhs)
    access = {n: AccessMode.INOUT if n in read else AccessMode.OUT for n in written}
    for node in read:
        access.setdefault(node, AccessMode.CONST if node.role is Role.DATA else AccessMode.IN)
    return access
