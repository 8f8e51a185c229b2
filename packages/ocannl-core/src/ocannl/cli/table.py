"""Tables, formatted for terminals or tab-separated for pipes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text


def show(columns: Sequence[str], rows: Sequence[Sequence[str]], unbroken: Sequence[str] = ()) -> None:
    """Prints an aligned table on a terminal, else a line of tab-separated cells for each row. Cells of `unbroken`
    columns take one line."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            print("\t".join(" ".join(cell.split()) for cell in row))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in unbroken)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
