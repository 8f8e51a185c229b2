"""Every way in which a plugin can be absent, broken, old, unusable or in conflict, in one process."""

from __future__ import annotations

import logging
import sys

import pytest

from ocannl.backend import plugin_check, plugin_loader, registry
from ocannl.backend.api import API_MINOR, API_VERSION
from ocannl.backend.discovery import DISTRIBUTIONS
from ocannl.backend.reference.backend import ReferenceBackend
from ocannl.backend.registry import backends, discover, resolve
from ocannl.base.config import settings, use_backend
from ocannl.base.errors import (
    BackendApiMismatch,
    BackendError,
    BackendImportError,
    BackendNotInstalled,
    BackendUnavailable,
    ConfigError,
    DuplicateBackend,
    UnknownBackend,
)


def row(name):
    (match,) = [r for r in backends() if r.name == name]
    return match


def test_reference_is_always_available(site):
    assert [r.name for r in backends()] == ["numpy"]
    assert row("numpy").usable and row("numpy").reason is None
    assert row("numpy").distribution == "ocannl-core"
    assert isinstance(resolve(), ReferenceBackend)
    assert resolve("numpy") is resolve()


def test_a_good_plugin_is_listed_and_chosen(site):
    site.plugin("good", dist="some-dist", version="2.3")
    listed = row("good")
    assert (listed.distribution, listed.version, listed.usable, listed.priority) == ("some-dist", "2.3", True, 5)
    assert resolve("good") is resolve()  # the only compiled one


def test_discovery_imports_nothing(site):
    module = site.plugin("good")
    assert set(discover()) == {"good", "numpy"}
    assert module not in sys.modules
    resolve("numpy")
    assert module not in sys.modules


def test_named_backend_imports_no_plugins_besides(site):
    named, unnamed = site.plugin("one"), site.plugin("other", "raise RuntimeError('imported')")
    resolve("one")
    assert named in sys.modules
    assert unnamed not in sys.modules


def test_selection_by_priority_then_name(site):
    site.plugin("b", priority=7)
    site.plugin("a", priority=7)
    site.plugin("z", priority=6)
    site.plugin("y", priority=100, probe="'no such device'")
    assert resolve() is resolve("a")


def test_precedence_of_names(site, monkeypatch, tmp_path):
    for name in ("first", "second", "third", "fourth", "fifth"):
        site.plugin(name, priority=9 if name == "fifth" else 1)
    assert resolve() is resolve("fifth")
    (tmp_path / "ocannl.toml").write_text("backend = 'fourth'")
    assert resolve() is resolve("fourth")
    monkeypatch.setenv("OCANNL_BACKEND", "third")
    assert resolve() is resolve("third")
    with use_backend("second"):
        assert resolve() is resolve("second")
        assert resolve("first") is not resolve()


def test_unknown_name_lists_installed_backends(site):
    site.plugin("good")
    with pytest.raises(UnknownBackend, match="`nothing`; installed: good, numpy; known, but not installed: c, llvm"):
        resolve("nothing")
    with pytest.raises(UnknownBackend, match="did you mean `good`"):
        resolve("goood")


def test_error_names_the_source_of_the_setting(site, monkeypatch, tmp_path):
    monkeypatch.setenv("OCANNL_BACKEND", "nothing")
    with pytest.raises(UnknownBackend, match=r"`nothing` \(requested by OCANNL_BACKEND\)"):
        resolve()
    with use_backend("other"), pytest.raises(UnknownBackend, match=r"`other` \(requested by context manager\)"):
        resolve()
    monkeypatch.delenv("OCANNL_BACKEND")
    (tmp_path / "ocannl.toml").write_text("backend = 'far'")
    with pytest.raises(UnknownBackend, match=r"`far` \(requested by .*ocannl.toml\)"):
        resolve()


@pytest.mark.parametrize("name", ["llvm", "c", "triton"])
def test_backend_not_installed_names_the_pip_command(site, name):
    with pytest.raises(BackendNotInstalled) as caught:
        resolve(name)
    assert str(caught.value) == f"backend `{name}` is not installed; run: pip install ocannl-backend-{name}"


HOOK = "from ocannl.backend import hookimpl\n@hookimpl\ndef ocannl_backend"
UNKNOWN_HOOK = "\n@hookimpl\ndef ocannl_frontend(): pass"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import no_such_module", "failed with ModuleNotFoundError: No module named 'no_such_module'"),
        ("from ocannl.backend import Nothing", "failed with ImportError: cannot import name 'Nothing'"),
        ("def f(:", "failed with SyntaxError"),
        ("raise SystemExit(3)", "failed with SystemExit: 3"),
        ("x = 1", "implements no hook `ocannl_backend`"),
        (f"{HOOK}(device): pass", "PluginValidationError: .*ocannl_backend"),
        (f"{HOOK}(): return 3{UNKNOWN_HOOK}", "unknown hook 'ocannl_frontend'"),
        (f"{HOOK}(): return 3", "gives int, not BackendInfo"),
        (f"{HOOK}(): pass", "gives NoneType, not BackendInfo"),
        (f"{HOOK}(): 1 / 0", "ZeroDivisionError"),
    ],
)
def test_broken_plugin_is_reported_and_isolated(site, text, says):
    site.plugin("good")
    site.plugin("broken", text, dist="bad-dist", version="0.3")
    with pytest.raises(BackendImportError, match=f"(?s)`broken` of bad-dist 0.3 is broken.*{says}.*") as caught:
        resolve("broken")
    assert "pip uninstall bad-dist; these work: good, numpy" in str(caught.value)
    assert row("good").usable
    assert not row("broken").usable and "bad-dist 0.3" in row("broken").reason
    assert resolve() is resolve("good")


@pytest.mark.parametrize(
    ("details", "says"),
    [
        ({"api": "'1'"}, "api_version = '1'"),
        ({"priority": "'high'"}, "priority = 'high'"),
        ({"load": "3"}, "load = 3"),
    ],
)
def test_a_description_is_checked(site, details, says):
    site.plugin("odd", **details)
    with pytest.raises(BackendImportError, match=f"its description has {says}"):
        resolve("odd")
    assert resolve().name == "numpy"


def test_a_backend_has_the_name_of_its_entry_point(site, source):
    site.plugin("outer", source("inner"))
    with pytest.raises(BackendImportError, match="`outer` .* it calls itself `inner`"):
        resolve("outer")


def test_older_plugin_needs_upgrade(site):
    site.plugin("old", api=0, dist="old-dist", version="0.0.9")
    with pytest.raises(
        BackendApiMismatch,
        match=r"`old` of old-dist 0.0.9 is built for version 0 of the plugin interface, ocannl-core .* for version 1;"
        r" run: pip install --upgrade old-dist; these work: numpy",
    ):
        resolve("old")
    assert "version 0" in row("old").reason


def test_newer_plugin_needs_newer_core(site):
    site.plugin("new", api=2, dist="new-dist")
    with pytest.raises(BackendApiMismatch, match="run: pip install --upgrade ocannl-core"):
        resolve("new")


def test_plugin_that_needs_a_newer_minor_version(site):
    newer = f"{API_VERSION}.{API_MINOR + 1}"
    site.plugin("ahead", more=f", api_minor={API_MINOR + 1}", dist="ahead-dist")
    has = rf"ocannl-core .* has {API_VERSION}.{API_MINOR}; .* --upgrade ocannl-core"
    says = f"ahead-dist 1.0 needs version {newer} of the plugin interface, {has}"
    with pytest.raises(BackendApiMismatch, match=says):
        resolve("ahead")
    assert f"needs version {newer}" in row("ahead").reason


def test_version_is_checked_before_loading(site):
    site.plugin("old", api=0, load="1 / 0")  # would raise when loaded, or even when the description is made
    with pytest.raises(BackendError):
        resolve("old")


@pytest.mark.parametrize(
    ("probe", "says"),
    [
        ("'there is no such device'", "there is no such device"),
        ("''", "it gives no reason"),
    ],
)
def test_unusable_backend_raises_without_fallback(site, probe, says):
    site.plugin("poor", probe=probe)
    with pytest.raises(BackendUnavailable, match=f"of plugin-poor 1.0 does not work here: {says}; these work: numpy"):
        resolve("poor")
    assert row("poor").reason == says
    assert resolve().name == "numpy"
    with use_backend("poor"), pytest.raises(BackendUnavailable, match="requested by context manager"):
        resolve()


@pytest.mark.parametrize(
    ("probe", "says"),
    [
        ("1 / 0", "its probe failed with ZeroDivisionError: division by zero"),
        ("exit(1)", "its probe failed with SystemExit: 1"),
        ("True", "its probe gives True, not None or the reason why it does not work"),
    ],
)
def test_a_backend_whose_probe_fails_is_broken(site, probe, says):
    site.plugin("poor", probe=probe)
    with pytest.raises(BackendImportError, match=f"of plugin-poor 1.0 is broken: {says}.*; these work: numpy"):
        resolve("poor")
    assert says in row("poor").reason
    assert resolve().name == "numpy"


def test_a_backend_that_fails_to_load(site, caplog):
    site.plugin("lying", load="lambda: 1 / 0")
    with pytest.raises(BackendImportError, match="`lying` .* loading it failed with ZeroDivisionError"):
        resolve("lying")
    with caplog.at_level(logging.WARNING):
        assert resolve().name == "numpy"  # nobody named it
    assert "loading it failed" in caplog.text


def test_duplicate_backend_names(site):
    site.plugin("twin", dist="dist-a", version="1.1")
    site.plugin("twin", dist="dist-b", version="2.2")
    with pytest.raises(DuplicateBackend, match=r"`twin` is provided by dist-a 1.1 and dist-b 2.2; uninstall one"):
        resolve("twin")
    rows = [r for r in backends() if r.name == "twin"]
    assert [r.distribution for r in rows] == ["dist-a", "dist-b"]
    assert not any(r.usable for r in rows)
    assert resolve().name == "numpy"


def test_name_of_the_reference_is_reserved(site):
    site.plugin("numpy", dist="imposter")
    assert isinstance(resolve("numpy"), ReferenceBackend)
    builtin, imposter = [r for r in backends() if r.name == "numpy"]
    assert builtin.usable and not imposter.usable
    assert "belongs to ocannl-core" in imposter.reason and "pip uninstall imposter" in imposter.reason


@pytest.mark.parametrize("name", [3, "", True, b"llvm"])
def test_a_name_is_a_text(site, name):
    with pytest.raises(ConfigError, match="expected a name"):
        resolve(name)


def test_distribution_table_matches_the_workspace():
    from pathlib import Path

    folders = {p.name for p in (Path(__file__).parents[2] / "packages").glob("ocannl-backend-*")}
    assert set(DISTRIBUTIONS.values()) <= folders | {"ocannl-backend-example"}


# ------------------------------------------------------------------------------------------ versions meeting each other


def test_plugin_may_omit_hook_arguments(site):
    site.plugin("asking", arguments="api_version", inside="assert api_version == 1", api="api_version")
    site.plugin("plain")
    assert row("asking").usable and row("plain").usable
    assert resolve("asking") and resolve("plain")


def test_plugin_with_several_versions_uses_the_core_version(site, monkeypatch):
    site.plugin("both", arguments="api_version", api="min(api_version, 2)")
    site.plugin("one", dist="one-dist")
    monkeypatch.setattr(plugin_loader, "API_VERSION", 2)
    assert resolve("both") and resolve("one")  # within the window of versions
    monkeypatch.setattr(plugin_loader, "OLDEST_API_VERSION", 2)
    monkeypatch.setattr(plugin_loader, "_infos", {})
    monkeypatch.setattr(registry, "_backends", {})
    assert resolve("both")
    says = "for version 1 .* for version 2; run: pip install --upgrade one-dist"
    with pytest.raises(BackendApiMismatch, match=says):
        resolve("one")


def test_older_plugin_with_newer_interface(site, monkeypatch):
    """What a newer core would have: another argument of the hook, and another field, which has a default."""
    from dataclasses import dataclass

    import pluggy

    import ocannl.backend

    class Hooks:
        @pluggy.HookspecMarker("ocannl")(firstresult=True)
        def ocannl_backend(self, api_version, machine=None):
            """Newer."""

    @dataclass(frozen=True, slots=True)
    class Info(plugin_loader.BackendInfo):
        homepage: str = ""

    monkeypatch.setattr(plugin_loader, "BackendHooks", Hooks)
    monkeypatch.setattr(ocannl.backend, "BackendInfo", Info)
    site.plugin("older")
    site.plugin("newer", more=", homepage='https://example.org'")
    assert resolve("older") and resolve("newer")


@pytest.mark.parametrize(
    ("details", "says"),
    [
        ({"more": ", homepage='x'"}, "unexpected keyword argument 'homepage'"),
        ({"arguments": "api_version, machine"}, "machine"),
    ],
)
def test_newer_plugin_with_unknown_fields_or_arguments_raises(site, details, says):
    site.plugin("newer", **details)
    with pytest.raises(BackendImportError, match=f"(?s){says}.*these work: numpy"):
        resolve("newer")


# --------------------------------------------------------------------------------------------------- what is found


@pytest.mark.parametrize("name", ["my own", "π", "[red]", "--limit", "../up", "a:b", "%s{0}", "x" * 300, "'\"`$(id)"])
def test_names_are_plain_words(site, name):
    module = site.plugin(name, dist="odd-dist", priority=99)
    (listed,) = [r for r in backends() if r.distribution == "odd-dist"]
    assert not listed.usable and "a name has up to 64 letters, digits and `_ . -`" in listed.reason
    assert len(listed.name) <= 64
    with pytest.raises(BackendError):
        resolve(name)
    assert resolve().name == "numpy"
    assert module not in sys.modules


@pytest.mark.parametrize(
    "value", ["", "no module!", ":", "a:", "os.path:nothing", "..", "json:dumps", "ocannl.nothing"]
)
def test_entry_point_without_module(site, value):
    site.plugin("good")
    site.plugin("stray", entry=value, dist="stray-dist")
    with pytest.raises(BackendImportError, match="`stray` of stray-dist 1.0 is broken"):
        resolve("stray")
    assert not row("stray").usable and row("good").usable
    assert resolve() is resolve("good")


DAMAGE = {
    "no equals sign": ("entry_points.txt", b"[ocannl.backends]\nnothing\n"),
    "no text": ("entry_points.txt", b"[ocannl.backends]\nx = \xff\xfe\n"),
    "control character": ("entry_points.txt", b"[ocannl.backends]\nx\x00y = z\n"),
    "escape": ("entry_points.txt", b"[ocannl.backends]\nx\x1b[31my = z\n"),
    "no metadata": ("METADATA", None),
    "empty metadata": ("METADATA", b""),
    "metadata is no text": ("METADATA", b"Name: \xff\n"),
    "no version": ("METADATA", b"Metadata-Version: 2.1\nName: damaged\n"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_metadata_is_isolated(site, kind):
    site.plugin("good", priority=9)
    site.plugin("damaged", dist="damaged")
    file, content = DAMAGE[kind]
    path = site.folder / "damaged-1.0.dist-info" / file
    path.unlink() if content is None else path.write_bytes(content)
    assert row("good").usable and row("numpy").usable
    assert resolve() is resolve("good")


def test_first_distribution_of_a_name_takes_precedence(site, tmp_path, monkeypatch):
    site.plugin("good", dist="The.Dist", version="1.0")
    shadowing = type(site)(tmp_path / "first")
    shadowing.folder.mkdir()
    monkeypatch.syspath_prepend(shadowing.folder)
    shadowing.plugin("good", dist="the-dist", version="2.0")
    assert row("good").version == "2.0" and row("good").usable


# ------------------------------------------------------------------------------------------------- what is harmless


@pytest.mark.slow
@pytest.mark.parametrize(
    "raised", ["SystemExit(2)", "GeneratorExit", "BaseException('odd')", "BaseExceptionGroup('g', [SystemExit()])"]
)
def test_exceptions_of_a_named_plugin_are_reported(site, raised):
    for where, details in {
        "hook": {"inside": f"raise {raised}"},
        "module": {"before": f"raise {raised}"},
        "load": {"load": f"lambda: (_ for _ in ()).throw({raised})"},
    }.items():
        site.plugin(where, **details)
        with pytest.raises(BackendImportError, match=f"`{where}` .* failed with {raised.partition('(')[0]}"):
            resolve(where)


DYING = {
    "module": {"before": "import os; os.abort()"},
    "hook": {"inside": "import os; os._exit(0)"},
    "probe": {"probe": "__import__('os').kill(__import__('os').getpid(), 9)"},
    "interrupt": {"inside": "raise KeyboardInterrupt"},
}


@pytest.mark.parametrize("where", DYING)
def test_crashing_plugin_is_skipped(site, where, caplog):
    site.plugin("good", priority=1)
    site.plugin("dying", dist="dying-dist", priority=100, **DYING[where])
    with caplog.at_level(logging.WARNING, "ocannl"):
        assert resolve() is resolve("good")
        assert not row("dying").usable and row("good").usable
        assert resolve() is resolve("good")
    assert len([r for r in caplog.records if "run: pip uninstall dying-dist" in r.getMessage()]) == 1  # told once


@pytest.mark.slow
def test_verdicts_are_cached_until_installation_changes(site, monkeypatch):
    checked = []
    run_isolated = plugin_check.run_isolated

    def watched(function, arguments, limit_seconds):
        checked.extend(arguments)
        return run_isolated(function, arguments, limit_seconds)

    monkeypatch.setattr(plugin_check, "run_isolated", watched)

    def ask():  # as a new process would
        monkeypatch.setattr(plugin_check, "_verdicts", {})
        checked.clear()
        backends()
        return [name for name, *_ in checked]

    module = site.plugin("good")
    assert ask() == ["good"]
    assert ask() == []
    site.plugin("other")
    assert sorted(ask()) == ["good", "other"]
    assert ask() == []
    (site.folder / f"{module}.py").touch()
    assert ask() == ["good"]
    with settings(cache=False):
        assert sorted(ask()) == ["good", "other"]
    for record in (site.folder.parent / "cache" / "plugins").rglob("*.*"):
        record.write_bytes(b"\xff")
    assert sorted(ask()) == ["good", "other"]
    assert ask() == []
