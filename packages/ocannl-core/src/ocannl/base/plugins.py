"""Texts of other distributions, fit for messages."""

from __future__ import annotations

PROJECT = "ocannl"  # project name of the pluggy markers
MAX_CHARACTERS = 600
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def exception_summary(cause: BaseException) -> str:
    """Formats an exception in one line."""
    try:
        text = single_line(str(cause))
    except BaseException:  # of the code of another distribution
        text = "its text cannot be printed"
    return f"{single_line(type(cause).__name__)}: {text}" if text else single_line(type(cause).__name__)


def single_line(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Returns a text of another distribution, fit for a terminal: in one line of bounded length, without control
    characters and marks that change the direction of text."""
    joined = " ".join(text[: 4 * limit].split())
    printable = "".join(character if character.isprintable() else REPLACEMENT for character in joined)
    return printable if len(printable) <= limit else f"{printable[: limit - 4]} ..."
