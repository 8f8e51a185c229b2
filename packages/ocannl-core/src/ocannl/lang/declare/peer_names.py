"""The names of operations in NumPy, PyTorch, JAX and ONNX.

Equivalents take axes by number where ocannl takes a spec, and may differ in defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from ocannl.lang.declare.catalogue import OperationRow
from ocannl.lang.declare.peer_names_table import TABLE

LIBRARIES = ("numpy", "torch", "jax", "onnx")
TITLES = ("NumPy", "PyTorch", "JAX", "ONNX")
PREFIXES = {"numpy": "np.", "torch": "torch.", "jax": "jax.", "onnx": ""}
NONE = "-"


@dataclass(frozen=True, slots=True)
class PeerNames:
    """The names of one operation in other libraries, empty where a library has no equivalent."""

    numpy: str = ""
    torch: str = ""
    jax: str = ""
    onnx: str = ""


@cache
def peer_names() -> dict[str, PeerNames]:
    """The rows of the table, by the name of the operation."""
    rows = [line.split() for line in TABLE.strip().splitlines()]
    return {name: PeerNames(*("" if cell == NONE else cell for cell in cells)) for name, *cells in rows}


def peers(rows: Sequence[OperationRow]) -> str:
    """The table of names for the page of operations."""
    table = peer_names()
    cells = [_cells(row, table.get(row.title, PeerNames())) for row in sorted(rows, key=lambda row: row.title)]
    lines = [["ocannl", *TITLES], ["---"] * (1 + len(TITLES)), *cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(row: OperationRow, peers: PeerNames) -> list[str]:
    return [f"`{row.call}`", *_codes((library, getattr(peers, library)) for library in LIBRARIES)]


def _codes(named: Iterable[tuple[str, str]]) -> list[str]:
    return [f"`{PREFIXES[library]}{name}`" if name else "" for library, name in named]
