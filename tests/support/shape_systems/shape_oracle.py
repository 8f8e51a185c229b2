"""Shape semantics of operations, by definitions that share no code with the solver."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from ocannl.infer.logic import Logic
from ocannl.infer.spec import AxisSpec, Concat, Fixed, Label, Merged, Padding, RowSpec, Wild, Window, axis_labels

Axis = tuple[int | None, str | None]
Row = tuple[Axis, ...]
Rows = tuple[Row, ...]
Names = dict[str, Row | Axis]
POINTS = 600  # maximum number of compared iterations
STRETCHABLE: Axis = (1, None)


def fits(long: Row, short: Row) -> bool:
    """Axes can be inserted in front of `short`, so that each of its axes equals its partner or is a plain 1."""
    if len(long) < len(short):
        return False
    return all(y in (x, STRETCHABLE) for x, y in zip(long[len(long) - len(short) :], short, strict=True))


def broadcast(rows: Sequence[Row]) -> Row | None:
    """The least row that all rows stretch to; None if there is none."""
    length = max(map(len, rows), default=0)
    padded = [(STRETCHABLE,) * (length - len(row)) + row for row in rows]
    positions = [{axis for axis in axes if axis != STRETCHABLE} for axes in zip(*padded, strict=True)]
    if any(len(sizes) > 1 for sizes in positions):
        return None
    return tuple(sizes.pop() if sizes else STRETCHABLE for sizes in positions)


def means(spec: RowSpec, axes: Row, names: Names) -> bool:
    """Whether the axes match the spec; binds its names."""
    front, back = len(spec.lead), len(spec.trail)
    if len(axes) < front + back or (spec.var is None and len(axes) != front + back):
        return False
    middle = axes[front : len(axes) - back]
    if spec.var is not None and names.setdefault(f"..{spec.var}", middle) != middle:
        return False
    ends = [*zip(spec.lead, axes, strict=False), *zip(spec.trail, axes[len(axes) - back :], strict=True)]
    return all(
        names.setdefault(a.name, x) == x if isinstance(a, Label) else not isinstance(a, Fixed) or reaches(x, a)
        for a, x in ends
    )


def reaches(axis: Axis, fixed: Fixed) -> bool:
    return isinstance(fixed.index, int) and (axis[0] or 0) > fixed.index


def size_of(names: Names, name: str) -> int | None:
    bound_size = names.get(name)
    return bound_size[0] if bound_size and isinstance(bound_size[0], int) else None


def adds_up(axis: AxisSpec, size: int, names: Names, sizes: Mapping[str, int]) -> bool:
    """Whether the size matches a window, concatenation or merged axis; unbound names may have any size."""
    match axis:
        case Window(stride, over, padding, offset, dilation, kernel):
            stride = sizes[stride] if isinstance(stride, str) else stride
            dilation = sizes[dilation] if isinstance(dilation, str) else dilation
            positions, taps = size_of(names, over), size_of(names, kernel) if kernel else 1
            if positions is None or taps is None:
                return True
            if kernel is None:
                return size == stride * (positions + offset // stride)
            if padding is Padding.SAME:
                return size == stride * positions
            reach = offset + stride * (positions - 1) + dilation * (taps - 1) + 1
            return size == reach if padding is Padding.VALID else size >= reach
        case Concat(parts):
            lengths = [part if isinstance(part, int) else size_of(names, part.name) for part in parts]
            bound_size = sum(n for n in lengths if n is not None)
            return bound_size == size if None not in lengths else bound_size <= size
        case Merged(parts):
            factors = [size_of(names, part.name) for part in parts]
            product = prod(n for n in factors if n is not None)
            is_all = None not in factors
            return product == size if is_all else size == 0 or (product > 0 and size % product == 0)
        case _:
            return True


def counts_alike(axis: AxisSpec, total: Axis, names: Names, sizes: Mapping[str, int]) -> bool:
    """Concatenated axes have the unit of the whole, unless they are a plain 1, and so have the places of a window."""
    match axis:
        case Window(over=over): parts, plain = [over], set[Axis]()
        case Concat(): parts, plain = [*axis_labels(axis)], {(1, None)}
        case _: return True
    cells = [names[name] for name in parts if name in names and name not in sizes]
    return total in plain or all(cell in plain or cell[1] == total[1] for cell in cells)


def holds(logic: Logic, rows: Sequence[Rows], sizes: Mapping[str, int] = {}, names: Names | None = None) -> bool:
    """Whether the operation accepts these rows of its operands and result; binds its names."""
    names = {} if names is None else names
    equal = (*logic.equal, *logic.result)
    if not all(means(use.spec, rows[use.slot // 3][use.slot % 3], names) for use in equal):
        return False
    for use in logic.stretch:
        if use.spec.var is not None:  # all of them may be stretched, so that the row of the result says it
            template = names.get(f"..{use.spec.var}")
            if template is not None and not fits(template, rows[use.slot // 3][use.slot % 3]):  # type: ignore[arg-type]
                return False
    if not all(number(names, name) in (None, size) for name, size in sizes.items()):
        return False
    for name in logic.spec.labels():
        if name in sizes:
            names.setdefault(name, (sizes[name], None))
    met = [pair for use in equal for pair in matched_axes(use.spec, rows[use.slot // 3][use.slot % 3])]
    for axis, total in met:
        divide_merged(axis, total, names)
    return all(adds_up(a, x[0] or 0, names, sizes) and counts_alike(a, x, names, sizes) for a, x in met)


def divide_merged(axis: AxisSpec, total: Axis, names: Names) -> None:
    """Binds the only missing part of a merged axis."""
    if isinstance(axis, Merged):
        missing = [part.name for part in axis.parts if part.name not in names]
        divisor = prod(size_of(names, part.name) or 0 for part in axis.parts if part.name in names)
        if len(missing) == 1 and divisor and total[0] is not None and total[0] % divisor == 0:
            names[missing[0]] = (total[0] // divisor, None)


def unsized(logic: Logic) -> set[str]:
    """Names that no operand sizes; a window without a mark sizes none."""
    rows = [row for shape in logic.spec.operands for _, row in shape.rows]
    axes = [axis for row in rows for axis in row.axes if not is_unmarked(axis)]
    sized = {name for axis in axes for name in axis_labels(axis)} | {row.var for row in rows}
    return {*logic.spec.labels(), *logic.spec.row_vars()} - sized


def is_unmarked(axis: AxisSpec) -> bool:
    return isinstance(axis, Window) and axis.kernel is not None and axis.padding is Padding.UNSTATED


def result_names(logic: Logic) -> set[str]:
    rows = [row for _, row in logic.spec.result.rows]
    return {name for row in rows for axis in row.axes for name in axis_labels(axis)} | {row.var or "" for row in rows}


def makes(
    logic: Logic, rows: Sequence[Rows], sizes: Mapping[str, int] = {}, names: Names | None = None,
    captured: Iterable[str] = (),
) -> bool:  # fmt: skip
    """The operation makes a result of exactly these rows: the broadcast of rows that are stretched, and no more cells
    than the spec writes."""
    names = {} if names is None else names
    if not holds(logic, rows, sizes, names):
        return False
    bound = {use.spec.var for use in logic.equal}
    stretched: dict[str, list[Row]] = {}
    for use in logic.stretch:
        if use.spec.var is not None and use.spec.var not in bound:
            stretched.setdefault(use.spec.var, []).append(rows[use.slot // 3][use.slot % 3])
    if not all(is_broadcast(names.get(f"..{var}"), broadcast(operands)) for var, operands in stretched.items()):
        return False
    written = [pair for use in logic.result for pair in matched_axes(use.spec, rows[use.slot // 3][use.slot % 3])]
    if not all(is_minimal(axis, size or 0, names, sizes) for axis, (size, _) in written):
        return False
    return leaves_nothing(logic, rows, names, sizes, captured)


def is_broadcast(row: object, minimal: Row | None) -> bool:
    """An axis of size 1 may have a unit that a use gives to the result alone: an operand of size 1 fits any unit."""
    if not isinstance(row, tuple) or minimal is None or len(row) != len(minimal):
        return False
    return all(x == y or (y == STRETCHABLE and x[0] == 1) for x, y in zip(row, minimal, strict=True))


def leaves_nothing(
    logic: Logic, rows: Sequence[Rows], names: Names, sizes: Mapping[str, int], captured: Iterable[str] = (),
    *, writes: bool = False,
) -> bool:  # fmt: skip
    """Concatenated axes of operands have no parts that nothing needs; an existing result sizes parts as well."""
    shapes = logic.spec.shapes if writes else logic.spec.operands
    plain = {a.name for shape in shapes for _, row in shape.rows for a in row.axes if isinstance(a, Label)}
    sized, spare = {*sizes, *captured, *plain}, spare_parts(logic)
    met = [pair for use in logic.equal for pair in matched_axes(use.spec, rows[use.slot // 3][use.slot % 3])]
    return all(is_total(axis, size or 0, names, spare, sized) for axis, (size, _) in met)


def matched_axes(spec: RowSpec, axes: Row) -> list[tuple[AxisSpec, Axis]]:
    return [*zip(spec.lead, axes, strict=False), *zip(reversed(spec.trail), reversed(axes), strict=False)]


def spare_parts(logic: Logic) -> set[str]:
    """Parts of concatenations that nothing else mentions."""
    axes = [axis for shape in logic.spec.shapes for _, row in shape.rows for axis in row.axes]
    often = Counter(name for axis in axes for name in axis_labels(axis))
    return {name for axis in axes if isinstance(axis, Concat) for name in axis_labels(axis) if often[name] == 1}


def is_total(axis: AxisSpec, size: int, names: Names, spare: set[str], sized: set[str]) -> bool:
    """Of parts of a concatenation that nothing sizes, the spare ones vanish beside those that something mentions."""
    unknown = set(axis_labels(axis)) - sized if isinstance(axis, Concat) else set()
    if not isinstance(axis, Concat) or not unknown & spare or unknown <= spare:
        return True
    parts = [part for part in axis.parts if isinstance(part, int) or part.name not in unknown & spare]
    lengths = [part if isinstance(part, int) else size_of(names, part.name) for part in parts]
    return None in lengths or sum(n for n in lengths if n is not None) == size


def is_minimal(axis: AxisSpec, size: int, names: Names, sizes: Mapping[str, int]) -> bool:
    """An axis of a new result reaches its index, and the sum of its indices, and no further."""
    match axis:
        case Fixed(int(index)): return size == index + 1
        case Window() if is_unmarked(axis):
            return adds_up(replace(axis, padding=Padding.VALID), size, names, sizes)
        case _: return True


def number(names: Names, name: str) -> int | None:
    """The size of a label, or the number of cells of a row variable; None for what nothing has given a size."""
    row = names.get(f"..{name}")
    if row is not None:
        return prod(axis[0] for axis in row)  # type: ignore[index, misc]
    return size_of(names, name)


class Operation(NamedTuple):
    """`captures` gives names of the spec the number of a capture of the system."""

    logic: Logic
    operands: list[int]
    result: int
    sizes: Mapping[str, int] = {}
    captures: Mapping[str, int] = {}


# --- iterations -------------------------------------------------------------------------------------------------

Cells = tuple[int, ...]
MEMORY_ORDER = (0, 2, 1)


def walk(operation: Operation, rows: Sequence[Rows], names: Names) -> Counter[object] | None:
    """How often each cell of the result is combined with each cell of the operands; None if there are too many."""
    shapes = operation.logic.spec.shapes
    extents: dict[object, int] = {}
    for n, (shape, actual) in enumerate(zip(shapes, rows, strict=True)):
        for k, (_, spec) in enumerate(shape.rows):
            if spec.var is not None:
                extents.update(((spec.var, i), x[0]) for i, x in enumerate(names[f"..{spec.var}"]))  # type: ignore[index, misc]
            for i, axis in enumerate(spec.axes):
                if isinstance(axis, Wild):
                    extents[n, k, i] = actual[k][i if i < len(spec.lead) else i - len(spec.axes)][0] or 0
                for name in axis_labels(axis):
                    extents[name] = size_of(names, name) or 0
    groups = [set(axis_labels(a)) for s in shapes for _, r in s.rows for a in r.axes if isinstance(a, Concat)]
    if len(groups) > 1 or prod(extents.values()) > POINTS:
        return None
    counts: Counter[object] = Counter()
    for alone in groups[0] if groups else [None]:
        off = groups[0] - {alone} if alone is not None else set()
        keys = [key for key in extents if key not in off]
        for values in itertools.product(*(range(extents[key]) for key in keys)):
            at = dict(zip(keys, values, strict=True))
            positions = [cell_of(operation, n, rows[n], at, off, extents) for n in range(len(rows))]
            if positions[-1] is not None and (not off or any(p is not None for p in positions[:-1])):
                counts[positions[-1], tuple(positions[:-1])] += 1
    return counts


def cell_of(
    operation: Operation, n: int, rows: Rows, at: Mapping[object, int], off: set[str], extents: Mapping[object, int]
) -> Cells | None:
    """The cell of one tensor; None where it takes no part."""
    cell: list[int] = []
    stretched = operation.logic.stretched[n] if n < operation.logic.arity else (False, False, False)
    for k in MEMORY_ORDER:
        spec = operation.logic.spec.shapes[n].rows[k][1]
        count = sum(isinstance(key, tuple) and len(key) == 2 and key[0] == spec.var for key in extents)
        index: list[int] = []
        lead = [(i, axis) for i, axis in enumerate(spec.lead)]
        trail = [(i, axis) for i, axis in enumerate(spec.trail, len(spec.lead))]
        for part in (lead, trail):
            for i, axis in part:
                component = axis_index(operation, axis, at, off, extents, (n, k, i))
                if component is None:
                    return None
                index.append(component)
            if part is lead and spec.var is not None:
                index += [at[spec.var, i] for i in range(count)]
        if stretched[k]:
            met = index[len(index) - len(rows[k]) :]
            index = [0 if size == 1 else i for i, (size, _) in zip(met, rows[k], strict=True)]
        cell += index
    return tuple(cell)


def axis_index(
    operation: Operation,
    axis: AxisSpec,
    at: Mapping[object, int],
    off: set[str],
    extents: Mapping[object, int],
    key: object,
) -> int | None:
    match axis:
        case Label(name): return None if name in off else at[name]
        case Wild(): return at[key]
        case Fixed(index): return index if isinstance(index, int) else None
        case Concat(parts):
            start = 0
            for part in parts:
                if isinstance(part, Label) and part.name not in off:
                    return start + at[part.name]
                start += part if isinstance(part, int) else extents[part.name]
            return None
        case Merged(parts):
            flat = 0
            for label in parts:
                flat = flat * extents[label.name] + at[label.name]
            return flat
        case Window(stride, over, padding, offset, dilation, kernel):
            if over in off:
                return None
            stride = operation.sizes[stride] if isinstance(stride, str) else stride
            dilation = operation.sizes[dilation] if isinstance(dilation, str) else dilation
            first = stride * at[over] + offset
            if kernel is None:
                return first
            before = (1 + (extents[kernel] - 1) * dilation) // 2 if padding is Padding.SAME else 0
            return first + dilation * at[kernel] - before
