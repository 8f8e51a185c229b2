"""`ocannl profile`: the times of the loop nests of a routine, as a tree, a table and a flame view."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ocannl.cli.script import RoutineName, Source, named_routine, profile_of
from ocannl.runtime.profile import Profile, ProfileRow

COLUMNS = ("nest", "median us", "share", "read bytes", "written bytes", "GB/s")
COLORS = ("red", "dark_orange", "yellow4", "green4", "dark_cyan", "blue", "purple")
MIN_LABEL_CELLS = 3


def register(app: typer.Typer) -> None:
    app.command("profile")(command)


def command(
    function: Source,
    routine_name: RoutineName = None,
    calls: Annotated[int, typer.Option("--calls", "-n", min=1, help="The number of measured calls.")] = 10,
    trace: Annotated[Path | None, typer.Option("--trace", help="Also write a trace for Perfetto to this file.")] = None,
) -> None:
    """Measure the loop nests of a routine, and show them by headings, with a flame view of a call.

    Runs a script, and measures the routine with the most work of those that it compiles, or the one called `--routine`.
    Of MODULE:FUNCTION, imports the module, from the current folder too, or a file named as FILE.py:FUNCTION, and calls
    the function. The symbols of the routine have the values of its last call in the script. Arrays that it writes are
    restored afterwards.
    """
    profile = profile_of(named_routine(function, routine_name), calls)
    if trace is not None:
        profile.chrome_trace(trace)
    if sys.stdout.isatty():
        Console().print(view(profile, Console().width))
    else:
        print(profile)


def view(profile: Profile, width: int) -> RenderableType:
    """The heading, the flame view, and the tree with its table."""
    head = Text(
        f"{profile.routine} on {profile.backend}: a call takes {_us(profile.call_ns)} us, its nests "
        f"{_us(profile.nests_ns)} us (medians of {profile.calls} calls)"
    )
    return Group(head, Text(), *flame(profile, width), Text(), tree(profile))


def flame(profile: Profile, width: int) -> Iterator[Text]:
    """Two lines of bars, as wide as their times: the headings, and the nests below them."""
    blocks = list(by_heading(profile.rows))
    yield _bars([(heading or profile.routine, sum(row.median_ns for row in rows)) for heading, rows in blocks], width)
    yield _bars([(row.name, row.median_ns) for _, rows in blocks for row in rows], width)


def tree(profile: Profile) -> Tree:
    """The headings, each with a table of its nests."""
    root = Tree(Text(profile.routine, style="bold"))
    for heading, rows in by_heading(profile.rows):
        total = sum(row.median_ns for row in rows)
        text = f"{heading or profile.routine}  {_us(total)} us  {_share(total, profile)}"
        root.add(Text(text, style="bold")).add(_table(rows, profile))
    return root


def by_heading(rows: Sequence[ProfileRow]) -> Iterator[tuple[str, list[ProfileRow]]]:
    """Consecutive rows with the same heading, in program order."""
    block: list[ProfileRow] = []
    for row in rows:
        if block and block[-1].heading != row.heading:
            yield block[-1].heading, block
            block = []
        block.append(row)
    if block:
        yield block[-1].heading, block


def _table(rows: Sequence[ProfileRow], profile: Profile) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for n, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if n == 0 else "right", overflow="fold")
    for row in rows:
        throughput = f"{row.bytes_per_second / 1e9:.2f}" if row.median_ns else "-"
        cells = (_us(row.median_ns), _share(row.median_ns, profile), f"{row.read_bytes:,}", f"{row.written_bytes:,}")
        table.add_row(Text(row.name), *cells, throughput)
    return table


def _bars(parts: Sequence[tuple[str, int]], width: int) -> Text:
    """A line of labelled bars; their widths add up to the line, by rounding the sums of times."""
    total = sum(ns for _, ns in parts) or 1
    line, elapsed, begin = Text(), 0, 0
    for n, (label, ns) in enumerate(parts):
        elapsed += ns
        end = round(width * elapsed / total)
        cells = end - begin
        text = label[:cells] if cells >= MIN_LABEL_CELLS else ""
        line.append(text.ljust(cells), style=f"white on {COLORS[n % len(COLORS)]}")
        begin = end
    return line


def _us(ns: int) -> str:
    return f"{ns / 1e3:.1f}"


def _share(ns: int, profile: Profile) -> str:
    return f"{100 * ns / (profile.nests_ns or 1):.0f} %"
