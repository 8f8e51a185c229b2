"""The tree of an expression, annotated with all shapes as far as they are inferred."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterator

from ocannl.base.errors import CodeError
from ocannl.lang.core.tensor import Tensor

TreeLine = tuple[int, str, str, str]  # depth, label, shape, expression


class ShapeTree:
    """An expression tree: text when printed, a table in notebooks. Repeated subtrees are shown once."""

    __slots__ = ("is_displayed", "lines", "title")

    def __init__(self, root: Tensor) -> None:
        self.title = root.label
        self.lines = list(_walk(root))
        self.is_displayed = False

    def __str__(self) -> str:
        left = [f"{'  ' * depth}{label}" for depth, label, _, _ in self.lines]
        first = max(map(len, left))
        second = max(len(shape) for _, _, shape, _ in self.lines)
        text = [
            f"{name:<{first}}  {shape:<{second}}  {expression}".rstrip()
            for name, (_, _, shape, expression) in zip(left, self.lines, strict=True)
        ]
        return "\n".join(text) + "\n"

    def __repr__(self) -> str:
        return f"<shapes of {self.title}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """The table for notebooks; nothing for the value of a cell that has displayed the tree already."""
        return {} if self.is_displayed else {"text/plain": str(self), "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td style="text-align:left;padding-left:{depth}em">{html.escape(label)}</td>'
            f'<td style="text-align:left"><code>{html.escape(shape)}</code></td>'
            f'<td style="text-align:left">{html.escape(expression)}</td></tr>'
            for depth, label, shape, expression in self.lines
        )
        return f"<table><tr><th>tensor</th><th>shape</th><th></th></tr>{rows}</table>"


def _walk(root: Tensor) -> Iterator[TreeLine]:
    seen: set[Tensor] = set()
    stack = [(0, root)]
    while stack:
        depth, t = stack.pop()
        operands = _operands(t)
        is_repeated = t in seen and bool(operands)
        expression = "see above" if is_repeated else t.provenance.expression if operands else t.provenance.role
        yield depth, t.label, t.known_shape or "scalar", expression
        if not is_repeated:
            seen.add(t)
            stack.extend((depth + 1, o) for o in reversed(operands))


def _operands(t: Tensor) -> list[Tensor]:
    """The operands of the expression of a tensor; the application of a composite function is one expression."""
    operands: dict[Tensor, None] = {}
    stack = [t]
    while stack:
        part = stack.pop()
        if part is not t and not _is_same_call(part, t):
            if part.literal is None or t.application is None or part in t.application.operands:
                operands.setdefault(part)
        elif part.application is not None:
            stack.extend(reversed(part.application.operands))
    return list(operands)


def _is_same_call(part: Tensor, root: Tensor) -> bool:
    left, right = part.provenance, root.provenance
    return part.application is not None and (left.expression, left.where) == (right.expression, right.where)


def show_shapes(t: Tensor) -> ShapeTree:
    """Prints the tree of an expression with all shapes as far as inferred, without solving them.

    In a notebook the tree is displayed as a table instead, once.

    Raises: CodeError unless `t` is a tensor.
    """
    if not isinstance(t, Tensor):
        raise CodeError(f"oc.show_shapes takes a tensor, not {t!r}")
    tree = ShapeTree(t)
    if not _display(tree):
        print(tree, end="")
    return tree


def _display(tree: ShapeTree) -> bool:
    """Displays a tree in the notebook that runs this code; False outside notebooks."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if not hasattr(shell, "kernel"):
        return False
    sys.modules["IPython"].display.display(tree)
    tree.is_displayed = True
    return True
