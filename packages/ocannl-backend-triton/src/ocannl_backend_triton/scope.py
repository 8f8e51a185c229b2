"""The emission context of a statement: symbols, axes and guards in scope, and the lines written so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ocannl.codegen import Document
from ocannl.ir.affine import Affine, Bound, Cond, Sym, SymKind
from ocannl.ir.name_mangling import Namer
from ocannl_backend_triton.types import triton_type
from ocannl_backend_triton.values import NO_AXES, Axes, BlockValue, strip_parentheses

INT32_MAX = (1 << 31) - 1  # index arithmetic beyond this is done in int64


@dataclass(frozen=True, slots=True)
class IndexText:
    """The text of a symbol, an index or a condition, and the axes along which it varies."""

    text: str
    axes: Axes = NO_AXES


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition under which an iteration is active; `syms` are the symbols that it depends on."""

    text: str
    axes: Axes
    syms: frozenset[Sym]
    is_boundary: bool = False  # excludes iterations past the end of an axis

    @property
    def negated(self) -> Guard:
        return Guard(f"({self.text} == 0)", self.axes, self.syms)


class Scope:
    """Collects the lines of a kernel; context managers open and close scopes of indentation, guards and axes."""

    def __init__(self, rank: int, names: Namer) -> None:
        self.rank = rank  # of blocks
        self.fresh_name = names
        self.doc = Document()
        self.indent = "    "
        self.statics: dict[Sym, IndexText] = {}
        self.syms: dict[Sym, IndexText] = {}
        self.pending_definitions: dict[Sym, tuple[Document, str]] = {}  # unused so far: where and what to define
        self.guards: list[Guard] = []
        self.active_axes: dict[int, str] = {}  # axes along which blocks vary, and the names of their sizes
        self.constants: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------------------ lines

    def line(self, text: str) -> None:
        self.doc.line(self.indent + text)

    def let(self, name: str, value: str) -> str:
        """Assigns a value to a fresh name."""
        text = self.fresh_name(name)
        self.line(f"{text} = {strip_parentheses(value)}")
        return text

    def let_symbol(self, sym: Sym, value: str, axes: Axes) -> str:
        """Binds a symbol to a fresh name; its definition is written here when it is first used."""
        self.syms[sym] = IndexText(self.fresh_name(sym.name), axes)
        line = f"{self.indent}{self.syms[sym].text} = {strip_parentheses(value)}"
        self.pending_definitions[sym] = self.doc.section(), line
        return self.syms[sym].text

    @contextmanager
    def indented(self) -> Iterator[None]:
        self.indent += "    "
        before = len(list(self.doc.lines()))
        yield
        if len(list(self.doc.lines())) == before:
            self.line("pass")
        self.indent = self.indent[:-4]

    @contextmanager
    def guarded(self, *guards: Guard) -> Iterator[None]:
        self.guards += guards
        yield
        del self.guards[len(self.guards) - len(guards) :]

    @contextmanager
    def along_axis(self, axis: int, size: str) -> Iterator[None]:
        """Blocks vary along an additional axis."""
        outside = self.active_axes.get(axis)
        self.active_axes[axis] = size
        yield
        del self.active_axes[axis]
        if outside is not None:
            self.active_axes[axis] = outside

    # ---------------------------------------------------------------------------------------------------- indices

    def sym(self, sym: Sym) -> IndexText:
        if sym in self.pending_definitions:
            section, line = self.pending_definitions.pop(sym)
            section.line(line)
        if sym.kind is not SymKind.STATIC:
            return self.syms[sym]
        if sym not in self.statics:
            self.statics[sym] = IndexText(self.fresh_name(sym.name))
        return self.statics[sym]

    def axes_of(self, *indices: Affine) -> Axes:
        return NO_AXES.union(*(self.sym(s).axes for index in indices for s in index.syms))

    def index(self, index: Affine) -> IndexText:
        wide = all(s.extent for s in index.syms) and max(map(abs, index.range())) > INT32_MAX
        text = ""
        for coef, sym in index.terms:
            name = f"tl.cast({self.sym(sym).text}, tl.int64)" if wide else self.sym(sym).text
            sign = (" - " if coef < 0 else " + ") if text else ("-" if coef < 0 else "")
            text += sign + (name if abs(coef) == 1 else f"{abs(coef)} * {name}")
        if index.const or not text:
            text += f" {'+' if index.const > 0 else '-'} {abs(index.const)}" if text else str(index.const)
        return IndexText(text, self.axes_of(index))

    def start(self, bound: Bound) -> str:
        """A lower bound, as in `range`."""
        return _nested_calls("maximum", [self.quotient(a + (d - 1), d) for a, d in bound.quotients])

    def stop(self, bound: Bound) -> str:
        """An exclusive upper bound, as in `range`."""
        ends = [self.index(a + 1).text if d == 1 else f"{self.quotient(a, d)} + 1" for a, d in bound.quotients]
        return _nested_calls("minimum", ends)

    def quotient(self, index: Affine, div: int) -> str:
        """Quotient rounded down; the dividend is made non-negative, since Triton's division truncates."""
        if div == 1:
            return self.index(index).text
        low = 0 if any(s.extent == 0 for s in index.syms) else index.range()[0]
        lift = -(-max(-low, 0) // div)
        text = f"({self.index(index + lift * div).text}) // {div}"
        return f"{text} - {lift}" if lift else text

    # ------------------------------------------------------------------------------------------------- conditions

    def guard(self, cond: Cond) -> Guard:
        facts = [(a, ">= 0") for a in cond.ge0] + [(a, "== 0") for a in cond.eq0]
        text = " & ".join(f"({self.index(a).text} {test})" for a, test in facts)
        return Guard(f"({text})" if len(facts) > 1 else text, self.axes_of(*cond.ge0, *cond.eq0), frozenset(cond.syms))

    def mask(self, guards: Sequence[Guard]) -> IndexText | None:
        """The conjunction of the guards."""
        if not guards:
            return None
        texts = list(dict.fromkeys(guard.text for guard in guards))
        text = " & ".join(texts)
        return IndexText(f"({text})" if len(texts) > 1 else text, NO_AXES.union(*(guard.axes for guard in guards)))

    # ----------------------------------------------------------------------------------------------------- blocks

    def constant(self, name: str, value: int) -> str:
        text = self.fresh_name(name)
        self.constants[text] = value
        return text

    def arange(self, size: str, axis: int) -> str:
        subscript = ", ".join(":" if n == axis else "None" for n in range(self.rank))
        return f"tl.arange(0, {size})" + (f"[{subscript}]" if self.rank > 1 else "")

    def shape(self, axes: Axes) -> str:
        if not axes:
            return "()"
        return f"[{', '.join(self.active_axes[n] if n in axes else '1' for n in range(self.rank))}]"

    def block_elements(self, axes: Axes) -> int:
        """Number of elements of a block along the axes."""
        count = 1
        for axis in axes:
            count *= self.constants[self.active_axes[axis]]
        return count

    def broadcast(self, value: BlockValue, axes: Axes) -> BlockValue:
        """The value broadcast along more axes."""
        axes |= value.axes
        if axes == value.axes:
            return value
        if value.constant:
            text = f"tl.full({self.shape(axes)}, {value.constant}, {triton_type(value.precision).dtype})"
        else:
            text = f"tl.broadcast_to({value.text}, {self.shape(axes)})"
        return BlockValue(text, value.precision, axes)


def _nested_calls(function: str, parts: list[str]) -> str:
    text = parts[0]
    for part in parts[1:]:
        text = f"tl.{function}({text}, {part})"
    return text
