"""Pages in headless Chromium, in real time: a page reports by a request to a server of the test."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

REPORT = """
const report = (content) => fetch("/report", { method: "POST", body: JSON.stringify(content) });
window.addEventListener("error", (event) => report({ error: event.message }));
window.addEventListener("unhandledrejection", (event) => report({ error: String(event.reason) }));
"""
"""JavaScript that defines `report`. The policy of a page may have to allow it: `connect-src 'self'`."""


class _Handler(SimpleHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.reports.append(json.loads(self.rfile.read(length)))  # type: ignore[attr-defined]
        self.send_response(204)
        self.end_headers()
        self.server.reported.set()  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[ThreadingHTTPServer]:
    """Context manager of a server of the files in a folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    server.reports, server.reported = [], threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def report_of(
    page: str, folder: Path, profile: Path, *, width: int = 1600, is_dark: bool = False, timeout_s: float = 120
) -> Any:
    """What the page of this name in `folder` reports; `profile` is a folder for the data of the browser."""
    assert BROWSER is not None
    with served(folder) as server:
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        options += [f"--window-size={width},800", "--remote-debugging-port=0"]  # it stays until it is ended
        options += [f"--blink-settings=preferredColorScheme={0 if is_dark else 1}"]
        address = f"http://127.0.0.1:{server.server_address[1]}/{page}"
        with (profile.parent / "browser.log").open("w") as log:
            browser = subprocess.Popen([BROWSER, *options, address], stdout=log, stderr=log)
            try:
                assert server.reported.wait(timeout_s), f"{page} reports nothing"  # type: ignore[attr-defined]
            finally:
                browser.terminate()
                browser.wait(30)
        return server.reports[0]  # type: ignore[attr-defined]
