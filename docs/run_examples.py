"""Run the examples of the README and of the pages: a block of `python` is executed, a block of `pycon` is compared.

The blocks of one page follow one another in one namespace, as they are read.
"""

import doctest
import importlib.util
import re
import sys
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDS = {"onnx.md": "onnx"}  # libraries beyond the locked dependencies; the tests run these pages, too
BLOCK = re.compile(r"^```(python|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> int:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    missing = [page for page, library in NEEDS.items() if importlib.util.find_spec(library) is None]
    for page in missing:
        print(f"docs/{page}: skipped without {NEEDS[page]}")
    pages = [page for page in pages if page.name not in missing]
    return 1 if sum([run(page) for page in pages]) else 0


def run(page: Path) -> int:
    """The number of failed blocks of a page."""
    return execute(page)[0]


def execute(page: Path) -> tuple[int, dict[str, object]]:
    """The number of failed blocks of a page, and the names that its blocks define."""
    text, failed = page.read_text(encoding="utf-8"), 0
    names: dict[str, object] = {"__name__": "__example__"}
    for block in BLOCK.finditer(text):
        kind, code = block.groups()
        line = text.count("\n", 0, block.start()) + 1
        if kind == "python":
            failed += not executes(code, names, page, line)
        else:
            test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
            failed += bool(doctest.DocTestRunner().run(test, clear_globs=False).failed)
            names |= test.globs
    return failed, names


def executes(code: str, names: dict[str, object], page: Path, line: int) -> bool:
    try:
        exec(compile("\n" * line + code, str(page), "exec"), names)  # the padding makes line numbers those of the page
    except Exception:
        print(f"{page.relative_to(ROOT)}:{line}: this example fails", file=sys.stderr)
        traceback.print_exc()
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
