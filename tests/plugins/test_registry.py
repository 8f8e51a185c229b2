"""Every way in which a plugin can be absent, broken, old, unusable or in conflict, in one process."""

from __future__ import annotations

import logging
import sys

import pytest

from ocannl.backend import registry
from ocannl.backend.reference import ReferenceBackend
from ocannl.backend.registry import backends, discover, resolve
from ocannl.base.config import use_backend
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
    (found,) = [r for r in backends() if r.name == name]
    return found


def test_the_reference_is_always_there(site):
    assert [r.name for r in backends()] == ["numpy"]
    assert row("numpy").usable and row("numpy").reason is None
    assert row("numpy").distribution == "ocannl-core"
    assert isinstance(resolve(), ReferenceBackend)
    assert resolve("numpy") is resolve()


def test_a_good_plugin_is_listed_and_chosen(site):
    site.plugin("good", dist="some-dist", version="2.3")
    found = row("good")
    assert (found.distribution, found.version, found.usable, found.priority) == ("some-dist", "2.3", True, 5)
    assert resolve("good") is resolve()  # the only compiled one


def test_discovery_imports_nothing(site):
    module = site.plugin("good")
    assert set(discover()) == {"good", "numpy"}
    assert module not in sys.modules
    resolve("numpy")
    assert module not in sys.modules


def test_asking_for_one_imports_only_that_one(site):
    one, other = site.plugin("one"), site.plugin("other", "raise RuntimeError('imported')")
    resolve("one")
    assert one in sys.modules
    assert other not in sys.modules


def test_of_several_the_priority_decides_then_the_name(site):
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


def test_an_unknown_name_lists_what_there_is(site):
    site.plugin("good")
    with pytest.raises(UnknownBackend, match="`nothing`; installed: good, numpy; known, but not installed: c, llvm"):
        resolve("nothing")
    with pytest.raises(UnknownBackend, match="did you mean `good`"):
        resolve("goood")


def test_who_asked_is_named(site, monkeypatch, tmp_path):
    monkeypatch.setenv("OCANNL_BACKEND", "nothing")
    with pytest.raises(UnknownBackend, match=r"`nothing` \(asked for by OCANNL_BACKEND\)"):
        resolve()
    with use_backend("other"), pytest.raises(UnknownBackend, match=r"`other` \(asked for by context manager\)"):
        resolve()
    monkeypatch.delenv("OCANNL_BACKEND")
    (tmp_path / "ocannl.toml").write_text("backend = 'far'")
    with pytest.raises(UnknownBackend, match=r"`far` \(asked for by .*ocannl.toml\)"):
        resolve()


@pytest.mark.parametrize("name", ["llvm", "c", "triton"])
def test_known_but_not_installed_gives_the_pip_line(site, name):
    with pytest.raises(BackendNotInstalled) as caught:
        resolve(name)
    assert str(caught.value) == f"backend `{name}` is not installed; run: pip install ocannl-backend-{name}"


HOOK = "from ocannl.backend import hookimpl\n@hookimpl\ndef ocannl_backend"
OTHER = "\n@hookimpl\ndef ocannl_frontend(): pass"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import no_such_module", "failed with ModuleNotFoundError: No module named 'no_such_module'"),
        ("from ocannl.backend import Nothing", "failed with ImportError: cannot import name 'Nothing'"),
        ("def f(:", "failed with SyntaxError"),
        ("raise SystemExit(3)", "failed with SystemExit: 3"),
        ("x = 1", "implements no hook `ocannl_backend`"),
        (f"{HOOK}(device): pass", "PluginValidationError: .*ocannl_backend"),
        (f"{HOOK}(): return 3{OTHER}", "unknown hook 'ocannl_frontend'"),
        (f"{HOOK}(): return 3", "gives int, not BackendInfo"),
        (f"{HOOK}(): pass", "gives NoneType, not BackendInfo"),
        (f"{HOOK}(): 1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_broken_plugin_is_reported_and_harms_no_other(site, text, says):
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


def test_an_older_plugin_is_to_be_upgraded(site):
    site.plugin("old", api=0, dist="old-dist", version="0.0.9")
    with pytest.raises(
        BackendApiMismatch,
        match=r"`old` of old-dist 0.0.9 is built for version 0 of the plugin interface, ocannl-core .* for version 1;"
        r" run: pip install --upgrade old-dist; these work: numpy",
    ):
        resolve("old")
    assert "version 0" in row("old").reason


def test_a_newer_plugin_wants_a_newer_core(site):
    site.plugin("new", api=2, dist="new-dist")
    with pytest.raises(BackendApiMismatch, match="run: pip install --upgrade ocannl-core"):
        resolve("new")


def test_nothing_heavy_is_loaded_before_the_version_is_checked(site):
    site.plugin("old", api=0, load="1 / 0")  # would raise when loaded, or even when the description is made
    with pytest.raises(BackendError):
        resolve("old")


@pytest.mark.parametrize(
    ("probe", "says"),
    [
        ("'there is no such device'", "there is no such device"),
        ("1 / 0", "its probe failed with ZeroDivisionError: division by zero"),
        ("exit(1)", "its probe failed with SystemExit: 1"),
        ("''", "it does not say why"),
    ],
)
def test_an_unusable_backend_says_why_and_never_falls_back(site, probe, says):
    site.plugin("poor", probe=probe)
    with pytest.raises(BackendUnavailable, match=f"of plugin-poor 1.0 does not work here: {says}; these work: numpy"):
        resolve("poor")
    assert row("poor").reason == says
    assert resolve().name == "numpy"
    with use_backend("poor"), pytest.raises(BackendUnavailable, match="asked for by context manager"):
        resolve()


def test_a_backend_that_fails_to_load(site, caplog):
    site.plugin("lying", load="lambda: 1 / 0")
    with pytest.raises(BackendImportError, match="`lying` .* loading it failed with ZeroDivisionError"):
        resolve("lying")
    with caplog.at_level(logging.WARNING):
        assert resolve().name == "numpy"  # nobody named it
    assert "loading it failed" in caplog.text


def test_two_distributions_with_one_name(site):
    site.plugin("twin", dist="dist-a", version="1.1")
    site.plugin("twin", dist="dist-b", version="2.2")
    with pytest.raises(DuplicateBackend, match=r"`twin` is provided by dist-a 1.1 and dist-b 2.2; uninstall one"):
        resolve("twin")
    found = [r for r in backends() if r.name == "twin"]
    assert [r.distribution for r in found] == ["dist-a", "dist-b"]
    assert not any(r.usable for r in found)
    assert resolve().name == "numpy"


def test_nobody_takes_the_name_of_the_reference(site):
    site.plugin("numpy", dist="imposter")
    assert isinstance(resolve("numpy"), ReferenceBackend)
    builtin, imposter = [r for r in backends() if r.name == "numpy"]
    assert builtin.usable and not imposter.usable
    assert "belongs to ocannl-core" in imposter.reason and "pip uninstall imposter" in imposter.reason


@pytest.mark.parametrize("name", [3, "", True, b"llvm"])
def test_a_name_is_a_text(site, name):
    with pytest.raises(ConfigError, match="a name is wanted"):
        resolve(name)


def test_the_table_of_what_is_known_agrees_with_the_workspace():
    from pathlib import Path

    folders = {p.name for p in (Path(__file__).parents[2] / "packages").glob("ocannl-backend-*")}
    assert set(registry.KNOWN.values()) <= folders | {"ocannl-backend-example"}
