"""Which axes of an operation's tensors share a loop: logic and solved shapes -> projections.

Sizes are global, identities are local: loops are made anew for every operation, and a tensor that occurs twice in it
has two independent occurrences. An operand that was stretched stands still where the result moves on. Axes of size 1
need no loop. A concatenation is one box of iterations for each of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ocannl.infer.close import Open
from ocannl.infer.finish import attempt, finish_all
from ocannl.infer.generate import Relation, emit
from ocannl.infer.logic import Logic
from ocannl.infer.solve import decide
from ocannl.infer.spec import (
    AxisSpec,
    Concat,
    Fixed,
    Label,
    Merged,
    Padding,
    RowSpec,
    ShapeSpec,
    Wild,
    Window,
    axis_labels,
)
from ocannl.infer.terms import Dim, Owner, Row, find, resolve
from ocannl.infer.trail import Trail
from ocannl.ir.index import Affine, Sym
from ocannl.ir.projections import Indices, Projection, Projections

Place = tuple[str, int]  # an axis of a row variable
Key = str | Place | Wild
"""What a loop belongs to: a label, an axis of a row variable, or one `_`."""

STILL = Affine()


class Occurrence:
    """A tensor in one place of an operation: what moves along each of its axes, in memory order; None where nothing."""

    __slots__ = ("axes", "dims")

    def __init__(self, axes: list[AxisSpec | Place | None], dims: tuple[int, ...]) -> None:
        self.axes = axes
        self.dims = dims

    def keys(self) -> Iterator[Key]:
        for axis in self.axes:
            match axis:
                case None: pass
                case tuple() | Wild(): yield axis
                case _: yield from axis_labels(axis)


def project(logic: Logic, operands: Sequence[Owner], result: Owner, *, sizes: Mapping[str, int] = {}) -> Projections:
    """How the operation walks its tensors; finishes the inference of their shapes."""
    finish_all((*operands, result))
    it = result.origin
    if isinstance(it, Relation) and it.logic == logic and it.operands == tuple(operands):
        return Projector(it, operands, result).projections()
    relation = Relation(logic, tuple(operands), result.provenance, sizes)

    def act(trail: Trail) -> Projections:
        emit(trail, relation, result, lambda rows: result)
        decide(trail, Open((), [Row((), None, tuple(relation.labels.values())), *relation.row_vars.values()]))
        projections = Projector(relation, operands, result).projections()
        trail.undo()
        return projections

    return attempt(relation, act)


class Projector:
    """One operation whose names all have sizes."""

    def __init__(self, it: Relation, operands: Sequence[Owner], result: Owner) -> None:
        spec = it.logic.spec
        self.it = it
        self.row_axes = {name: tuple(map(_size, resolve(row).axes)) for name, row in it.row_vars.items()}
        never = (False, False, False)
        self.result = self.occurrence(result, spec.result, never)
        self.operands = [
            self.occurrence(shape, rows, stretched)
            for shape, rows, stretched in zip(operands, spec.operands, it.logic.stretched, strict=True)
        ]
        self.names: set[str] = set()

    def occurrence(self, shape: Owner, spec: ShapeSpec, stretched: tuple[bool, bool, bool]) -> Occurrence:
        axes: list[AxisSpec | Place | None] = []
        dims: list[int] = []
        for n, row in ((0, spec.batch), (2, spec.output), (1, spec.input)):
            actual = resolve(shape.rows[n])
            sizes = tuple(map(_size, actual.axes))
            dims += sizes
            written = self.written(row)
            axes += self.stretch(written, len(actual.lead), sizes) if stretched[n] else written
        return Occurrence(axes, tuple(dims))

    def written(self, row: RowSpec) -> list[AxisSpec | Place]:
        middle = [] if row.var is None else [(row.var, n) for n in range(len(self.row_axes[row.var]))]
        lead: list[AxisSpec | Place] = [Wild() if isinstance(axis, Wild) else axis for axis in row.lead]
        return [*lead, *middle, *row.trail]

    def stretch(self, written: list[AxisSpec | Place], front: int, sizes: tuple[int, ...]) -> list[AxisSpec | Place | None]:
        """What the axes of a stretched row meet: from both ends inwards; an axis of size 1 stands still."""
        back = len(sizes) - front
        met = [*written[:front], *written[len(written) - back :]]
        return [None if size == 1 else axis for axis, size in zip(met, sizes, strict=True)]

    def size(self, key: Key) -> int:
        match key:
            case str(): return _size(self.it.labels[key])
            case (name, n): return self.row_axes[name][n]
            case _: raise AssertionError

    # --- boxes ---------------------------------------------------------------------------------------------------------

    def projections(self) -> Projections:
        pieces = tuple(piece for off in self.choices() if (piece := self.piece(off)) is not None)
        return Projections(pieces, self.result.dims, tuple(o.dims for o in self.operands))

    def choices(self) -> list[frozenset[str]]:
        """For every box, the labels that take no part in it."""
        groups: list[dict[str, None]] = []
        for shape in self.it.logic.spec.shapes:
            for _, row in shape.rows:
                for axis in row.axes:
                    if isinstance(axis, Concat):
                        together = dict.fromkeys(axis_labels(axis))
                        for group in [g for g in groups if not together.keys().isdisjoint(g)]:
                            groups.remove(group)
                            together = group | together
                        groups.append(together)
        choices: list[frozenset[str]] = [frozenset()]
        for group in groups:
            present = [name for name in group if self.size(name)]
            choices = [off | (group.keys() - {name}) for off in choices for name in present]
        return choices

    def piece(self, off: frozenset[str]) -> Projection | None:
        if not takes_part(self.result, off):
            return None
        part = [takes_part(o, off) for o in self.operands]
        if off and not any(part):
            return None
        moves: dict[Key, Affine] = {}
        loops: list[Sym] = []
        result = self.indices(self.result, off, moves, loops)
        operands = tuple(
            self.indices(o, off, moves, loops) if here else None for o, here in zip(self.operands, part, strict=True)
        )
        return Projection(tuple(loops), result, operands)

    def indices(self, o: Occurrence, off: frozenset[str], moves: dict[Key, Affine], loops: list[Sym]) -> Indices:
        return tuple(self.index(axis, size, off, moves, loops) for axis, size in zip(o.axes, o.dims, strict=True))

    def index(
        self, axis: AxisSpec | Place | None, extent: int, off: frozenset[str], moves: dict[Key, Affine], loops: list[Sym]
    ) -> Affine:
        def move(key: Key, size: int) -> Affine:
            if key not in moves:
                if size == 1:
                    moves[key] = STILL
                else:
                    loops.append(Sym(self.name(key), 0, size - 1))
                    moves[key] = Affine.of(loops[-1])
            return moves[key]

        def named(name: str) -> Affine:
            return move(name, self.size(name))

        match axis:
            case None: return STILL
            case tuple(): return move(axis, self.size(axis))
            case Label(name): return named(name)
            case Wild(): return Affine.of(STILL if extent == 1 else self.loop(axis, extent, loops))
            case Fixed(at): return Affine.of(at)
            case Window(stride, over, padding, offset, dilation, kernel):
                step = self.it.coefficient(dilation)
                index = named(over) * self.it.coefficient(stride) + offset
                if kernel is None:
                    return index
                span = 1 + (self.size(kernel) - 1) * step
                return index + named(kernel) * step + (-(span // 2) if padding is Padding.SAME else 0)
            case Concat(parts):
                start = 0
                for part in parts:
                    if isinstance(part, Label) and part.name not in off:
                        return named(part.name) + start
                    start += part if isinstance(part, int) else self.size(part.name)
                raise AssertionError
            case Merged(parts):
                index = STILL
                for part in parts:
                    index = index * self.size(part.name) + named(part.name)
                return index

    def loop(self, key: Key, size: int, loops: list[Sym]) -> Sym:
        loops.append(Sym(self.name(key), 0, size - 1))
        return loops[-1]

    def name(self, key: Key) -> str:
        """A name that no other loop of the operation has."""
        match key:
            case str(): stem = key
            case (var, n): stem = f"{var[3] if var.startswith('...') else var}{n}"
            case _: stem = "w"
        name, n = stem, 1
        while name in self.names or (name in self.it.labels and name is not key):
            n += 1
            name = f"{stem}_{n}"
        self.names.add(name)
        return name


def takes_part(o: Occurrence, off: frozenset[str]) -> bool:
    """Whether a tensor has cells in the box where these labels take no part."""
    for axis in o.axes:
        if isinstance(axis, Concat):
            if not any(name not in off for name in axis_labels(axis)):
                return False
        elif axis is not None and not isinstance(axis, tuple) and not off.isdisjoint(axis_labels(axis)):
            return False
    return True


def _size(dim: Dim) -> int:
    size = find(dim).size
    assert size is not None
    return size
