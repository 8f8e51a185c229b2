"""Abstract syntax of generalized einsum specs.

    Spec       operand rows ; ... => result rows
    ShapeSpec  batch | input -> output           an omitted row is empty: the operand has no such axes
    RowSpec    lead  ..var..  trail              `var` is None for a closed row, all of whose axes are in `trail`
    AxisSpec   Label  i      a loop shared by all axes of the name
               Fixed  2      a single index of the axis
               Wild   _      a separate loop
               Window 2*o+1<+3*k, 2*o[1,1]+k
               Concat x^3^y  concatenated axes
               Merged (a b)  row-major product of two or more axes

The row variable of `...` is named "...batch", "...input" or "...output" after its row; `..batch..`, `..input..` and
`..output..` denote these variables in any row.

`print_spec` is the inverse of `infer.parse`: parsing its output gives an equal spec.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, assert_never

from ocannl.ir.affine import Sym

Kind = Literal["batch", "input", "output"]
KINDS: tuple[Kind, ...] = ("batch", "input", "output")  # as written
MEMORY_ORDER: tuple[Kind, ...] = ("batch", "output", "input")

Coef = int | str
"""A coefficient: a number, or a name whose value is passed with the spec."""


@dataclass(frozen=True, slots=True)
class Label:
    name: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """A single index of an axis: a number, or in logics built by code a symbol bound at run time.

    In the spec of a single shape, the size of an axis.
    """

    index: int | Sym


@dataclass(frozen=True, slots=True)
class Wild:
    """An anonymous axis; each `_` has a separate loop."""


class Padding(Enum):
    SAME = "="  # input = stride * output; reads outside give the neutral element
    VALID = "<"  # every tap inside: input = stride * (output - 1) + 1 + (kernel - 1) * dilation
    UNSTATED = ""  # the axis covers the index, with no equation for its size


@dataclass(frozen=True, slots=True)
class Margins:
    """Cells added before and after an axis: as many windows as fit. In a new result, the axis is as short as fits.

    output = (before + input + after - 1 - (kernel - 1) * dilation) // stride + 1
    """

    before: int
    after: int

    @property
    def value(self) -> str:
        """The mark in the notation."""
        return f"[{self.before},{self.after}]"


@dataclass(frozen=True, slots=True)
class Window:
    """index = stride * over + offset + dilation * kernel  (no kernel: a strided axis)."""

    stride: Coef
    over: str
    padding: Padding | Margins = Padding.UNSTATED
    offset: int = 0
    dilation: Coef = 1
    kernel: str | None = None


@dataclass(frozen=True, slots=True)
class Concat:
    """Concatenated axes; a number is the size of a part without a label."""

    parts: tuple[Label | int, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    parts: tuple[Label, ...]


AxisSpec = Label | Fixed | Wild | Window | Concat | Merged


@dataclass(frozen=True, slots=True)
class RowSpec:
    lead: tuple[AxisSpec, ...] = ()
    var: str | None = None
    trail: tuple[AxisSpec, ...] = ()

    @property
    def axes(self) -> tuple[AxisSpec, ...]:
        """Explicit axes, left to right."""
        return self.lead + self.trail


@dataclass(frozen=True, slots=True)
class ShapeSpec:
    batch: RowSpec = RowSpec()
    input: RowSpec = RowSpec()
    output: RowSpec = RowSpec()

    @property
    def rows(self) -> tuple[tuple[Kind, RowSpec], ...]:
        """The three rows with their kinds, in the order of the notation."""
        return ("batch", self.batch), ("input", self.input), ("output", self.output)

    @property
    def axes(self) -> tuple[AxisSpec, ...]:
        """Explicit axes of all rows."""
        return tuple([axis for _, row in self.rows for axis in row.axes])

    def __str__(self) -> str:
        return print_shape(self)


@dataclass(frozen=True, slots=True)
class Spec:
    """`operands => result`; `text` is the source text, used for messages and not compared."""

    operands: tuple[ShapeSpec, ...]
    result: ShapeSpec
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        return print_spec(self)

    @property
    def shapes(self) -> tuple[ShapeSpec, ...]:
        """The operands, then the result."""
        return (*self.operands, self.result)

    def labels(self) -> tuple[str, ...]:
        """Names of axes, including windows, concatenations and parentheses, by first occurrence."""
        return tuple(dict.fromkeys(name for axis in self._axes() for name in axis_labels(axis)))

    def row_vars(self) -> tuple[str, ...]:
        """Row variables, including those of `...`, by first occurrence."""
        rows = (row for shape in self.shapes for _, row in shape.rows)
        return tuple(dict.fromkeys(row.var for row in rows if row.var is not None))

    def coefficients(self) -> tuple[str, ...]:
        """Names whose values are passed with the spec, by first occurrence."""
        return tuple(dict.fromkeys(name for axis in self._axes() for name in axis_coefficients(axis)))

    def names(self) -> tuple[str, ...]:
        """All identifiers of the spec: labels, then row variables (`...` has no name), then coefficients."""
        return self.labels() + tuple(v for v in self.row_vars() if not v.startswith("...")) + self.coefficients()

    def _axes(self) -> tuple[AxisSpec, ...]:
        return tuple(axis for shape in self.shapes for _, row in shape.rows for axis in row.axes)


def ellipsis_var(kind: Kind) -> str:
    """Row variable of `...` in a row of this kind."""
    return f"...{kind}"


def reads_outside(axis: AxisSpec) -> bool:
    """Whether the axis is a window that reaches beyond the cells of an operand."""
    return isinstance(axis, Window) and axis.padding not in (Padding.VALID, Padding.UNSTATED)


def axis_labels(axis: AxisSpec) -> tuple[str, ...]:
    """Labels of an axis, left to right."""
    match axis:
        case Label(name): return (name,)
        case Fixed() | Wild(): return ()
        case Window(over=over, kernel=kernel): return (over,) if kernel is None else (over, kernel)
        case Concat(parts): return tuple(part.name for part in parts if isinstance(part, Label))
        case Merged(parts): return tuple(part.name for part in parts)
        case _: assert_never(axis)


def axis_coefficients(axis: AxisSpec) -> tuple[str, ...]:
    """Named coefficients of an axis, left to right."""
    match axis:
        case Window(stride=stride, dilation=dilation): return tuple(c for c in (stride, dilation) if isinstance(c, str))
        case _: return ()


def print_spec(spec: Spec) -> str:
    return f"{'; '.join(map(print_shape, spec.operands))} => {print_shape(spec.result)}".strip()


def print_shape(shape: ShapeSpec) -> str:
    marks = {"batch": "|", "input": "->", "output": ""}
    return "".join(_print_row(kind, row) + marks[kind] for kind, row in shape.rows if row != RowSpec())


def _print_row(kind: Kind, row: RowSpec) -> str:
    """Prints a row; a single multi-letter name gets a trailing comma, which selects multi-character mode."""
    var = () if row.var is None else ("..." if row.var == ellipsis_var(kind) else print_row_var(row.var),)
    printed = ", ".join((*map(print_axis, row.lead), *var, *map(print_axis, row.trail)))
    match row:
        case RowSpec((), None, (Label() | Merged() as axis,)) if any(len(name) > 1 for name in axis_labels(axis)):
            return printed + ","
        case _: return printed


def print_row_var(name: str) -> str:
    """Prints `..v..`; the row variable of `...` prints as `..batch..`, `..input..` or `..output..` outside its row."""
    return f"..{name.removeprefix('...')}.."


def print_axis(axis: AxisSpec) -> str:
    match axis:
        case Label(name): return name
        case Fixed(index): return index.name if isinstance(index, Sym) else str(index)
        case Wild(): return "_"
        case Window(): return print_window(axis)
        case Concat(parts): return "^".join(part.name if isinstance(part, Label) else str(part) for part in parts)
        case Merged(parts): return f"({' '.join(part.name for part in parts)})"
        case _: assert_never(axis)


def print_window(axis: Window, padding: Padding | None = None) -> str:
    """Prints a window, with the mark of `padding` if passed."""
    alone = axis.kernel is None and axis.offset == 0  # `1*o` is a window, `o` a label
    over = axis.over if axis.stride == 1 and not alone else f"{axis.stride}*{axis.over}"
    offset = f"+{axis.offset}" if axis.offset else ""
    if axis.kernel is None:
        return over + offset
    kernel = axis.kernel if axis.dilation == 1 else f"{axis.dilation}*{axis.kernel}"
    return f"{over}{(padding or axis.padding).value}{offset}+{kernel}"
