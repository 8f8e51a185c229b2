"""Computations in the assignment representation, written by hand."""

from __future__ import annotations

import pytest

from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.assign import Assign, Call, Number, Piece, Read, Seq
from ocannl.ir.ops import ADD, BY_NAME, MUL
from ocannl.ir.precision import float32
from ocannl.ir.tnode import Role, TNode


class Build:
    """Nodes and computations."""

    def node(self, label, *dims, role=Role.PLACEHOLDER, precision=float32, contents=None):
        return TNode(label, role, lambda: dims, lambda: precision, contents=contents, where="here.py:1")

    def param(self, label, *dims, **more):
        return self.node(label, *dims, role=Role.PARAMETER, **more)

    def result(self, label, *dims, **more):
        return self.node(label, *dims, role=Role.RESULT, **more)

    def over(self, *sizes):
        return tuple(Sym(f"i{n}", 0, size - 1) for n, size in enumerate(sizes))

    def static(self, name, lo, hi):
        return Sym(name, lo, hi - 1, SymKind.STATIC)

    def pointwise(self, target, op, *operands, accum=None, clear=True):
        """target[...] = op(operands[...])."""
        loops = self.over(*target.dims)
        at = tuple(map(Affine.of, loops))
        values = [Read(o, at[len(at) - len(o.dims) :]) if isinstance(o, TNode) else Number(o) for o in operands]
        return Assign(target, accum, clear, (Piece(loops, at, Call(BY_NAME[op], tuple(values))),))

    def matmul(self, y, w, x):
        """y[b, o] =:+ w[o, i] * x[b, i]."""
        b, o, i = (Sym(n, 0, size - 1) for n, size in zip("boi", (*y.dims, x.dims[1]), strict=True))
        at = Affine.of
        value = Call(MUL, (Read(w, (at(o), at(i))), Read(x, (at(b), at(i)))))
        return Assign(y, ADD, True, (Piece((b, o, i), (at(b), at(o)), value),))

    def layer(self):
        """relu(w x), its nodes by name: the product is a temporary."""
        nodes = {
            "w": self.param("w", 3, 4),
            "x": self.node("x", 2, 4),
            "h": self.result("h", 2, 3),
            "y": self.result("y", 2, 3),
        }
        code = Seq((self.matmul(nodes["h"], nodes["w"], nodes["x"]), self.pointwise(nodes["y"], "relu", nodes["h"])))
        return nodes, code


@pytest.fixture
def build():
    return Build()
