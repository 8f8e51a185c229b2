"""Entry points of installed distributions, and the cache of what a folder announces."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ocannl.base import entry_points as module
from ocannl.base.disk_cache import Cache, Record
from ocannl.base.entry_points import EntryPoint, entry_points

GROUP = "ocannl.tests"
PAST_SECONDS = 3600.0


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setenv("OCANNL_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder)])
    return folder


def install(site: Path, dist: str, text: str, *, version: str = "1.0") -> Path:
    info = site / f"{dist}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(text)
    return info


def settle(site: Path, age: float = PAST_SECONDS) -> None:
    """Gives the folder an earlier time, since one that has just changed may change again in the same tick."""
    past = site.stat().st_mtime - age
    os.utime(site, (past, past))


def announced() -> list[str]:
    return [f"{entry.owner} {entry.name}={entry.value}" for entry in entry_points(GROUP)]


def refuse_scans(monkeypatch) -> None:
    def scanned(folder):
        raise AssertionError(f"the metadata in {folder} is read although nothing has changed")

    monkeypatch.setattr(module, "_scanned", scanned)


def test_entry_points_of_an_unchanged_folder_are_read_once(site, monkeypatch):
    info = install(site, "dist-a", f"[{GROUP}]\nx = json:loads\n[other]\ny = json\n[ocannl.more]\nz = json\n")
    settle(site)
    expected = [EntryPoint(GROUP, "x", "json:loads", "dist-a", "1.0", str(info))]
    assert entry_points(GROUP) == expected
    refuse_scans(monkeypatch)
    assert entry_points(GROUP) == expected and entry_points("ocannl.more")[0].name == "z"
    assert entry_points(GROUP)[0].load()("[1]") == [1]


def test_a_folder_that_has_just_changed_is_read_again(site, monkeypatch):
    install(site, "dist-a", f"[{GROUP}]\nx = json\n")
    assert announced() == ["dist-a 1.0 x=json"]
    refuse_scans(monkeypatch)
    with pytest.raises(AssertionError, match="is read although"):
        entry_points(GROUP)


def test_changes_of_installations_are_noticed(site):
    first = install(site, "dist-a", f"[{GROUP}]\nx = json\n")
    settle(site)
    assert announced() == ["dist-a 1.0 x=json"]
    (first / "entry_points.txt").write_text(f"[{GROUP}]\nx = decimal\n")  # in place
    assert announced() == ["dist-a 1.0 x=decimal"]
    second = install(site, "dist-b", f"[{GROUP}]\ny = json\n")
    settle(site, 2 * PAST_SECONDS)
    assert sorted(announced()) == ["dist-a 1.0 x=decimal", "dist-b 1.0 y=json"]
    (second / "METADATA").write_text("Metadata-Version: 2.1\nName: dist-b\nVersion: 1.1\n")
    assert sorted(announced()) == ["dist-a 1.0 x=decimal", "dist-b 1.1 y=json"]
    for file in first.iterdir():
        file.unlink()
    first.rmdir()
    settle(site, 3 * PAST_SECONDS)
    assert announced() == ["dist-b 1.1 y=json"]


def test_damaged_metadata_is_reported_by_each_process(site, monkeypatch, caplog):
    install(site, "dist-a", f"[{GROUP}]\nx = json\n")
    info = install(site, "dist-b", f"[{GROUP}]\ny = json\n")
    (info / "METADATA").write_text("")
    settle(site)
    assert announced() == ["dist-a 1.0 x=json"]
    refuse_scans(monkeypatch)
    caplog.clear()
    assert announced() == ["dist-a 1.0 x=json"]
    assert "is no name of a distribution" in caplog.text


@pytest.mark.parametrize("tree", [b"{}", b'{"entries": [[1]], "problems": [], "states": []}', b'{"states": 3}'])
def test_damaged_records_are_not_used(site, monkeypatch, tree):
    install(site, "dist-a", f"[{GROUP}]\nx = json\n")
    settle(site)
    monkeypatch.setattr(Cache, "load", lambda self, key: Record(json.loads(tree), b""))
    assert announced() == ["dist-a 1.0 x=json"]


def test_other_finders_of_distributions_are_always_asked(site, monkeypatch):
    class Finder:
        asked = 0

        def find_spec(self, name, path=None, target=None):
            return None

        def find_distributions(self, context=None):
            self.asked += 1
            return iter(())

    finder = Finder()
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    install(site, "dist-a", f"[{GROUP}]\nx = json\n")
    settle(site)
    assert announced() == announced() == ["dist-a 1.0 x=json"]
    assert finder.asked == 2
