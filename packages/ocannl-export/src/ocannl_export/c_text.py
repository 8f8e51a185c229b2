"""Text of C: string literals, and initializers of arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ocannl.codegen.c_family.dialect import Dialect
from ocannl.ir.precision import Precision
from ocannl_backend_c.dialect import TYPES

LINE_LENGTH = 100
LONGEST_STRING = 4095
"""The length of string literals that ISO C99 requires (5.2.4.1)."""


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


def characters(text: bytes) -> str:
    """The initializer of an array of characters: a string literal, or numbers if ISO C does not require that compilers
    take a literal of this length."""
    if len(text) <= LONGEST_STRING:
        return f"\n{c_string(text)}"
    return _listed(str(byte) if byte < 128 else f"'\\{byte:03o}'" for byte in text)


def cell_text(value: Any, precision: Precision, dialect: Dialect) -> str:
    """The literal of a cell, which is stored as its bits if C lacks its type."""
    if TYPES[precision].startswith("uint") and not precision.name.startswith("uint"):
        return f"0x{int(np.asarray(value).reshape(1).view(f'u{precision.nbytes}')[0]):X}"
    return dialect.literal(value.item(), precision).text


def array_text(values: np.ndarray[Any, Any], precision: Precision, dialect: Dialect) -> str:
    """The initializer of a flat array, in lines."""
    return _listed(cell_text(value, precision, dialect) for value in values.reshape(-1))


def _listed(numbers: Iterable[str]) -> str:
    lines, line = list[str](), "  "
    for number in numbers:
        piece = f"{number}, "
        if len(line) + len(piece) > LINE_LENGTH:
            lines.append(line.rstrip())
            line = "  "
        line += piece
    return "\n".join(["{", *lines, line.rstrip(), "}"])
