"""Python source files, with highlighted syntax."""

from __future__ import annotations

import html
import linecache
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import PythonLexer

MAX_LINES = 20_000
"""Longer files are shown without highlighting, which takes about 20 us a line."""


def highlighted(lines: Sequence[str], lexer: Lexer) -> list[str]:
    """Returns the lines as HTML; classes of CSS name the kinds of tokens."""
    if len(lines) > MAX_LINES:
        return html.escape("\n".join(lines)).split("\n") if lines else []
    marked: list[str] = highlight("\n".join(lines), lexer, HtmlFormatter(nowrap=True)).split("\n")
    return marked[: len(lines)]


def source_lines(path: str) -> list[str]:
    """The lines of a file, or of a notebook cell, whose source is in the cache of `linecache` only."""
    if os.path.isfile(path):
        return linecache.getlines(path)
    entry = linecache.cache.get(path, ())
    return list(entry[2]) if len(entry) == 4 else []


@dataclass
class SourceFiles:
    """The files of a page, numbered in the order of their first use; files that cannot be read are empty."""

    paths: dict[str, int] = field(default_factory=dict)

    def number(self, path: str) -> int:
        return self.paths.setdefault(path, len(self.paths))

    def names(self) -> list[str]:
        """The names of the files, with as many folders as distinguish files of the same name: `decoder/model.py`."""
        parts = [path.replace("\\", "/").split("/") for path in self.paths]
        depths = [1] * len(parts)
        while True:
            names = ["/".join(part[-depth:]) for part, depth in zip(parts, depths, strict=True)]
            deeper = [
                depth + (names.count(name) > 1 and depth < len(part))
                for name, depth, part in zip(names, depths, parts, strict=True)
            ]
            if deeper == depths:
                return names
            depths = deeper

    def table(self) -> list[tuple[str, list[str]]]:
        """The name and the lines of each file."""
        lexer = PythonLexer(stripnl=False, ensurenl=False)
        return [
            (name, highlighted([line.rstrip("\r\n") for line in source_lines(path)], lexer))
            for name, path in zip(self.names(), self.paths, strict=True)
        ]
