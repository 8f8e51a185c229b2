"""Writing LLVM instructions: fresh names, and the declarations and helper functions that a module turns out to need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from ocannl.codegen import Document

WIDE = '"prefer-vector-width"="512"'  # some processors have it halved: vectors are already as wide as they are to be


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a target does by a single instruction, and others do not."""

    half: bool = False  # converts between float16 and float32
    scale: bool = False  # multiplies float32 by powers of two, in vectors


DEFINITION = re.compile(r"define ([^(]*)\((.*?)\)(.*) {")  # the line that begins it


class Module:
    """Functions, and what they share, each once: helper functions, declarations of others and of intrinsics."""

    __slots__ = ("_declared", "_defined", "_functions", "_helpers", "_known", "instructions", "lines")

    def __init__(self, instructions: Instructions, known: Mapping[str, str] | None = None) -> None:
        self.instructions = instructions
        self._known = known or {}  # how helpers are declared that an earlier module has
        self.lines = 0  # of the functions
        self._declared: dict[str, str] = {}
        self._defined: set[str] = set()
        self._functions: list[str] = []
        self._helpers: dict[str, str] = {}

    def add(self, doc: Document) -> None:
        text = doc.text()
        self.lines += text.count("\n")
        self._functions.append(text)

    def declare(self, name: str, result: str, params: tuple[str, ...]) -> None:
        if name not in self._defined:
            self._declared.setdefault(name, f"declare {result} @{name}({', '.join(params)})")

    def defines(self, name: str) -> None:
        """A function here has that name."""
        self._defined.add(name)

    def next(self) -> Module:
        """An empty one that calls the helpers of this one."""
        known = {name: _declaration(text) for name, text in self._helpers.items() if text.startswith("define ")}
        return Module(self.instructions, {**self._known, **known})

    def has(self, helper: str) -> bool:
        """Whether the helper can be called; it is declared, if an earlier module has it."""
        if helper in self._known:
            self._declared[helper] = self._known[helper]
            return True
        return helper in self._helpers

    def define(self, helper: str, text: str) -> None:
        if not self.has(helper):
            self._helpers[helper] = text

    def text(self) -> str:
        """Functions; helpers and declarations, by name."""
        helpers = [self._helpers[name] for name in sorted(self._helpers)]
        declared = "".join(f"{self._declared[name]}\n" for name in sorted(self._declared))
        tail = "\n".join([*helpers, *([declared] if declared else [])])
        return "".join(self._functions).lstrip("\n") + (f"\n{tail}" if tail else "")


def _declaration(text: str) -> str:
    """Of the function that a text defines."""
    head, params, attributes = DEFINITION.fullmatch(text.partition("\n")[0]).groups()  # type: ignore[union-attr]
    types = ", ".join(param.rpartition(" %")[0] for param in params.split(", "))
    return f"declare {head}({types}){attributes}"


class Builder:
    """Appends instructions to a document. Generated names end in a dot and a number, so that they never meet those of
    parameters; nothing here makes phis: what varies lives in allocas, which SROA turns into registers."""

    __slots__ = ("_numbers", "doc", "module", "splats")
    width = 1  # of what values are

    def __init__(self, module: Module, doc: Document, numbers: Iterator[int] | None = None) -> None:
        self.module = module
        self.doc = doc
        self._numbers = numbers or count(1)
        self.splats: dict[tuple[str, str, int], str] = {}  # vectors made in this block, by type, number and width

    def at(self, doc: Document) -> Builder:
        """One that writes elsewhere in the same function."""
        return Builder(self.module, doc, self._numbers)

    def fresh(self, stem: str) -> str:
        """A name without its sigil."""
        return f"{stem}.{next(self._numbers)}"

    def line(self, text: str) -> None:
        self.doc.line(f"  {text}")

    def let(self, instruction: str, stem: str = "v") -> str:
        """The instruction's value under a fresh name."""
        name = f"%{stem}.{next(self._numbers)}"
        self.doc.line(f"  {name} = {instruction}")
        return name

    def label(self, name: str) -> None:
        self.doc.line(f"{name}:")
        self.splats.clear()

    def jump(self, target: str) -> None:
        self.doc.line(f"  br label %{target}")

    def branch(self, condition: str, then: str, orelse: str) -> None:
        self.doc.line(f"  br i1 {condition}, label %{then}, label %{orelse}")

    def type(self, of: str) -> str:
        """That of a value, of a number's."""
        return of

    def mangled(self, of: str) -> str:
        """The type in the names of functions that are written for several."""
        return MANGLED[of]

    def operand(self, type_: str, value: str) -> str:
        """A value, a literal perhaps, as an operand of that type."""
        return value

    def any(self, truth: str) -> str:
        """An i1: whether an i1 holds, in one lane at least."""
        return truth

    def op(self, opcode: str, type_: str, *operands: str) -> str:
        return self.let(f"{opcode} {self.type(type_)} {', '.join(self.operand(type_, x) for x in operands)}")

    def test(self, comparison: str, type_: str, x: str, y: str) -> str:
        """An i1, of `icmp` or `fcmp` and a relation."""
        return self.op(comparison, type_, x, y)

    def cast(self, opcode: str, value: str, source: str, target: str) -> str:
        return self.let(f"{opcode} {self.type(source)} {self.operand(source, value)} to {self.type(target)}")

    def select(self, condition: str, type_: str, then: str, orelse: str) -> str:
        return self._selected(self.type("i1"), condition, type_, then, orelse)

    def either(self, condition: str, type_: str, then: str, orelse: str) -> str:
        """One of the two in all lanes, which share the i1."""
        return self._selected("i1", condition, type_, then, orelse)

    def _selected(self, truth: str, condition: str, type_: str, then: str, orelse: str) -> str:
        if then == orelse or condition == "true":
            return then
        if condition == "false":
            return orelse
        sides = ", ".join(f"{self.type(type_)} {self.operand(type_, side)}" for side in (then, orelse))
        return self.let(f"select {truth} {condition}, {sides}")

    def intrinsic(self, name: str, type_: str, *operands: str, suffix: str = "") -> str:
        """An overloaded intrinsic whose operands and result have one type; `suffix` holds more operands, with types."""
        full, type_of = f"llvm.{name}.{self.mangled(type_)}", self.type(type_)
        extra = tuple(part.split()[0] for part in suffix.split(", ") if part)
        self.module.declare(full, type_of, (*(type_of for _ in operands), *extra))
        given = [*(f"{type_of} {self.operand(type_, x)}" for x in operands), *([suffix] if suffix else [])]
        return self.let(f"call {type_of} @{full}({', '.join(given)})")

    def to_integer(self, value: str, source: str, target: str, signed: bool) -> str:
        """A float cut off to an integer, saturating, NaN to zero."""
        full = f"llvm.fpto{'s' if signed else 'u'}i.sat.{self.mangled(target)}.{self.mangled(source)}"
        self.module.declare(full, self.type(target), (self.type(source),))
        return self.let(f"call {self.type(target)} @{full}({self.type(source)} {self.operand(source, value)})")

    def call(self, result: str, helper: str, type_: str, *operands: str) -> str:
        return self.let(f"call {result} @{helper}({', '.join(f'{type_} {x}' for x in operands)})")


MANGLED = {"float": "f32", "double": "f64", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64"}
