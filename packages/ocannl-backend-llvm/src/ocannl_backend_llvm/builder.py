"""Emits LLVM instructions under fresh names, and collects the declarations and helper functions a module needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from ocannl.codegen import Document
from ocannl.ir.capabilities import TileUnit

FULL_WIDTH_VECTORS = '"prefer-vector-width"="512"'  # overrides CPU defaults of 256


@dataclass(frozen=True, slots=True)
class Instructions:
    """Optional instructions of a target."""

    half: bool = False  # converts between float16 and float32
    scale: bool = False  # multiplies by powers of two, in vectors
    bfloat16_dots: bool = False  # adds the products of two pairs of bfloat16 to float32, in vectors
    int16_lanes: int = 0  # the most sums of one instruction that adds the products of two pairs of int16 to int32
    bfloat16_tiles: bool = False  # multiplies tiles of bfloat16 matrices

    @property
    def tile_unit(self) -> TileUnit | None:
        """The instructions for products of bfloat16 tiles; at half of the peak rate of AMX."""
        if self.bfloat16_tiles:
            return TileUnit(terms_per_cycle=512, additions=49)
        return TileUnit(terms_per_cycle=32, additions=80) if self.bfloat16_dots else None


DEFINITION = re.compile(r"define ([^(]*)\((.*?)\)(.*) {")  # the first line of a function


class Module:
    """An LLVM module: functions, helper functions, and declarations of external functions and intrinsics."""

    __slots__ = ("_declared", "_defined", "_functions", "_external_helpers", "_helpers", "instructions", "lines")

    def __init__(self, instructions: Instructions, external_helpers: Mapping[str, str] | None = None) -> None:
        self.instructions = instructions
        self._external_helpers = external_helpers or {}  # declarations of helpers in earlier modules
        self.lines = 0  # total length of the functions
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

    def mark_defined(self, name: str) -> None:
        """Marks a function as defined in this module, so that it is not declared."""
        self._defined.add(name)

    def successor(self) -> Module:
        """An empty module that can call the helpers of this one."""
        external_helpers = {
            name: _declaration(text) for name, text in self._helpers.items() if text.startswith("define ")
        }
        return Module(self.instructions, {**self._external_helpers, **external_helpers})

    def nontemporal(self, alignment: int) -> str:
        """The attributes of a store to an aligned address that bypasses the caches."""
        self.define("!nontemporal", "!nontemporal = !{!0}\n!0 = !{i32 1}\n")
        return f"align {alignment}, !nontemporal !0"

    def has(self, helper: str) -> bool:
        """Whether the helper exists; declares it if it is in an earlier module."""
        if helper in self._external_helpers:
            self._declared[helper] = self._external_helpers[helper]
            return True
        return helper in self._helpers

    def define(self, helper: str, text: str) -> None:
        if not self.has(helper):
            self._helpers[helper] = text

    def text(self) -> str:
        """The text of the module; helpers and declarations are sorted by name."""
        helpers = [self._helpers[name] for name in sorted(self._helpers)]
        declared = "".join(f"{self._declared[name]}\n" for name in sorted(self._declared))
        tail = "\n".join([*helpers, *([declared] if declared else [])])
        return "".join(self._functions).lstrip("\n") + (f"\n{tail}" if tail else "")


def _declaration(text: str) -> str:
    """The declaration of the function that `text` defines."""
    head, params, attributes = DEFINITION.fullmatch(text.partition("\n")[0]).groups()  # type: ignore[union-attr]
    types = ", ".join(param.rpartition(" %")[0] for param in params.split(", "))
    return f"declare {head}({types}){attributes}"


class Builder:
    """Appends instructions to a document.

    Generated names end in a dot and a number, so that they never clash with parameters. No phi nodes are emitted:
    mutable values live in allocas, which the SROA pass promotes to registers.
    """

    __slots__ = ("_numbers", "doc", "module", "splats")
    width = 1  # lanes per value

    def __init__(self, module: Module, doc: Document, numbers: Iterator[int] | None = None) -> None:
        self.module = module
        self.doc = doc
        self._numbers = numbers or count(1)
        self.splats: dict[tuple[str, str, int], str] = {}  # broadcasts in this block, by type, scalar and width

    def at(self, doc: Document) -> Builder:
        """A builder that appends elsewhere in the same function."""
        return Builder(self.module, doc, self._numbers)

    def fresh(self, stem: str) -> str:
        """A fresh name, without sigil."""
        return f"{stem}.{next(self._numbers)}"

    def line(self, text: str) -> None:
        self.doc.line(f"  {text}")

    def assign(self, instruction: str, stem: str = "v") -> str:
        """Appends an instruction and returns the fresh name of its value."""
        name = f"%{stem}.{next(self._numbers)}"
        self.doc.line(f"  {name} = {instruction}")
        return name

    def label(self, name: str) -> None:
        self.doc.line(f"{name}:")
        self.splats.clear()

    def jump(self, target: str) -> None:
        self.doc.line(f"  br label %{target}")

    def branch(self, condition: str, on_true: str, on_false: str) -> None:
        self.doc.line(f"  br i1 {condition}, label %{on_true}, label %{on_false}")

    def type(self, element_type: str) -> str:
        """The type of values with that element type."""
        return element_type

    def mangled(self, element_type: str) -> str:
        """The mangled type, as in the names of overloaded intrinsics."""
        return MANGLED_TYPES[element_type]

    def operand(self, type_: str, value: str) -> str:
        """A value or literal as an operand of that type."""
        return value

    def any_lane(self, truth: str) -> str:
        """An i1: whether `truth` holds in any lane."""
        return truth

    def op(self, opcode: str, type_: str, *operands: str) -> str:
        return self.assign(f"{opcode} {self.type(type_)} {', '.join(self.operand(type_, x) for x in operands)}")

    def test(self, comparison: str, type_: str, x: str, y: str) -> str:
        """An i1; `comparison` is `icmp` or `fcmp` with its relation."""
        return self.op(comparison, type_, x, y)

    def cast(self, opcode: str, value: str, source: str, target: str) -> str:
        return self.assign(f"{opcode} {self.type(source)} {self.operand(source, value)} to {self.type(target)}")

    def select(self, condition: str, type_: str, on_true: str, on_false: str) -> str:
        return self._emit_select(self.type("i1"), condition, type_, on_true, on_false)

    def select_uniform(self, condition: str, type_: str, on_true: str, on_false: str) -> str:
        """Selects all lanes by one scalar i1."""
        return self._emit_select("i1", condition, type_, on_true, on_false)

    def _emit_select(self, truth: str, condition: str, type_: str, on_true: str, on_false: str) -> str:
        if on_true == on_false or condition == "true":
            return on_true
        if condition == "false":
            return on_false
        sides = ", ".join(f"{self.type(type_)} {self.operand(type_, side)}" for side in (on_true, on_false))
        return self.assign(f"select {truth} {condition}, {sides}")

    def intrinsic(self, name: str, type_: str, *operands: str, suffix: str = "") -> str:
        """Calls an overloaded intrinsic with operands and result of one type; `suffix` holds further typed operands."""
        mangled_name, type_of = f"llvm.{name}.{self.mangled(type_)}", self.type(type_)
        extra = tuple(part.split()[0] for part in suffix.split(", ") if part)
        self.module.declare(mangled_name, type_of, (*(type_of for _ in operands), *extra))
        arguments = [*(f"{type_of} {self.operand(type_, x)}" for x in operands), *([suffix] if suffix else [])]
        return self.assign(f"call {type_of} @{mangled_name}({', '.join(arguments)})")

    def to_integer(self, value: str, source: str, target: str, signed: bool) -> str:
        """Truncates a float to an integer; saturates and maps NaN to 0."""
        name = f"llvm.fpto{'s' if signed else 'u'}i.sat.{self.mangled(target)}.{self.mangled(source)}"
        self.module.declare(name, self.type(target), (self.type(source),))
        return self.assign(f"call {self.type(target)} @{name}({self.type(source)} {self.operand(source, value)})")

    def call(self, result: str, helper: str, type_: str, *operands: str) -> str:
        return self.assign(f"call {result} @{helper}({', '.join(f'{type_} {x}' for x in operands)})")


MANGLED_TYPES = {"float": "f32", "double": "f64", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64"}
