"""Programs as Python text.

    def ocannl_step(at):
        x = at(0, c_float, 12)              # the array behind the first location: 12 cells
        y = at(1, c_float, 3)
        def run():
            for i in range(0, 3):
                for k in range(0, 4):
                    y[i] = as_float32(y[i] + x[4*i+k])
        return run
"""

from __future__ import annotations

import keyword
from collections.abc import Sequence

from ocannl.backend import Unsupported
from ocannl.codegen import Document, pool_bufs, printable
from ocannl.codegen.numbers import rounded
from ocannl.ir import loops as ir
from ocannl.ir.index import Affine, Bound, Cond, Sym
from ocannl.ir.names import Namer
from ocannl.ir.precision import Precision

HELD = {  # the types that are claimed, by the type of `ctypes` that holds one
    "bool": "c_bool", "uint8": "c_uint8", "uint16": "c_uint16", "uint32": "c_uint32", "uint64": "c_uint64",
    "int32": "c_int32", "int64": "c_int64", "float32": "c_float", "float64": "c_double",
}  # fmt: skip
PYTHON = {  # what Python computes as it is meant, but for the rounding to the type; NumPy computes the others
    "id": "{}", "neg": "-{}", "not": "{} == 0", "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "lt": "{} < {}",
    "le": "{} <= {}", "gt": "{} > {}", "ge": "{} >= {}", "eq": "{} == {}", "ne": "{} != {}", "fst": "{0}", "snd": "{1}",
    "and": "{} != 0 and {} != 0", "or": "{} != 0 or {} != 0", "where": "{1} if {0} else {2}", "fma": "{} * {} + {}",
}  # fmt: skip
HELPERS = ("apply", "at", "cast", "inf", "nan", "power", "range", "max", "min", "run")
RESERVED = (*keyword.kwlist, *HELPERS, *HELD.values(), *(f"as_{name}" for name in HELD))


def symbol(name: str) -> str:
    """Of the function of a program: no word of Python."""
    return f"ocannl_{name}"


def emit(procs: Sequence[ir.Proc]) -> str:
    doc = Document()
    for proc in procs:
        _Program(proc, doc).emit()
    return doc.text()


def held(precision: Precision) -> str:
    if precision.name not in HELD:
        raise Unsupported(f"{precision} is not among the `precisions` of backend `example`")
    return HELD[precision.name]


class _Program:
    """One program being written."""

    def __init__(self, proc: ir.Proc, doc: Document) -> None:
        self.proc = proc
        self.doc = doc
        self.new = Namer(RESERVED)  # no name means two things
        self.names: dict[ir.Buf | Sym | str, str] = {}

    def name(self, thing: ir.Buf | Sym | str) -> str:
        if thing not in self.names:
            self.names[thing] = self.new(thing if isinstance(thing, str) else thing.name)
        return self.names[thing]

    def emit(self) -> None:
        proc, pools = self.proc, pool_bufs(self.proc)
        self.doc.line(f"def {symbol(proc.name)}(at):")
        for buf in proc.bufs:
            region = len(pools) if buf.home is ir.Home.ARENA else pools.index(buf)
            start = f", {buf.offset}" if buf.offset else ""
            self.doc.line(f"    {self.name(buf)} = at({region}, {held(buf.precision)}, {buf.size}{start})")
        self.doc.line(f"    def run({', '.join(map(self.name, proc.syms))}):")
        self.block(proc.body, "        ")
        self.doc.line("    return run")

    # ---------------------------------------------------------------------------------------------------- statements

    def block(self, body: ir.Body, indent: str) -> None:
        for stmt in body:
            self.statement(stmt, indent)
        if all(isinstance(stmt, ir.Comment | ir.Poll) for stmt in body):
            self.doc.line(f"{indent}pass")

    def statement(self, stmt: ir.Stmt, indent: str) -> None:
        line = self.doc.line
        match stmt:
            case ir.Store(ref, value):
                line(f"{indent}{self.cell(ref)} = {self.value(value)}")
            case ir.Update(ref, op, value):
                line(f"{indent}{self.cell(ref)} = {self.value(ir.Apply(op, (ir.Load(ref), value)))}")
            case ir.For(sym, lo, hi, body, step):
                steps = f", {step}" if step != 1 else ""
                line(f"{indent}for {self.name(sym)} in range({self.start(lo)}, {self.stop(hi)}{steps}):")
                self.block(body, f"{indent}    ")
            case ir.If(cond, then, orelse):
                line(f"{indent}if {self.cond(cond)}:")
                self.block(then, f"{indent}    ")
                if orelse:
                    line(f"{indent}else:")
                    self.block(orelse, f"{indent}    ")
            case ir.Pick(sym, value, body):
                line(f"{indent}{self.name(sym)} = {self.value(value)}")
                line(f"{indent}if {sym.lo} <= {self.name(sym)} <= {sym.hi}:")
                self.block(body, f"{indent}    ")
            case ir.Let(name, value):
                line(f"{indent}{self.name(name)} = {self.value(value)}")
            case ir.Local(buf, fill):
                held(buf.precision)
                start = None if fill is None else rounded(fill, buf.precision)
                line(f"{indent}{self.name(buf)} = [{start}] * {buf.size}")
            case ir.Comment(text):
                line(f"{indent}# {printable(text)}")
            case ir.Poll():
                pass  # Ctrl-C ends Python text anywhere
            case _:
                raise Unsupported(f"backend `example` knows no statement {type(stmt).__name__}")

    # -------------------------------------------------------------------------------------------------------- indices

    def index(self, index: Affine) -> str:
        return index.format(self.name)

    def start(self, bound: Bound) -> str:
        return self.extreme("max", [self.index(a) if d == 1 else f"-(-({self.index(a)}) // {d})" for a, d in bound.of])

    def stop(self, bound: Bound) -> str:
        ends = [self.index(a + 1) if d == 1 else f"({self.index(a)}) // {d} + 1" for a, d in bound.of]
        return self.extreme("min", ends)

    def extreme(self, function: str, parts: list[str]) -> str:
        return parts[0] if len(parts) == 1 else f"{function}({', '.join(parts)})"

    def cond(self, cond: Cond) -> str:
        facts = [f"{self.index(a)} >= 0" for a in cond.ge0] + [f"{self.index(a)} == 0" for a in cond.eq0]
        return " and ".join(facts) or "True"

    def cell(self, ref: ir.Ref) -> str:
        place = sum((at * stride for at, stride in zip(ref.at, ref.buf.strides, strict=True)), Affine())
        return f"{self.name(ref.buf)}[{self.index(place)}]"

    # --------------------------------------------------------------------------------------------------------- values

    def value(self, expr: ir.Expr) -> str:
        """An expression that needs no parentheses around it, and is a value of its type."""
        held(expr.precision)
        kind = expr.precision.name
        match expr:
            case ir.Load(ref):
                return self.cell(ref)
            case ir.Num(value, precision):
                number = str(rounded(value, precision))
                return f"({number})" if number.startswith("-") else number
            case ir.Var(name, _):
                return self.name(name)
            case ir.Idx(index, _):
                return f"as_{kind}({self.index(index)})"
            case ir.Cast(value, _):
                return f"cast({self.value(value)}, {value.precision.name!r}, {kind!r})"
            case ir.When(cond, then, orelse):
                return f"({self.value(then)} if {self.cond(cond)} else {self.value(orelse)})"
            case ir.Apply(op, args):
                given = [self.value(arg) for arg in args]
                if op.name in PYTHON:
                    return f"as_{kind}({PYTHON[op.name].format(*given)})"
                if op.name == "pow" and not expr.precision.is_float:
                    return f"as_{kind}(power({', '.join(given)}))"
                return f"as_{kind}(apply({op.name!r}, {kind!r}, {', '.join(given)}))"
