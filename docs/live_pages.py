"""Pages and pictures of the site that programs write: the explorer of the README's example, the training page of an
exported network, and the plots of the tutorial. `conf.py` calls `write` at the end of the build.
"""

from __future__ import annotations

import doctest
import html
import importlib.util
import logging
import runpy
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import run_examples

import ocannl as oc

ROOT = Path(__file__).resolve().parent.parent
EXPORTED = ROOT / "examples" / "export_digits.py"


def write(folder: Path) -> None:
    """Writes all pages of the table, and the plots of the tutorial."""
    logging.getLogger("ocannl").setLevel(logging.WARNING)  # Sphinx would print the messages about compiled routines
    for name, writer in PAGES.items():
        writer(folder / name)
    write_plots(folder)


def explorer(path: Path) -> None:
    """The routine of the README's example, whose statements are written to a script, so that the page shows it."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = next(block for block in run_examples.BLOCK.finditer(readme) if block[1] == "pycon")
    source = "".join(example.source for example in doctest.DocTestParser().get_examples(block[2]))
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "readme.py"
        script.write_text(source, encoding="utf-8")
        step = runpy.run_path(str(script))["step"]
        oc.explore(step, path, profile=step.profile(20))


def training(path: Path) -> None:
    """A page that trains a network on handwritten digits; without the compiler for WebAssembly, the reason."""
    if importlib.util.find_spec("ziglang") is None:
        reason = "The site was built without the wheel ziglang, which compiles the training page to WebAssembly."
        path.write_text(notice("Training in the browser", reason), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "digits.html"
        oc.export(path=page, **runpy.run_path(str(EXPORTED))["make"]())
        shutil.copyfile(page, path)


def notice(title: str, text: str) -> str:
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    page = f'<!doctype html><html lang="en"><head>{head}<title>{html.escape(title)}</title></head>'
    return f"{page}<p>{html.escape(text)}</p></html>"


def write_plots(folder: Path) -> None:
    """The plots that the examples of the tutorial draw to their folder."""
    failed, names = run_examples.execute(ROOT / "docs" / "tutorial.md")
    if failed:
        raise RuntimeError(f"{failed} examples of the tutorial fail")
    for plot in sorted(Path(str(names["folder"])).glob("*.svg")):
        shutil.copyfile(plot, folder / plot.name)


PAGES: dict[str, Callable[[Path], None]] = {"explorer.html": explorer, "training.html": training}
