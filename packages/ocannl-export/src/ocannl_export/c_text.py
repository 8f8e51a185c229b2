"""Text of C: string literals, and initializers of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocannl.codegen.c_family.dialect import Dialect
from ocannl.ir.precision import Precision
from ocannl_backend_c.dialect import TYPES

LINE_LENGTH = 100


def c_string(text: bytes) -> str:
    """A string literal of C, in lines."""
    lines, line = [], ""
    for byte in text:
        character = chr(byte)
        if character in '"\\':
            piece = f"\\{character}"
        elif 32 <= byte < 127 and character != "?":
            piece = character
        else:
            piece = f"\\{byte:03o}"
        line += piece
        if len(line) > LINE_LENGTH:
            lines.append(line)
            line = ""
    return "\n".join(f'  "{part}"' for part in [*lines, line])


def cell_text(value: Any, precision: Precision, dialect: Dialect) -> str:
    """The literal of a cell, which is stored as its bits if C lacks its type."""
    if TYPES[precision].startswith("uint") and not precision.name.startswith("uint"):
        return f"0x{int(np.asarray(value).reshape(1).view(f'u{precision.nbytes}')[0]):X}"
    return dialect.literal(value.item(), precision).text


def array_text(values: np.ndarray[Any, Any], precision: Precision, dialect: Dialect) -> str:
    """The initializer of a flat array, in lines."""
    lines, line = list[str](), "  "
    for value in values.reshape(-1):
        piece = f"{cell_text(value, precision, dialect)}, "
        if len(line) + len(piece) > LINE_LENGTH:
            lines.append(line.rstrip())
            line = "  "
        line += piece
    return "\n".join(["{", *lines, line.rstrip(), "}"])
