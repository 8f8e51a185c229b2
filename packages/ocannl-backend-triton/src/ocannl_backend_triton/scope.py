"""What holds where a statement of a kernel stands: symbols, axes, conditions; and the lines written so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ocannl.codegen import Document
from ocannl.ir.index import Affine, Bound, Cond, Sym, SymKind
from ocannl.ir.names import Namer
from ocannl_backend_triton.types import held
from ocannl_backend_triton.values import NOWHERE, Axes, Value, bare

MOST = (1 << 31) - 1  # of what indices are counted with


@dataclass(frozen=True, slots=True)
class Index:
    """A symbol, an index or a condition as text."""

    text: str
    axes: Axes = NOWHERE


@dataclass(frozen=True, slots=True)
class Guard:
    """What has to hold for an iteration to be meant; `syms` are those that it depends on."""

    text: str
    axes: Axes
    syms: frozenset[Sym]
    is_edge: bool = False  # of an axis

    @property
    def negated(self) -> Guard:
        return Guard(f"({self.text} == 0)", self.axes, self.syms)


class Scope:
    def __init__(self, rank: int, names: Namer) -> None:
        self.rank = rank  # axes of a block
        self.new = names
        self.doc = Document()
        self.indent = "    "
        self.statics: dict[Sym, Index] = {}
        self.syms: dict[Sym, Index] = {}
        self.unwritten: dict[Sym, tuple[Document, str]] = {}  # lines that define symbols, and where they belong
        self.guards: list[Guard] = []
        self.active: dict[int, str] = {}  # axes that blocks vary along here, with their sizes
        self.constants: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------------------ lines

    def line(self, text: str) -> None:
        self.doc.line(self.indent + text)

    def let(self, name: str, value: str) -> str:
        """A new name for a value."""
        text = self.new(name)
        self.line(f"{text} = {bare(value)}")
        return text

    def let_sym(self, sym: Sym, value: str, axes: Axes) -> str:
        """A new name for a symbol, which is defined here if somebody asks for it."""
        self.syms[sym] = Index(self.new(sym.name), axes)
        self.unwritten[sym] = self.doc.section(), f"{self.indent}{self.syms[sym].text} = {bare(value)}"
        return self.syms[sym].text

    @contextmanager
    def deeper(self) -> Iterator[None]:
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
    def along(self, place: int, size: str) -> Iterator[None]:
        """Blocks vary along one more axis."""
        outside = self.active.get(place)
        self.active[place] = size
        yield
        del self.active[place]
        if outside is not None:
            self.active[place] = outside

    # ---------------------------------------------------------------------------------------------------- indices

    def sym(self, sym: Sym) -> Index:
        if sym in self.unwritten:
            here, line = self.unwritten.pop(sym)
            here.line(line)
        if sym.kind is not SymKind.STATIC:
            return self.syms[sym]
        if sym not in self.statics:
            self.statics[sym] = Index(self.new(sym.name))
        return self.statics[sym]

    def axes_of(self, *indices: Affine) -> Axes:
        return NOWHERE.union(*(self.sym(s).axes for index in indices for s in index.syms))

    def index(self, index: Affine) -> Index:
        wide = all(s.extent for s in index.syms) and max(map(abs, index.range())) > MOST
        text = ""
        for coef, sym in index.terms:
            name = f"tl.cast({self.sym(sym).text}, tl.int64)" if wide else self.sym(sym).text
            sign = (" - " if coef < 0 else " + ") if text else ("-" if coef < 0 else "")
            text += sign + (name if abs(coef) == 1 else f"{abs(coef)} * {name}")
        if index.const or not text:
            text += f" {'+' if index.const > 0 else '-'} {abs(index.const)}" if text else str(index.const)
        return Index(text, self.axes_of(index))

    def start(self, bound: Bound) -> str:
        return _extreme("maximum", [self.quotient(a + (d - 1), d) for a, d in bound.of])

    def stop(self, bound: Bound) -> str:
        ends = [self.index(a + 1).text if d == 1 else f"{self.quotient(a, d)} + 1" for a, d in bound.of]
        return _extreme("minimum", ends)

    def quotient(self, index: Affine, div: int) -> str:
        """Rounded down; what is divided is made positive, for which every division rounds so."""
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

    def mask(self, guards: Sequence[Guard]) -> Index | None:
        if not guards:
            return None
        texts = list(dict.fromkeys(guard.text for guard in guards))
        text = " & ".join(texts)
        return Index(f"({text})" if len(texts) > 1 else text, NOWHERE.union(*(guard.axes for guard in guards)))

    # ----------------------------------------------------------------------------------------------------- blocks

    def constant(self, name: str, value: int) -> str:
        text = self.new(name)
        self.constants[text] = value
        return text

    def arange(self, size: str, place: int) -> str:
        at = ", ".join(":" if n == place else "None" for n in range(self.rank))
        return f"tl.arange(0, {size})" + (f"[{at}]" if self.rank > 1 else "")

    def shape(self, axes: Axes) -> str:
        if not axes:
            return "()"
        return f"[{', '.join(self.active[n] if n in axes else '1' for n in range(self.rank))}]"

    def width(self, axes: Axes) -> int:
        """How many numbers are in a block."""
        count = 1
        for axis in axes:
            count *= self.constants[self.active[axis]]
        return count

    def spread(self, value: Value, axes: Axes) -> Value:
        """The same along more axes."""
        axes |= value.axes
        if axes == value.axes:
            return value
        if value.constant:
            text = f"tl.full({self.shape(axes)}, {value.constant}, {held(value.precision).value})"
        else:
            text = f"tl.broadcast_to({value.text}, {self.shape(axes)})"
        return Value(text, value.precision, axes)


def _extreme(function: str, parts: list[str]) -> str:
    text = parts[0]
    for part in parts[1:]:
        text = f"tl.{function}({text}, {part})"
    return text
