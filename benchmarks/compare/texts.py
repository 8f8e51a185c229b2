"""Texts of reports."""

from __future__ import annotations

from collections.abc import Sequence


def threaded(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def row(texts: Sequence[object]) -> str:
    """A row of a table in Markdown."""
    return "| " + " | ".join(str(text).replace("|", "\\|").replace("\n", " ") for text in texts) + " |"


def rounded(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"
