"""Alpha-equivalence of loop programs: texts that are equal for statements which differ in names only."""

from __future__ import annotations

from ocannl.ir.affine import Affine, Bound, Cond, Sym
from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Body,
    Buf,
    Cast,
    Comment,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    Poll,
    Prefetch,
    ReadClock,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
)


class CanonicalText:
    """Writes statements and expressions as tokens that are equal for programs that differ only in names, in the memory
    of arrays and in comments (alpha-equivalence): names are numbered in order of first occurrence."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.add = self.tokens.append
        self.names: dict[object, str] = {}

    def body(self, body: Body) -> None:
        for stmt in body:
            self.stmt(stmt)
        self.add(".")

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Store(ref, value, _, nontemporal):
                self.add("stream" if nontemporal else "=")
                self.ref(ref)
                self.expr(value)
            case Update(ref, op, value):
                self.add(f"{op.name}=")
                self.ref(ref)
                self.expr(value)
            case For(sym, lo, hi, body, step, _, chunk_size, mode):
                self.add(f"for {step} {chunk_size} {mode.value}")
                self.add(self.sym(sym))
                self.bound(lo)
                self.bound(hi)
                self.inner(stmt, body)
            case If(cond, true_body, false_body):
                self.add("if")
                self.cond(cond)
                self.body(true_body)
                self.body(false_body)
            case BindIndex(sym, value, body):
                self.add(f"pick {self.sym(sym)}")
                self.expr(value)
                self.inner(stmt, body)
            case Let(name, value):
                self.add(self.canonical_name(name, "v"))
                self.expr(value)
            case Local(buf, fill):
                self.add(f"local {self.buf(buf)} {fill!r}")
            case Poll():
                self.add("poll")
            case Prefetch(ref, distance, level):
                self.add(f"prefetch {level} {distance}")
                self.ref(ref)
            case ReadClock(ref):
                self.add("read_clock")
                self.ref(ref)
            case Comment():
                pass

    def inner(self, _stmt: Stmt, body: Body) -> None:
        """The body of a loop or of a bound index."""
        self.body(body)

    def expr(self, expr: Expr) -> None:
        match expr:
            case Load(ref):
                self.ref(ref)
            case Apply(op, args):
                self.add(f"{op.name}{len(args)}")
                for arg in args:
                    self.expr(arg)
            case Const(value, precision):
                self.add(f"{value!r}:{precision.name}")
            case Var(name, precision):
                self.add(f"{self.canonical_name(name, 'v')}:{precision.name}")
            case IndexValue(index, precision):
                self.add(f"idx:{precision.name}")
                self.index(index)
            case Cast(value, precision):
                self.add(f"cast:{precision.name}")
                self.expr(value)
            case When(cond, on_true, on_false):
                self.add("when")
                self.cond(cond)
                self.expr(on_true)
                self.expr(on_false)

    def ref(self, ref: Ref) -> None:
        self.add(self.buf(ref.buf))
        for at in ref.indices:
            self.index(at)

    def buf(self, buf: Buf) -> str:
        if buf in self.names:
            return self.names[buf]
        name = self.canonical_name(buf, "b")
        return f"{name}:{buf.precision.name}{buf.shape}{buf.strides}{buf.space.value}{buf.access.value}"

    def cond(self, cond: Cond) -> None:
        for index in cond.ge0:
            self.add(">=")
            self.index(index)
        for index in cond.eq0:
            self.add("==")
            self.index(index)
        self.add(";")

    def bound(self, bound: Bound) -> None:
        for index, div in bound.quotients:
            self.add(f"/{div}")
            self.index(index)
        self.add(";")

    def index(self, index: Affine) -> None:
        if index.terms:
            self.add("+".join(sorted(f"{coef}*{self.sym(sym)}" for coef, sym in index.terms)))
        self.add(str(index.const))

    def sym(self, sym: Sym) -> str:
        if sym in self.names:
            return self.names[sym]
        return f"{self.canonical_name(sym, 's')}:{sym.kind.value}{sym.lo},{sym.hi}"

    def canonical_name(self, entity: object, prefix: str) -> str:
        """The name of a buffer, symbol or variable: `prefix` and its order of first occurrence."""
        return self.names.setdefault(entity, f"{prefix}{len(self.names)}")
