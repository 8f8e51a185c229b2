"""Loop programs as JSON, which another process or machine can read back.

    document = {"nodes": [node...], "syms": [sym...], "bufs": [buf...], "proc": tree}
    tree     = null | bool | number | string | [tree...] | {constructor: [tree...]} | {table: position}

The constructors are those of `loops` and `affine`. Identity objects are written once, in tables, and referred to by
position. Contents of nodes and places in the user's code are not written; the constants of the program are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from ocannl.ir import loops
from ocannl.ir.affine import Affine, Bound, Cond, Sym, SymKind
from ocannl.ir.assign import Origin
from ocannl.ir.loops import AccessMode, Buf, Fact, MemorySpace, Mode, Proc
from ocannl.ir.ops import BY_NAME, Op
from ocannl.ir.precision import Precision, precision
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.ir.verify import verify

Tree = Any  # what the module `json` reads and writes
ENUMS: tuple[type[Enum], ...] = (AccessMode, MemorySpace, Mode, Placement, Role, SymKind)
RECORDS: tuple[type, ...] = (
    loops.Apply, loops.BindIndex, loops.Cast, loops.Comment, loops.Const, loops.For, loops.If, loops.IndexValue,
    loops.Let, loops.Load, loops.Local, loops.Poll, loops.Prefetch, loops.ReadClock, loops.Ref, loops.Store,
    loops.Update, loops.Var, loops.When, Affine, Bound, Cond, Fact, Proc,
)  # fmt: skip
CONSTRUCTORS: Mapping[str, Callable[..., object]] = {
    **{kind.__name__: kind for kind in (*ENUMS, *RECORDS)},
    "Op": BY_NAME.__getitem__,
    "Origin": Origin,
    "Precision": precision,
}


def dump(proc: Proc) -> Tree:
    """Returns a program as a document."""
    writer = _Writer()
    tree = writer.tree(proc)
    return {"nodes": writer.nodes, "syms": writer.syms, "bufs": writer.bufs, "proc": tree}


def nodes_of(proc: Proc) -> list[TNode]:
    """Returns the nodes of a program in the order of the table `nodes` of its document."""
    writer = _Writer()
    writer.tree(proc)
    return list(writer.node_positions)


def load(document: Tree) -> Proc:
    """Reads a lowered program. Raises `ValueError` if the document is damaged or the program ill-formed.

    Only the constructors of the IR are called.
    """
    try:
        proc = _Reader(document).tree(document["proc"])
        if not isinstance(proc, Proc):
            raise TypeError(f"it holds no program but {proc!r}"[:200])
        verify(proc, "lowered")
    except Exception as error:  # fields of other types fail anywhere
        raise ValueError(f"the document does not hold a lowered program: {type(error).__name__}: {error}") from None
    return proc


class _Writer:
    """Writes trees, and fills the tables of identity objects."""

    def __init__(self) -> None:
        self.nodes: list[Tree] = []
        self.syms: list[Tree] = []
        self.bufs: list[Tree] = []
        self.node_positions: dict[TNode, int] = {}
        self._sym_positions: dict[Sym, int] = {}
        self._buf_positions: dict[Buf, int] = {}

    def tree(self, value: object) -> Tree:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case np.generic():
                return value.item()
            case tuple():
                return [self.tree(item) for item in value]
            case Sym():
                return {"sym": self._sym(value)}
            case Buf():
                return {"buf": self._buf(value)}
            case TNode():
                return {"node": self._node(value)}
            case Op() | Precision():
                return {type(value).__name__: [value.name]}
            case Enum():
                return {type(value).__name__: [value.value]}
            case Origin():
                return {"Origin": [value.label]}
        if not is_dataclass(value) or type(value) not in RECORDS:
            raise TypeError(f"{type(value).__name__} is not part of a program")
        return {type(value).__name__: [self.tree(getattr(value, field.name)) for field in fields(value)]}

    def _sym(self, sym: Sym) -> int:
        if sym not in self._sym_positions:
            self._sym_positions[sym] = len(self.syms)
            self.syms.append([sym.name, sym.lo, sym.hi, self.tree(sym.kind)])
        return self._sym_positions[sym]

    def _buf(self, buf: Buf) -> int:
        if buf not in self._buf_positions:
            row = [self.tree(getattr(buf, field.name)) for field in fields(Buf)]
            self._buf_positions[buf] = len(self.bufs)
            self.bufs.append(row)
        return self._buf_positions[buf]

    def _node(self, node: TNode) -> int:
        if node not in self.node_positions:
            request = [self.tree(node.requested.value), str(node.requested.author)] if node.requested else None
            self.node_positions[node] = len(self.nodes)
            self.nodes.append([node.label, self.tree(node.role), list(node.dims), self.tree(node.precision), request])
        return self.node_positions[node]


class _Reader:
    """Reads trees; the tables are read first."""

    def __init__(self, document: Tree) -> None:
        self.tables: dict[str, list[object]] = {}
        self.tables["node"] = [self._node(*row) for row in document["nodes"]]
        self.tables["sym"] = [self._sym(*row) for row in document["syms"]]
        self.tables["buf"] = [Buf(*map(self.tree, row)) for row in document["bufs"]]

    def tree(self, tree: Tree) -> Any:
        if isinstance(tree, list):
            return tuple([self.tree(item) for item in tree])
        if not isinstance(tree, dict):
            return tree
        ((name, value),) = tree.items()
        if name in self.tables:
            return self.tables[name][value]
        return CONSTRUCTORS[name](*map(self.tree, value))

    def _sym(self, name: str, lo: int, hi: int, kind: Tree) -> Sym:
        return Sym(str(name), int(lo), int(hi), self.tree(kind))

    def _node(self, label: str, role: Tree, dims: list[int], kind: Tree, request: Tree) -> TNode:
        sizes, precision_ = tuple(map(int, dims)), self.tree(kind)
        node = TNode(str(label), self.tree(role), lambda: sizes, lambda: precision_)
        if request is not None:
            placement, author = request
            node.requested.set(self.tree(placement), str(author))
        return node
