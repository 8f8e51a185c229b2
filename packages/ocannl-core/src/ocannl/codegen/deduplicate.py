"""Nests that can share a function: those whose text is the same with names taken out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ocannl.codegen.nests import Nest
from ocannl.ir.index import Affine, Bound, Cond, Sym
from ocannl.ir.loops import (
    Apply,
    Body,
    Buf,
    Cast,
    Comment,
    Expr,
    For,
    Idx,
    If,
    Let,
    Load,
    Local,
    Num,
    Pick,
    Poll,
    Prefetch,
    Ref,
    Stamp,
    Stmt,
    Store,
    Update,
    Var,
    When,
)


def distinct(nests: Iterable[Nest]) -> list[list[Nest]]:
    """The nests, those together that are the same code for other arrays, in the order of the first of each. Before each
    nest come its parts."""
    found: dict[str, list[Nest]] = {}
    classes: dict[Nest, str] = {}
    for nest in nests:
        key = anonymous(nest, classes)
        same = found.setdefault(key, [])
        same.append(nest)
        classes[nest] = classes[same[0]] if same[0] is not nest else f"call {len(found)}"
    return list(found.values())


def anonymous(nest: Nest, classes: Mapping[Nest, str] | None = None) -> str:
    """Equal for nests that differ in nothing but names, where arrays lie, and what comments say; `classes` are those of
    parts, which are written out without them."""
    writer = _Writer(nest, classes)
    apart = nest.disjoint
    for buf in nest.bufs:
        writer.add(f"{writer.buf(buf)}{'' if buf in apart else '?'}")
    for sym in nest.syms:
        writer.add(writer.sym(sym))
    writer.body(nest.body)
    return " ".join(writer.words)


class _Writer:
    def __init__(self, nest: Nest, classes: Mapping[Nest, str] | None) -> None:
        self.nest, self.classes = nest, classes
        self.words: list[str] = []
        self.add = self.words.append
        self.numbers: dict[object, str] = {}

    def body(self, body: Body) -> None:
        for stmt in body:
            self.stmt(stmt)
        self.add(".")

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Store(ref, value, _, streamed):
                self.add("stream" if streamed else "=")
                self.ref(ref)
                self.expr(value)
            case Update(ref, op, value):
                self.add(f"{op.name}=")
                self.ref(ref)
                self.expr(value)
            case For(sym, lo, hi, body, step, _, claimed, mode):
                self.add(f"for {step} {claimed} {mode.value}")
                self.add(self.sym(sym))
                self.bound(lo)
                self.bound(hi)
                if self.classes is not None and self.nest.calls_in(stmt):
                    self.calls(self.classes)
                else:
                    self.body(body)
            case If(cond, then, orelse):
                self.add("if")
                self.cond(cond)
                self.body(then)
                self.body(orelse)
            case Pick(sym, value, body):
                self.add(f"pick {self.sym(sym)}")
                self.expr(value)
                self.body(body)
            case Let(name, value):
                self.add(self.number(name, "v"))
                self.expr(value)
            case Local(buf, fill):
                self.add(f"local {self.buf(buf)} {fill!r}")
            case Poll():
                self.add("poll")
            case Prefetch(ref, ahead):
                self.add(f"prefetch {ahead}")
                self.ref(ref)
            case Stamp(ref):
                self.add("stamp")
                self.ref(ref)
            case Comment():
                pass

    def calls(self, classes: Mapping[Nest, str]) -> None:
        self.body(self.nest.handed)
        for part in self.nest.parts:
            self.add(classes[part])
            self.words += map(self.buf, part.bufs)
            self.words += map(self.sym, part.syms)

    def expr(self, expr: Expr) -> None:
        match expr:
            case Load(ref):
                self.ref(ref)
            case Apply(op, args):
                self.add(f"{op.name}{len(args)}")
                for arg in args:
                    self.expr(arg)
            case Num(value, precision):
                self.add(f"{value!r}:{precision.name}")
            case Var(name, precision):
                self.add(f"{self.number(name, 'v')}:{precision.name}")
            case Idx(index, precision):
                self.add(f"idx:{precision.name}")
                self.index(index)
            case Cast(value, precision):
                self.add(f"cast:{precision.name}")
                self.expr(value)
            case When(cond, then, orelse):
                self.add("when")
                self.cond(cond)
                self.expr(then)
                self.expr(orelse)

    def ref(self, ref: Ref) -> None:
        self.add(self.buf(ref.buf))
        for at in ref.at:
            self.index(at)

    def buf(self, buf: Buf) -> str:
        if buf in self.numbers:
            return self.numbers[buf]
        return f"{self.number(buf, 'b')}:{buf.precision.name}{buf.shape}{buf.strides}{buf.home.value}{buf.access.value}"

    def cond(self, cond: Cond) -> None:
        for fact in cond.ge0:
            self.add(">=")
            self.index(fact)
        for fact in cond.eq0:
            self.add("==")
            self.index(fact)
        self.add(";")

    def bound(self, bound: Bound) -> None:
        for index, div in bound.of:
            self.add(f"/{div}")
            self.index(index)
        self.add(";")

    def index(self, index: Affine) -> None:
        if index.terms:
            self.add("+".join(sorted(f"{coef}*{self.sym(sym)}" for coef, sym in index.terms)))
        self.add(str(index.const))

    def sym(self, sym: Sym) -> str:
        if sym in self.numbers:
            return self.numbers[sym]
        return f"{self.number(sym, 's')}:{sym.kind.value}{sym.lo},{sym.hi}"

    def number(self, thing: object, letter: str) -> str:
        return self.numbers.setdefault(thing, f"{letter}{len(self.numbers)}")
