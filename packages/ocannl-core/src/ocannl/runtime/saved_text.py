"""Text files of a routine: its assignments, the program after each pass, and the generated source."""

from __future__ import annotations

import os
from pathlib import Path

from ocannl.backend.api import Backend, HasSourceSuffix
from ocannl.base.errors import ArgumentError
from ocannl.base.output_files import Writing
from ocannl.ir.printer import print_comp
from ocannl.runtime.program import Program


def save_text(program: Program, backend: Backend, folder: object) -> list[Path]:
    """Writes the text of every stage to a file named after the routine, and thus after the comments of its code.

    The files are `NAME.assignments.txt`, `NAME.00.lower.txt` and so on, and `NAME.c` or the like for the source. The
    folder is created; files of an earlier routine with this name are overwritten.
    """
    if not isinstance(folder, str | os.PathLike):
        raise ArgumentError(f"a folder is a path, not {folder!r}"[:200])
    suffix = backend.source_suffix if isinstance(backend, HasSourceSuffix) else ".txt"
    texts = {"assignments.txt": print_comp(program.comp)}
    texts |= {f"{n:02}.{stage}.txt": text for n, (stage, text) in enumerate(program.stages.items())}
    texts[("source" if suffix == ".txt" else "") + suffix] = program.code.source
    target = Path(folder)
    paths = [target / f"{program.name}{'' if end.startswith('.') else '.'}{end}" for end in texts]
    with Writing(folder, "folder"):
        target.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text, encoding="utf-8")
    return paths
