"""Tensors in notebooks: the name, badges of the shape, the expression and its line, and small data as a picture."""

from __future__ import annotations

from math import prod

from ocannl.base import html_text
from ocannl.infer.tensor_description import Provenance
from ocannl.ir.precision import Precision
from ocannl.ir.tnode import Role, TNode

MAX_CELLS = 1 << 20


def tensor_html(inferred: str | None, dtype: Precision, provenance: Provenance, node: TNode) -> str:
    """Describes a tensor of a shape as far as it is inferred; infers nothing. Data have a picture or a histogram."""
    shape = html_text.badges(inferred) if inferred is not None else "shape pending"
    source = f"{provenance.expression if node.role is Role.RESULT else provenance.role}, {provenance.where}"
    head = html_text.title(provenance.label, str(dtype), source.rstrip(", "))
    return f"{head}<div>{shape}</div>{_picture(inferred, dtype, provenance.label, node)}"


def _picture(inferred: str | None, dtype: Precision, label: str, node: TNode) -> str:
    """A picture of a small matrix or a histogram of constant data."""
    sizes = (inferred or "").replace("->", ",").replace("|", ",").split(",")
    if node.role is not Role.DATA or node.contents is None or not all(size.isdecimal() for size in sizes):
        return ""
    if prod(map(int, sizes)) > MAX_CELLS:
        return ""
    cells = node.contents.array(node.dims, dtype, 0)
    return html_text.picture(cells, label) or html_text.histogram(cells, label)
