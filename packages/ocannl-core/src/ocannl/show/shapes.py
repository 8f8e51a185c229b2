"""The tree of an expression, with what inference knows of every shape in it."""

from __future__ import annotations

import html
from collections.abc import Iterator

from ocannl.base.errors import CodeError
from ocannl.lang.core.tensor import Tensor

Line = tuple[int, str, str, str]  # depth, label, shape, how it is made


class ShapeTree:
    """Text when printed, a table in notebooks. A tensor that occurs again is shown without what is below it."""

    __slots__ = ("lines", "title")

    def __init__(self, root: Tensor) -> None:
        self.title = root.label
        self.lines = list(_walk(root))

    def __str__(self) -> str:
        left = [f"{'  ' * depth}{label}" for depth, label, _, _ in self.lines]
        first = max(map(len, left))
        second = max(len(shape) for _, _, shape, _ in self.lines)
        text = [
            f"{name:<{first}}  {shape:<{second}}  {made}".rstrip()
            for name, (_, _, shape, made) in zip(left, self.lines, strict=True)
        ]
        return "\n".join(text) + "\n"

    def __repr__(self) -> str:
        return f"<shapes of {self.title}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td style="text-align:left;padding-left:{depth}em">{html.escape(label)}</td>'
            f'<td style="text-align:left"><code>{html.escape(shape)}</code></td>'
            f'<td style="text-align:left">{html.escape(made)}</td></tr>'
            for depth, label, shape, made in self.lines
        )
        return f"<table><tr><th>tensor</th><th>shape</th><th></th></tr>{rows}</table>"


def _walk(root: Tensor) -> Iterator[Line]:
    seen: set[Tensor] = set()
    stack = [(0, root)]
    while stack:
        depth, t = stack.pop()
        operands = _operands(t)
        again = t in seen and bool(operands)
        made = "see above" if again else t.provenance.expression if operands else t.provenance.role
        yield depth, t.label, t.known_shape or "scalar", made
        if not again:
            seen.add(t)
            stack.extend((depth + 1, o) for o in reversed(operands))


def _operands(t: Tensor) -> list[Tensor]:
    """What the expression that gives a tensor is made of; a composed function is one expression."""
    found: dict[Tensor, None] = {}
    stack = [t]
    while stack:
        part = stack.pop()
        if part is not t and not _is_inside(part, t):
            if part.literal is None or t.application is None or part in t.application.operands:
                found.setdefault(part)
        elif part.application is not None:
            stack.extend(reversed(part.application.operands))
    return list(found)


def _is_inside(part: Tensor, whole: Tensor) -> bool:
    one, other = part.provenance, whole.provenance
    return part.application is not None and (one.expression, one.where) == (other.expression, other.where)


def show_shapes(t: Tensor) -> ShapeTree:
    """Prints the tree of an expression with the shapes as far as they are known; solves nothing."""
    if not isinstance(t, Tensor):
        raise CodeError(f"oc.show_shapes takes a tensor, not {t!r}")
    tree = ShapeTree(t)
    print(tree, end="")
    return tree
