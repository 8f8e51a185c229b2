"""Text that grows line by line at several insertion points, so that declarations can be added after their uses.

    doc = Document()
    head = doc.section()        # stays open
    doc.line("use of x")
    head.line("definition of x")
    doc.text()                  # definition of x / use of x
"""

from __future__ import annotations

from collections.abc import Iterator

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127)}


def printable(text: str) -> str:
    """Escapes text to one line of printable ASCII, for comments in generated code."""
    return text.encode("ascii", "backslashreplace").decode("ascii").translate(_CONTROLS)


class Document:
    """Lines and sections, in order."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[str | Document] = []

    def line(self, text: str = "") -> None:
        self._parts.append(text)

    def section(self) -> Document:
        """Inserts an empty document at this position; it may grow after later lines were added."""
        inner = Document()
        self._parts.append(inner)
        return inner

    def lines(self) -> Iterator[str]:
        stack = [iter(self._parts)]
        while stack:
            for part in stack[-1]:
                if isinstance(part, Document):
                    stack.append(iter(part._parts))
                    break
                yield part
            else:
                stack.pop()

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines())
