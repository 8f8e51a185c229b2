"""Distributions of plugins made on the spot: wheels, and folders of modules with the metadata that discovery reads."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from ocannl.backend import discovery, plugin_check, plugin_loader, registry

GOOD = """
    from ocannl.backend import BackendInfo, hookimpl
    {before}
    @hookimpl
    def ocannl_backend({arguments}):
        {inside}
        from ocannl.backend.reference.backend import ReferenceBackend

        return BackendInfo(
            name={name!r}, api_version={api}, description="for tests", priority={priority},
            probe=lambda: {probe}, load={load}{more},
        )
"""


def source(
    name, *, api=1, priority=5, probe=None, load="ReferenceBackend", before="", arguments="", inside="pass", more=""
):
    """The module of a plugin that is fine but for the given details; `probe` and `load` are expressions, `before` and
    `inside` statements before the hook and in it."""
    details = {"name": name, "api": api, "priority": priority, "probe": probe, "load": load}
    return dedent(GOOD).format(**details, before=before, arguments=arguments, inside=inside, more=more)


@pytest.fixture(scope="session", name="source")
def _source():
    return source


def metadata(dist, version, name, module):
    return {
        "METADATA": f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}\n",
        "entry_points.txt": f"[ocannl.backends]\n{name} = {module}\n",
    }


@dataclass
class Site:
    """A folder of installed plugins."""

    folder: Path
    count: int = 0

    def plugin(self, name, text=None, *, dist=None, version="1.0", entry=None, **details) -> str:
        """Installs a plugin for the backend `name`; gives the module's name, used by no other test."""
        self.count += 1
        module = f"plugin_{abs(hash(self.folder)):x}_{self.count}"
        dist = dist or f"plugin-{name}"
        (self.folder / f"{module}.py").write_text(source(name, **details) if text is None else dedent(text))
        info = self.folder / f"{dist.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        for file, content in metadata(dist, version, name, module if entry is None else entry).items():
            (info / file).write_text(content, encoding="utf-8")
        return module


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Nothing but the core and what the test installs."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "__pycache__").mkdir()  # as in most installations; its creation would be a change of the installation
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OCANNL_BACKEND", raising=False)
    monkeypatch.setenv("OCANNL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(plugin_loader, "_infos", {})
    monkeypatch.setattr(registry, "_backends", {})
    monkeypatch.setattr(plugin_check, "_verdicts", {})
    monkeypatch.setattr(registry, "_reported", set())
    ours = set(discovery.DISTRIBUTIONS.values())
    entry_points = discovery.entry_points
    monkeypatch.setattr(discovery, "entry_points", lambda: [e for e in entry_points() if e.distribution not in ours])
    return Site(folder)


def wheel(folder: Path, name: str, text: str, *, dist: str, version: str = "1.0", entry: str = "") -> Path:
    """A wheel as any build tool would make it."""
    module, stem = f"{dist.replace('-', '_')}_module", f"{dist.replace('-', '_')}-{version}"
    files = {f"{module}.py": text} | {
        f"{stem}.dist-info/{file}": content
        for file, content in {
            **metadata(dist, version, name, entry or module),
            "WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }.items()
    }
    record = [f"{stem}.dist-info/RECORD,,"]
    for file, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
        record.append(f"{file},sha256={digest},{len(content.encode())}")
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
        archive.writestr(f"{stem}.dist-info/RECORD", "\n".join(record) + "\n")
    return path


@pytest.fixture(scope="session", name="wheel")
def _wheel():
    return wheel
