"""Prints programs as Python text.

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
from ocannl.ir.affine import Affine, Bound, Cond, Sym
from ocannl.ir.name_mangling import Namer
from ocannl.ir.precision import Precision
from ocannl_backend_example.settings import CHECK_INDICES

CTYPES = {  # the supported precisions, by their storage types in `ctypes`
    "bool": "c_bool", "uint8": "c_uint8", "uint16": "c_uint16", "uint32": "c_uint32", "uint64": "c_uint64",
    "int8": "c_int8", "int16": "c_int16", "int32": "c_int32", "int64": "c_int64", "float32": "c_float",
    "float64": "c_double",
}  # fmt: skip
PYTHON_OPS = {  # operations that are correct in Python up to rounding to the precision; NumPy computes the others
    "id": "{}", "neg": "-{}", "not": "{} == 0", "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "lt": "{} < {}",
    "le": "{} <= {}", "gt": "{} > {}", "ge": "{} >= {}", "eq": "{} == {}", "ne": "{} != {}", "fst": "{0}", "snd": "{1}",
    "and": "{} != 0 and {} != 0", "or": "{} != 0 or {} != 0", "where": "{1} if {0} else {2}", "fma": "{} * {} + {}",
}  # fmt: skip
HELPERS = ("apply", "at", "cast", "checked", "inf", "nan", "power", "range", "max", "min", "run")
RESERVED = (*keyword.kwlist, *HELPERS, *CTYPES.values(), *(f"as_{name}" for name in CTYPES))


def symbol(name: str) -> str:
    """The name of a program's function; the prefix avoids clashes with Python's keywords and builtins."""
    return f"ocannl_{name}"


def emit(procs: Sequence[ir.Proc]) -> str:
    doc = Document()
    for proc in procs:
        _Program(proc, doc).emit()
    return doc.text()


def ctype_name(precision: Precision) -> str:
    if precision.name not in CTYPES:
        raise Unsupported(f"{precision} is not among the `precisions` of backend `example`")
    return CTYPES[precision.name]


class _Program:
    """Prints one program."""

    def __init__(self, proc: ir.Proc, doc: Document) -> None:
        self.proc = proc
        self.doc = doc
        self.namer = Namer(RESERVED)  # all names are unique
        self.names: dict[ir.Buf | Sym | str, str] = {}

    def name(self, entity: ir.Buf | Sym | str) -> str:
        if entity not in self.names:
            self.names[entity] = self.namer(entity if isinstance(entity, str) else entity.name)
        return self.names[entity]

    def emit(self) -> None:
        proc, pools = self.proc, pool_bufs(self.proc)
        self.doc.line(f"def {symbol(proc.name)}(at):")
        for buf in proc.bufs:
            region = len(pools) if buf.space is ir.MemorySpace.ARENA else pools.index(buf)
            start = f", {buf.offset}" if buf.offset else ""
            self.doc.line(f"    {self.name(buf)} = at({region}, {ctype_name(buf.precision)}, {buf.size}{start})")
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
            case ir.If(cond, true_body, false_body):
                line(f"{indent}if {self.cond(cond)}:")
                self.block(true_body, f"{indent}    ")
                if false_body:
                    line(f"{indent}else:")
                    self.block(false_body, f"{indent}    ")
            case ir.BindIndex(sym, value, body):
                line(f"{indent}{self.name(sym)} = {self.value(value)}")
                line(f"{indent}if {sym.lo} <= {self.name(sym)} <= {sym.hi}:")
                self.block(body, f"{indent}    ")
            case ir.Let(name, value):
                line(f"{indent}{self.name(name)} = {self.value(value)}")
            case ir.Local(buf, fill):
                ctype_name(buf.precision)
                start = None if fill is None else rounded(fill, buf.precision)
                line(f"{indent}{self.name(buf)} = [{start}] * {buf.size}")
            case ir.Comment(text):
                line(f"{indent}# {printable(text)}")
            case ir.Poll():
                pass  # Ctrl-C interrupts Python code anywhere
            case ir.ReadClock():
                raise Unsupported("backend `example` has no `timestamps`")
            case _:
                raise Unsupported(f"backend `example` does not support the statement {type(stmt).__name__}")

    # -------------------------------------------------------------------------------------------------------- indices

    def index(self, index: Affine) -> str:
        return index.format(self.name)

    def start(self, bound: Bound) -> str:
        quotients = [self.index(a) if d == 1 else f"-(-({self.index(a)}) // {d})" for a, d in bound.quotients]
        return self.extreme("max", quotients)

    def stop(self, bound: Bound) -> str:
        ends = [self.index(a + 1) if d == 1 else f"({self.index(a)}) // {d} + 1" for a, d in bound.quotients]
        return self.extreme("min", ends)

    def extreme(self, function: str, operands: list[str]) -> str:
        return operands[0] if len(operands) == 1 else f"{function}({', '.join(operands)})"

    def cond(self, cond: Cond) -> str:
        tests = [f"{self.index(a)} >= 0" for a in cond.ge0] + [f"{self.index(a)} == 0" for a in cond.eq0]
        return " and ".join(tests) or "True"

    def cell(self, ref: ir.Ref) -> str:
        index = self.index(ref.address)
        return f"{self.name(ref.buf)}[{f'checked({index})' if CHECK_INDICES.get() else index}]"

    # --------------------------------------------------------------------------------------------------------- values

    def value(self, expr: ir.Expr) -> str:
        """An expression without need for parentheses, whose value is representable in its precision."""
        ctype_name(expr.precision)
        kind = expr.precision.name
        match expr:
            case ir.Load(ref):
                return self.cell(ref)
            case ir.Const(value, precision):
                number = str(rounded(value, precision))
                return f"({number})" if number.startswith("-") else number
            case ir.Var(name, _):
                return self.name(name)
            case ir.IndexValue(index, _):
                return f"as_{kind}({self.index(index)})"
            case ir.Cast(value, _):
                return f"cast({self.value(value)}, {value.precision.name!r}, {kind!r})"
            case ir.When(cond, on_true, on_false):
                return f"({self.value(on_true)} if {self.cond(cond)} else {self.value(on_false)})"
            case ir.Apply(op, args):
                operands = [self.value(arg) for arg in args]
                if op.name in PYTHON_OPS:
                    return f"as_{kind}({PYTHON_OPS[op.name].format(*operands)})"
                if op.name == "pow" and not expr.precision.is_float:
                    return f"as_{kind}(power({', '.join(operands)}))"
                return f"as_{kind}(apply({op.name!r}, {kind!r}, {', '.join(operands)}))"
