"""Unsized names of a spec: no operand determines their size, so they need a number or an equation.

A label or row variable that occurs only in the result would depend on later uses of the result; a window without a
mark (`o+k`) does not determine its number of positions, and a padded window (`o=+k`) does not determine its length.
"""

from __future__ import annotations

from ocannl.infer.spec import AxisSpec, Margins, Padding, Spec, Window, axis_labels, print_row_var, print_window


def unsized_names(spec: Spec) -> tuple[str, ...]:
    """Labels and row variables that no operand sizes, by first occurrence; empty for leaves, which fit their uses."""
    if not spec.operands:
        return ()
    rows = [row for shape in spec.operands for _, row in shape.rows]
    sized = {row.var for row in rows}
    for axis in (axis for row in rows for axis in row.axes):
        sized.update(sized_by(axis))
    return tuple(name for name in (*spec.labels(), *spec.row_vars()) if name not in sized)


def result_names(spec: Spec) -> set[str]:
    """Labels and row variables of the result: an existing result tensor sizes them."""
    rows = [row for _, row in spec.result.rows]
    labels = {name for row in rows for axis in row.axes for name in axis_labels(axis)}
    return labels | {row.var for row in rows if row.var is not None}


def sized_by(axis: AxisSpec) -> tuple[str, ...]:
    """Labels determined by an axis of known size, if all its other labels are known."""
    match axis:
        case Window(padding=Padding.UNSTATED, kernel=str()):
            return ()
        case Window(padding=Padding.SAME | Margins()):
            return (axis.over,)
        case _:
            return axis_labels(axis)


def is_ellipsis(var: str, text: str) -> bool:
    """True for the row variable of a row's `...`, unless written as `..batch..` and the like."""
    return var.startswith("...") and print_row_var(var) not in text.replace(" ", "")


def missing_size(spec: Spec, name: str) -> tuple[str, str]:
    """Error message and fix for an unsized name."""
    text = spec.text or str(spec)
    if name in spec.row_vars():
        written = "..." if is_ellipsis(name, text) else print_row_var(name)
        problem = f"`{written}` stands only in the result of `{text}`: its axes are not determined"
        return problem, f"write `{written}` in an operand, or leave it out"
    axes = (axis for shape in spec.operands for _, row in shape.rows for axis in row.axes)
    window = next((axis for axis in axes if isinstance(axis, Window) and name in axis_labels(axis)), None)
    if window is None:
        problem = f"`{name}` stands only in the result of `{text}`: its size is not determined"
        return problem, f"give its size, {name}=..., or write `{name}` in an operand"
    problem = f"`{print_window(window)}` does not say how large `{name}` is in `{text}`"
    if window.padding is not Padding.UNSTATED:
        return problem, f"give {name}=..., or write `{name}` in another operand"
    options = [f"`{print_window(window, padding)}`" for padding in (Padding.VALID, Padding.SAME)]
    return (
        problem,
        f"write {options[0]} (windows inside the axis), {options[1]} (padded with zeros), or give {name}=...",
    )
