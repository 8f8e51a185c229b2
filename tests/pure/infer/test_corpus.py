"""Every system of shapes that was once answered wrongly, replayed; what is still wrong says so in `OPEN`."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.py"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_failure_that_was_found_stays_away(path, net, request):
    case = runpy.run_path(str(path))
    if case["OPEN"]:
        request.applymarker(pytest.mark.xfail(reason=case["OPEN"], strict=True))
    case["replay"](net)
