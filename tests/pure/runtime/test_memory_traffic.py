"""Bytes that nests move, against an enumeration of every access."""

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.codegen.outlining import outline_nests
from ocannl.ir.affine import SymKind
from ocannl.ir.loops import Apply, Cast, For, If, Let, Load, Local, Store, Update, When
from ocannl.lang.core.tensor import Tensor
from ocannl.lower.lower import lower
from ocannl.runtime.memory_traffic import traffic


class Enumeration:
    """Every cell that is read or written, by running the loops."""

    def __init__(self, body, syms):
        self.syms, self.local = dict(syms), set()
        self.read, self.written = set(), set()
        self.block(body)

    def bytes(self, cells):
        return sum(buf.precision.nbytes for buf, _ in cells if buf not in self.local)

    def cell(self, ref):
        return ref.buf, tuple(at.evaluate(self.syms) for at in ref.indices)

    def block(self, body):
        for stmt in body:
            match stmt:
                case For(sym, lo, hi, inner, step):
                    first = max(-(-a.evaluate(self.syms) // d) for a, d in lo.quotients)
                    last = min(a.evaluate(self.syms) // d for a, d in hi.quotients)
                    for n in range(first, last + 1, step):
                        self.syms[sym] = n
                        self.block(inner)
                case If(cond, if_branch, else_branch):
                    self.block(if_branch if self.holds(cond) else else_branch)
                case Store(ref, value) | Update(ref, _, value):
                    self.expr(value)
                    if isinstance(stmt, Update):
                        self.read.add(self.cell(ref))
                    self.written.add(self.cell(ref))
                case Let(_, value):
                    self.expr(value)
                case Local(buf):
                    self.local.add(buf)
                case _:
                    pass

    def holds(self, cond):
        return all(a.evaluate(self.syms) >= 0 for a in cond.ge0) and all(a.evaluate(self.syms) == 0 for a in cond.eq0)

    def expr(self, value):
        match value:
            case Load(ref):
                self.read.add(self.cell(ref))
            case Apply(_, args):
                for arg in args:
                    self.expr(arg)
            case Cast(inner, _):
                self.expr(inner)
            case When(cond, if_branch, else_branch):
                self.expr(if_branch if self.holds(cond) else else_branch)
            case _:
                pass


def leaf(name, *sizes):
    return oc.placeholder(name, o=list(sizes))


def step():
    x = oc.tensor(np.ones((6, 5), "float32"), batch_axes=1)
    loss = ((oc.param("v", o=[3]) @ oc.relu(oc.param("w", o=[4]) @ x)) ** 2).sum()
    return oc.seq(train.grad_update(loss), train.sgd(loss, 0.1, momentum=0.9))


PROGRAMS = {
    "pointwise": lambda: leaf("a", 3, 4) + leaf("b", 4) * 2,
    "product": lambda: oc.einsum("ij;jk=>ik", leaf("a", 3, 4), leaf("b", 4, 5)),
    "diagonal": lambda: oc.einsum("ii=>i", leaf("a", 5, 5)),
    "strided": lambda: oc.einsum("2*i=>i", leaf("a", 8)),
    "window": lambda: oc.einsum("1*o<+k;k=>o", leaf("a", 9), leaf("b", 3)),
    "strided window": lambda: oc.einsum("2*o<+k;k=>o", leaf("a", 10), leaf("b", 4)),
    "window with gaps": lambda: oc.einsum("2*o<+k;k=>o", leaf("a", 9), leaf("b", 1)),
    "fixed": lambda: oc.einsum("i2=>i", leaf("a", 3, 4)),
    "joined": lambda: oc.concat("a;b=>a^b", leaf("a", 3), leaf("b", 4)),
    "slice": lambda: oc.tensor(np.ones((6, 5), "float32"), batch_axes=1)[oc.symbol("n", 0, 6)],
    "overlapping": lambda: oc.concat("2^a=>a", x := leaf("x", 10)) + oc.concat("a^2=>a", x),
    "empty": lambda: leaf("a", 0, 3) + 1,
    "step": step,
}


@pytest.mark.parametrize("stage", ["lower", "llvm"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_bytes_of_accessed_cells(name, stage):
    built = PROGRAMS[name]()
    code = built.forward if isinstance(built, Tensor) else built
    proc = lower(code.elaborate().comp, "p")
    if stage != "lower":
        ctx = oc.Context("llvm")
        proc = ctx.compile(code)._program.rebuild()
    for nest in outline_nests(proc):
        enumeration = Enumeration(nest.body, {s: s.hi for s in proc.syms if s.kind is SymKind.STATIC})
        assert traffic(nest.body) == (enumeration.bytes(enumeration.read), enumeration.bytes(enumeration.written))
