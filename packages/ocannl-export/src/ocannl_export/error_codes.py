"""The error codes of exported functions."""

from __future__ import annotations

ALIGNMENT_BYTES = 64
"""The alignment of the structure and of its arrays, except in ISO C99, which has no word for more than that of the
types."""

CODES = (
    ("OK", "no error"),
    ("NULL_POINTER", "a pointer is null"),
    ("MISALIGNED", "the address of the structure is not a multiple of its alignment"),
    ("OUT_OF_RANGE", "a symbol is out of its range"),
    ("WRONG_SIZE", "the number of bytes is not that of the array"),
    ("SMALL_BUFFER", "the buffer is too small"),
    ("UNKNOWN_ARRAY", "there is no array of this name"),
    ("NOT_SAFETENSORS", "the bytes are no file of safetensors"),
    ("MISSING_ARRAY", "the file lacks an array of the library, or has one of another type or size"),
)
"""The codes of all functions, numbered from 0, and their messages."""


def constant(library: str, name: str) -> str:
    """The name of an error code, or of another constant of a header: `MLP_OK` for `mlp`.

    Libraries whose names differ in case only have different constants: those of `Mlp` and `MLP` are `Mlp_ok` and
    `MLP_ok`.
    """
    return f"{library.upper()}_{name}" if library.islower() else f"{library}_{name.lower()}"
