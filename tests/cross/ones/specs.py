"""Specs as data, their text and their result shapes: operands bind names, the result reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt, prod

from ones.rows import KINDS, Axis, Refused, Row, Rows, Unspecified, equal


@dataclass(frozen=True)
class Name:
    """An axis with a name."""

    name: str


@dataclass(frozen=True)
class At:
    """A single cell of an axis."""

    index: int


@dataclass(frozen=True)
class Any:
    """`_`, an axis without a name; `key` tells them apart."""

    key: int


@dataclass(frozen=True)
class Window:
    """`stride*over<+offset+dilation*taps`; without taps, a stride."""

    over: str
    taps: str | None = None
    stride: int = 1
    mark: str = ""
    offset: int = 0
    dilation: int = 1


@dataclass(frozen=True)
class Joined:
    """`a^3^b`."""

    parts: tuple[str | int, ...]


@dataclass(frozen=True)
class Merged:
    """`(a b)`."""

    parts: tuple[str, ...]


Term = Name | At | Any | Window | Joined | Merged


@dataclass(frozen=True)
class RowSpec:
    """Axes, with a row variable among them behind the first `at`."""

    terms: tuple[Term, ...] = ()
    var: str = ""
    at: int = 0

    def key(self, kind: int) -> str:
        """The variable: `...` is that of its kind, and `..batch..` is written for `...` of batch rows."""
        return KINDS[kind] if self.var == "..." else self.var.strip(".")

    def text(self) -> str:
        parts = [write(term) for term in self.terms]
        if self.var:
            parts.insert(self.at, self.var)
        return ", ".join(parts)


Shape = tuple[RowSpec, RowSpec, RowSpec]


@dataclass(frozen=True)
class Spec:
    """`sizes` are the keyword arguments."""

    operands: tuple[Shape, ...]
    result: Shape
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return f"{'; '.join(map(write_shape, self.operands))} => {write_shape(self.result)}"

    @property
    def arguments(self) -> str:
        return "".join(f", {name}={size}" for name, size in self.sizes.items())


def write(term: Term) -> str:
    match term:
        case Name(name): return name
        case At(index): return str(index)
        case Any(): return "_"
        case Joined(parts): return "^".join(map(str, parts))
        case Merged(parts): return f"({' '.join(parts)})"
        case Window(over, taps, stride, mark, offset, dilation):
            text = over if stride == 1 and (taps or offset) else f"{stride}*{over}"
            text += mark + (f"+{offset}" if offset else "")
            return text if taps is None else f"{text}+{taps if dilation == 1 else f'{dilation}*{taps}'}"


def write_shape(shape: Shape) -> str:
    batch, input, output = (row.text() for row in shape)
    return f"{batch}|{input}->{output}" if input else f"{batch}|{output}" if batch else output


def names_of(term: Term) -> tuple[str, ...]:
    match term:
        case Name(name): return (name,)
        case Window(over, taps): return (over,) if taps is None else (over, taps)
        case Joined(parts): return tuple(part for part in parts if isinstance(part, str))
        case Merged(parts): return parts
        case _: return ()


class Reading:
    """What the names of a spec stand for when the operands have these rows, and the rows of the result.

    names       the axis of each name; an axis `_` has its key for a name
    variables   the row of each row variable
    """

    def __init__(self, spec: Spec, operands: Sequence[Rows]) -> None:
        self.spec = spec
        self.names: dict[str | int, Axis] = {}
        self.variables: dict[str, Row] = {}
        arithmetic: list[tuple[Term, Axis]] = []
        for shape, rows in zip(spec.operands, operands, strict=True):
            for kind in range(3):
                arithmetic += self.bind_row(shape[kind], kind, rows[kind])
        for name, size in spec.sizes.items():
            self.bind(name, Axis(size))
        self.solve(arithmetic)
        batch, input, output = (self.result_row(row, kind) for kind, row in enumerate(spec.result))
        self.result: Rows = batch, input, output

    def bind(self, name: str | int, axis: Axis) -> None:
        bound = self.names.get(name)
        self.names[name] = axis if bound is None else equal(bound, axis)

    def bind_row(self, row: RowSpec, kind: int, axes: Row) -> list[tuple[Term, Axis]]:
        """Bind what stands for an axis; returns the arithmetic."""
        count = len(row.terms)
        if len(axes) < count or (not row.var and len(axes) > count):
            raise Refused("count")
        behind = len(axes) - (count - row.at)
        if row.var:
            self.bind_variable(row.key(kind), axes[row.at : behind])
            axes = axes[: row.at] + axes[behind:]
        arithmetic: list[tuple[Term, Axis]] = []
        for term, axis in zip(row.terms, axes, strict=True):
            match term:
                case Name(name): self.bind(name, axis)
                case Any(key): self.bind(key, axis)
                case At(index):
                    if index >= axis.size:
                        raise Refused("index")
                case _: arithmetic.append((term, axis))
        return arithmetic

    def bind_variable(self, key: str, row: Row) -> None:
        bound = self.variables.get(key, row)
        if len(bound) != len(row):
            raise Refused("equal")
        self.variables[key] = tuple(equal(a, b) for a, b in zip(bound, row, strict=True))

    # --- arithmetic ---

    def size(self, name: str) -> int | None:
        axis = self.names.get(name)
        return None if axis is None else axis.size

    def solve(self, arithmetic: list[tuple[Term, Axis]]) -> None:
        """Bind what a single unknown leaves, again and again; then everything must hold."""
        waiting = arithmetic
        while waiting:
            blocked = [pair for pair in waiting if not self.learn(*pair)]
            if len(blocked) == len(waiting) and not any(self.drop_spare(term) for term, _ in blocked):
                raise self.stuck([term for term, _ in blocked])
            waiting = blocked
        for term, axis in arithmetic:
            self.share_units(term, axis)

    def drop_spare(self, term: Term) -> bool:
        """Parts of a concatenation that nothing else mentions vanish, all but one if there is nothing else."""
        if not isinstance(term, Joined):
            return False
        rows = [row for shape in (*self.spec.operands, self.spec.result) for row in shape]
        often = Counter(name for row in rows for written in row.terms for name in names_of(written))
        unknown = [name for name in names_of(term) if name not in self.names]
        spare = [name for name in unknown if often[name] == 1]
        gone = spare[len(spare) == len(unknown) :]
        self.names |= {name: Axis(0) for name in gone}
        return bool(gone)

    def stuck(self, terms: list[Term]) -> Exception:
        """The rule by which what is left is refused."""
        windows = [term for term in terms if isinstance(term, Window)]
        if any(term.mark == "" for term in windows):
            return Refused("unmarked")
        return Refused("unsized" if any(term.mark == "=" for term in windows) else "ambiguous")

    def learn(self, term: Term, axis: Axis) -> bool:
        """Bind the name that is left, if there is only one; whether all are bound then."""
        unknown = Counter(name for name in names_of(term) if name not in self.names)
        if len(unknown) > 1:
            return self.split_one(term, axis, unknown)
        if unknown:
            ((name, times),) = unknown.items()
            size = self.left_over(term, axis.size, name, times)
            if size is None:
                return False
            self.names[name] = Axis(size)
        self.check(term, axis.size)
        return True

    def split_one(self, term: Term, axis: Axis, unknown: Counter[str]) -> bool:
        """An axis that leaves nothing to divide: the rest are parts of size 1, or of size 0."""
        bound = [self.size(name) for name in names_of(term)]
        match term:
            case Merged() if axis.size and prod(n for n in bound if n is not None) == axis.size:
                self.names |= {name: Axis(1) for name in unknown}
            case Window(mark="<", offset=offset) if axis.size == offset + 1:
                self.names |= {name: Axis(1) for name in unknown}
            case Joined(parts) if sum(n for n in (*bound, *parts) if isinstance(n, int)) == axis.size:
                self.names |= {name: Axis(0) for name in unknown}
            case _:
                return False
        return True

    def left_over(self, term: Term, size: int, name: str, times: int) -> int | None:
        """The size of the only unknown name of a term; None where the term does not tell it."""
        bound = [n for part in names_of(term) if (n := self.size(part)) is not None]
        match term:
            case Merged():
                factor = prod(bound)
                if factor == 0:
                    return self.unclear(size == 0, "divide")
                return power_of(size // factor, times) if size % factor == 0 else refuse("divide")
            case Joined(parts):
                left = size - sum(bound) - sum(part for part in parts if isinstance(part, int))
                return left // times if left >= 0 and left % times == 0 else refuse("add")
            case Window(over, taps, stride, mark, offset, dilation):
                if taps is None or (mark == "=" and name == over):
                    skipped = offset // stride if taps is None else 0
                    return refuse_negative(size // stride - skipped) if size % stride == 0 else refuse("window")
                if mark != "<":
                    return None
                step, span = (stride, dilation) if name == over else (dilation, stride)
                room = size - offset - span * (bound[0] - 1) - 1
                return room // step + 1 if bound[0] and room >= 0 and room % step == 0 else refuse("window")
        raise AssertionError(term)

    def unclear(self, consistent: bool, rule: str) -> int:
        raise Unspecified if consistent else Refused(rule)

    def check(self, term: Term, size: int) -> None:
        rule = "divide" if isinstance(term, Merged) else "add" if isinstance(term, Joined) else "window"
        if isinstance(term, Window) and term.taps and term.mark != "=":
            if not all(self.size(name) for name in names_of(term)):
                raise Refused(rule)
            reach = self.total(term)
            if not (size == reach if term.mark == "<" else size >= reach):
                raise Refused(rule)
        elif self.total(term) != size:
            raise Refused(rule)

    def total(self, term: Term) -> int:
        """The size of an axis that its parts make; an unmarked window reaches just as far as a marked one."""
        bound = {name: size for name in names_of(term) if (size := self.size(name)) is not None}
        if len(bound) < len(set(names_of(term))):
            raise Refused("unsized")
        match term:
            case Merged(parts): return prod(bound[part] for part in parts)
            case Joined(parts): return sum(part if isinstance(part, int) else bound[part] for part in parts)
            case Window(over, taps, stride, mark, offset, dilation):
                if taps is None:
                    return stride * (bound[over] + offset // stride)
                if mark == "=":
                    return stride * bound[over]
                if not bound[over] or not bound[taps]:
                    raise Refused("window")
                return offset + stride * (bound[over] - 1) + dilation * (bound[taps] - 1) + 1
        raise AssertionError(term)

    def share_units(self, term: Term, axis: Axis) -> Axis:
        """What is laid one after another, and the places of a window, count what the axis counts."""
        match term:
            case Joined(): names = names_of(term)
            case Window(over): names = (over,)
            case _: return axis
        parts = [self.names[name] for name in names]
        unit = next((a.unit for a in (axis, *parts) if a.unit), None)
        if isinstance(term, Window) and term.taps is not None:
            taps = self.names[term.taps]
            unit = unit or taps.unit
            equal(Axis(0, unit), Axis(0, taps.unit), "equal")
        for name in names:
            self.bind(name, Axis(self.names[name].size, unit))
        return equal(axis, Axis(axis.size, unit))

    # --- the result ---

    def result_row(self, row: RowSpec, kind: int) -> Row:
        axes = [self.result_axis(term) for term in row.terms]
        if row.var:
            middle = self.variables.get(row.key(kind))
            if middle is None:
                raise Refused("unsized")
            axes[row.at : row.at] = middle
        return tuple(axes)

    def result_axis(self, term: Term) -> Axis:
        match term:
            case Name(name):
                if name not in self.names:
                    raise Refused("unsized")
                return self.names[name]
            case At(index): return Axis(index + 1)
            case Any(): raise Unspecified
            case _: return self.share_units(term, Axis(self.total(term)))


def refuse(rule: str) -> int:
    raise Refused(rule)


def refuse_negative(size: int) -> int:
    return size if size >= 0 else refuse("window")


def power_of(size: int, times: int) -> int:
    root = size if times == 1 else isqrt(size) if times == 2 else round(size ** (1 / times))
    return root if root**times == size else refuse("divide")


def shape_of(spec: Spec, operands: Sequence[Rows]) -> Rows:
    return Reading(spec, operands).result

