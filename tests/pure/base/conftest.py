from __future__ import annotations

import logging

import pytest


@pytest.fixture
def private_cache(tmp_path, monkeypatch):
    """The folder of compiled code in a cache folder for one test."""
    monkeypatch.setenv("OCANNL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("OCANNL_CACHE", raising=False)
    return tmp_path / "cache" / "code"


@pytest.fixture
def warnings(caplog):
    """The messages that were logged."""
    caplog.set_level(logging.WARNING, "ocannl")
    return caplog
