"""Replays every system of shapes that was once solved incorrectly; `OPEN` describes remaining bugs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.py"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_corpus_case_stays_fixed(path, net, request):
    case = runpy.run_path(str(path))
    if case["OPEN"]:
        request.applymarker(pytest.mark.xfail(reason=case["OPEN"], strict=True))
    case["replay"](net)
