"""A cache folder for each test, the setting that recovers from defects, and nothing reported yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ocannl.runtime import compile_cache, recovery


@pytest.fixture(autouse=True)
def recovering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OCANNL_BACKEND", "OCANNL_CACHE", "OCANNL_VERIFY", "OCANNL_AUTOTUNE", "OCANNL_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(recovery, "_reported", {})
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("OCANNL_ON_DEFECT", "recover")  # threads see it as well
    monkeypatch.setenv("OCANNL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("OCANNL_PRECOMPUTE_WEIGHTS", "off")  # defects are seeded in passes of programs with one region
    compile_cache.clear()
    yield
    compile_cache.clear()


@pytest.fixture
def defects(tmp_path: Path) -> Path:
    """The folder of reproducers."""
    return tmp_path / "cache" / "defects"
