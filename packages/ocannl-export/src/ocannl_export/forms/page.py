"""A page of HTML that runs a library: one file, which loads nothing else."""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Sequence
from importlib.resources import files

from ocannl_export.forms.webassembly import binary, module
from ocannl_export.library import Library
from ocannl_export.request import Files, Request
from ocannl_export.targets import TARGETS
from ocannl_export.templates import fill


def page(request: Request) -> Files:
    """The page. It calls a function as often as the user likes, with its symbols counted through their ranges, draws
    the curve of a number and the cells of any array, and lets inputs be painted."""
    library = request.library([TARGETS["wasm32"]])
    return {f"{library.name}.html": page_text(library, *binary(library))}


def page_text(library: Library, code: bytes, imported: Sequence[str]) -> str:
    functions = {f.name: [[s.low, s.high] for s in f.symbols] for f in library.functions}
    numbers = [field.name for field in library.members if field.cells == 1 and field.kind == "output"]
    texts = {
        "MODULE": module(library, imported), "FUNCTION_TABLE": json.dumps(functions),
        "INPUT_TABLE": json.dumps([field.name for field in library.members if field.kind == "input"]),
        "NUMBER": json.dumps(numbers[0] if numbers else ""),
        "BINARY": base64.b64encode(gzip.compress(code, mtime=0)).decode(), "NAME": html.escape(library.name),
    }  # fmt: skip
    text = (files("ocannl_export") / "forms" / "page.html").read_text(encoding="ascii")
    return fill(text, texts)
