"""The page: one file of HTML with its style, script and compressed data."""

from __future__ import annotations

import base64
import gzip
import html
import json
from importlib.resources import files
from typing import Any


def html_page(data: dict[str, Any]) -> str:
    folder = files("ocannl_explorer") / "page"
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 3, mtime=0)
    parts = {
        "TITLE": html.escape(f"{data['routine']} on {data['backend']}"),
        "STYLE": (folder / "style.css").read_text(encoding="utf-8"),
        "SCRIPT": (folder / "script.js").read_text(encoding="utf-8"),
        "DATA": base64.b64encode(packed).decode(),
    }
    text = (folder / "page.html").read_text(encoding="utf-8")
    before = text.split("@@")
    return "".join(parts[part] if n % 2 else part for n, part in enumerate(before))
