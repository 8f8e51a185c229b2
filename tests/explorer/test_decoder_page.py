"""The page of a training step of the decoder of the benchmarks: its size, and the time that it takes."""

from __future__ import annotations

import sys
from pathlib import Path
from time import process_time
from typing import Any

import pytest

pytest.importorskip("ocannl_explorer")
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from browser import BROWSER, REPORT, report_of
from compare.models import model
from compare.workloads import WORKLOADS

import ocannl as oc
from ocannl.runtime.program import Program

pytestmark = pytest.mark.slow

MAX_BYTES = 2_000_000
MAX_SECONDS = 1.0  # beyond running the passes of the compiler
MAX_ATTEMPTS = 20  # of processors that other processes share
MAX_ANSWER_MS = 100

ANSWERS = """
(async () => {
  while (!document.body.dataset.ready) await new Promise((done) => setTimeout(done, 5));
  const times = [];
  for (const id of ["source", "tensors", "program", "generated", "costs"]) {
    const lines = [...linesOf(id).querySelectorAll(".line:not(.idle)")];
    for (let n = 0; n < 12; n++) {
      const line = lines[Math.floor((n * lines.length) / 12)], start = performance.now();
      line.click();
      document.body.offsetHeight; // the layout is part of the answer
      times.push(performance.now() - start);
    }
  }
  report(times);
})();
"""


@pytest.fixture(scope="module")
def step() -> Any:
    if not any(row.name == "llvm" and row.usable for row in oc.backends()):
        pytest.skip("the generated code is that of the LLVM backend, which is not installed")
    built = model(WORKLOADS["W5"]())
    ctx = oc.Context("llvm", threads=2)
    ctx.init(built.results[0])
    for tensor, array in built.feeds.items():
        ctx[tensor] = array
    return ctx.compile(built.code, keep=built.results, name="step")


def test_size_and_time(step: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = 0.0
    rebuild = Program.rebuild

    def timed(program: Program, *arguments: Any) -> Any:
        nonlocal passes
        start = process_time()
        try:
            return rebuild(program, *arguments)
        finally:
            passes += process_time() - start

    monkeypatch.setattr(Program, "rebuild", timed)
    beyond = []
    while len(beyond) < MAX_ATTEMPTS and min(beyond, default=MAX_SECONDS + 1) > MAX_SECONDS:
        passes, start = 0.0, process_time()
        path = step.explore(tmp_path / "step.html")
        beyond.append(process_time() - start - passes)
    assert path.stat().st_size <= MAX_BYTES
    assert min(beyond) <= MAX_SECONDS, beyond


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_selections_are_answered_at_once(step: Any, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    page = step.explore(folder / "step.html", profile=step.profile(1))
    assert page.stat().st_size <= MAX_BYTES
    text = page.read_text(encoding="utf-8").replace("default-src 'none'", "default-src 'none'; connect-src 'self'")
    page.write_text(f"{text}<script>{REPORT}{ANSWERS}</script>", encoding="utf-8")
    times = report_of("step.html", folder, tmp_path / "profile")
    # the first lays out the page, and others may be interrupted
    assert len(times) == 60 and sorted(times)[-4] <= MAX_ANSWER_MS, times
