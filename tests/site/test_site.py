"""The site: its links, its groups, its search, and its pages in Chromium at the width of a telephone."""

from __future__ import annotations

import functools
import json
import os
import re
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from accessibility import PACKAGES, VIOLATIONS, axe_source
from browser import BROWSER, REPORT, report_of

pytest.importorskip("sphinx")
pytest.importorskip("furo")
pytest.importorskip("sklearn")
pytest.importorskip("ocannl_explorer")
pytest.importorskip("ocannl_export")

DOCS = Path(__file__).parents[2] / "docs"
MEASURE = Path(__file__).with_name("measure_pages.html")
MAX_BUILD_SECONDS = 180

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "html"
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(DOCS), str(folder)]
    environment = {**os.environ, "OCANNL_LOG_LEVEL": "warning"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.returncode == 0, result.stderr[-3000:]
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MAX_BUILD_SECONDS
    return folder


class Page(HTMLParser):
    """The targets and the identifiers of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.identifiers: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            elif name == "id" and value:
                self.identifiers.add(value)


def test_no_link_is_broken(site: Path) -> None:
    pages = {path: Page(path) for path in site.glob("*.html") if path.name not in ("explorer.html", "training.html")}
    assert len(pages) > 45
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = path.parent / unquote(parts.path) if parts.path else path
            anchor = unquote(parts.fragment)
            if not file.exists() or (anchor and file in pages and anchor not in pages[file].identifiers | {"", "top"}):
                broken.append(f"{path.name}: {target}")
    assert broken == []


def test_pages_are_grouped(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    captions = re.findall(r'class="caption"[^>]*><span class="caption-text">([^<]*)<', text)
    assert captions == ["Tutorials", "Guide", "How-to guides", "Reference", "Explanation"]
    assert 'class="theme-toggle' in text and 'name="viewport"' in text
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert "backpropag" in index and "transformers" in index


def test_pages_that_programs_write(site: Path) -> None:
    landing = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="explorer.html"' in landing and 'href="training.html"' in landing
    assert "readme.py" not in landing and 'id="data"' in (site / "explorer.html").read_text(encoding="utf-8")
    assert "<title>" in (site / "training.html").read_text(encoding="utf-8")
    for plot in ("tutorial-losses.svg", "tutorial-boundary.svg", "tutorial-transformer.svg"):
        assert "<svg" in (site / plot).read_text(encoding="utf-8")
        assert f'src="{plot}"' in (site / "tutorial.html").read_text(encoding="utf-8")


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_pages_at_360_pixels(site: Path, address: str, tmp_path: Path) -> None:
    """No page is wider than the screen, and text has a contrast of 4.5 in the light and the dark theme."""
    assert BROWSER is not None
    pages = sorted(path.name for path in site.glob("*.html") if path.name != "check.html")
    page = MEASURE.read_text(encoding="utf-8").replace("PAGES", json.dumps(pages))
    (site / "check.html").write_text(page, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    options += ["--window-size=800,1000", "--virtual-time-budget=120000", "--dump-dom"]
    result = subprocess.run([BROWSER, *options, f"{address}/check.html"], capture_output=True, text=True, timeout=300)
    (site / "check.html").unlink()
    match = re.search(r'<pre id="report">(.*?)</pre>', result.stdout, re.DOTALL)
    assert match is not None, result.stdout[-1000:] + result.stderr[-2000:]
    report = json.loads(unescape(match[1]))
    assert list(report) == pages and {page["width"] for page in report.values()} == {360}
    assert {name: page["overflow"] for name, page in report.items() if page["overflow"] > 0} == {}
    assert {name: page["contrasts"] for name, page in report.items() if any(page["contrasts"].values())} == {}


PAGES = ("index.html", "tutorial.html", "interface.html", "inspect.html", "from-pytorch.html", "search.html")

CHECK_RULES = """
(async () => {
  const frame = document.getElementById("frame"), found = {};
  for (const page of PAGES) for (const theme of ["light", "dark"]) {
    await new Promise((done) => { frame.onload = done; frame.src = page; });
    const root = frame.contentDocument;
    root.body.dataset.theme = theme;
    root.head.append(Object.assign(root.createElement("script"), { textContent: SCRIPT }));
    const rules = theme === "dark" ? ["color-contrast", "link-in-text-block"] : null; // the others ignore colors
    found[`${page} ${theme}`] = await violations(root, rules);
  }
  report(found);
})();
"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.skipif(axe_source() is None, reason=f"axe-core is in none of the packages {', '.join(PACKAGES)}")
def test_pages_are_accessible(site: Path, tmp_path: Path) -> None:
    """axe-core finds nothing, in either theme; OCANNL_TEST_PAGES=all checks all pages."""
    pages = sorted(path.name for path in site.glob("*.html"))
    pages = pages if os.environ.get("OCANNL_TEST_PAGES") == "all" else [page for page in PAGES if page in pages]
    names = {"PAGES": pages, "SCRIPT": axe_source()}
    values = "".join(f"const {name} = {json.dumps(value)};" for name, value in names.items()).replace("</", "<\\/")
    frame = '<!doctype html><iframe id="frame" title="page" style="width:1000px;height:800px"></iframe>'
    checks = site / "rules.html"
    checks.write_text(f"{frame}<script>{values}{REPORT}{VIOLATIONS}{CHECK_RULES}</script>", encoding="utf-8")
    try:
        found = report_of(checks.name, site, tmp_path / "profile", timeout_s=600)
    finally:
        checks.unlink()
    assert len(found) == 2 * len(pages)
    assert {page: rules for page, rules in found.items() if rules} == {}
