"""Settings that other distributions declare: their names are read from metadata, and they are checked like others."""

from __future__ import annotations

import logging
import sys
from textwrap import dedent

import numpy as np
import pytest
from typer.testing import CliRunner

import ocannl as oc
from ocannl.backend import registry
from ocannl.base import config, plugin_settings, settings_files
from ocannl.base.errors import ConfigError, PluginError
from ocannl.cli.app import build
from ocannl.runtime import compile_cache

MODULE = """
    from ocannl.backend import ConfigSetting
    from ocannl.base.setting_types import choice, natural

    ROUNDING = ConfigSetting("fast_rounding", choice("even", "odd"), "even", "how sums are rounded", changes_code=True)
    TILES = ConfigSetting("fast_tiles", natural(1, 64), 8, "number of tiles", custom="FAST_TILES")
    MISNAMED = ConfigSetting("fast_other", natural(1), 8, "has another name than its entry point")
"""


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / "config"))
    monkeypatch.setattr(plugin_settings, "_settings", {})
    monkeypatch.setattr(plugin_settings, "_warned", set())
    plugin_settings._code_settings.cache_clear()
    yield
    plugin_settings._code_settings.cache_clear()


@pytest.fixture
def declare(site, monkeypatch):
    """Installs a distribution that announces settings; returns the name of its module."""

    def install(announced, text=MODULE, dist="fast-sums"):
        site.count += 1
        module = f"settings_{abs(hash(site.folder)):x}_{site.count}"
        (site.folder / f"{module}.py").write_text(dedent(text))
        info = site.folder / f"{dist.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
        lines = [f"{name} = {module}:{attribute}\n" for name, attribute in announced.items()]
        (info / "entry_points.txt").write_text("[ocannl.settings]\n" + "".join(lines))
        monkeypatch.delitem(sys.modules, module, raising=False)
        return module

    return install


@pytest.fixture
def fast(declare):
    return declare({"fast_rounding": "ROUNDING", "fast_tiles": "TILES"})


def test_setting_has_the_sources_of_builtin_settings(fast, monkeypatch, tmp_path):
    module = __import__(fast)
    tiles = module.TILES
    assert tiles.get() == 8
    monkeypatch.setenv("FAST_TILES", "2")
    assert tiles.resolve() == config.Resolved(2, "FAST_TILES")
    path = settings_files.user_config_folder() / "ocannl.toml"
    path.parent.mkdir(parents=True)
    path.write_text("fast_tiles = 3")
    assert tiles.resolve() == config.Resolved(3, str(path))
    monkeypatch.setenv("OCANNL_FAST_TILES", "4")
    assert tiles.resolve() == config.Resolved(4, "OCANNL_FAST_TILES")
    with oc.settings(fast_tiles=5):
        assert tiles.resolve() == config.Resolved(5, "context manager")
    with pytest.raises(ConfigError, match="fast_tiles = 65, from context manager: expected an integer of at most 64"):
        oc.settings(fast_tiles=65)
    with pytest.raises(ConfigError, match="fast_rounding = 'up', from context manager: expected one of even, odd"):
        oc.settings(fast_rounding="up")


def test_names_are_known_without_import(fast, monkeypatch, tmp_path):
    (tmp_path / "ocannl.toml").write_text("seed = 3\nfast_tiles = 2\n")
    monkeypatch.setenv("OCANNL_FAST_ROUNDING", "odd")
    assert config.SEED.get() == 3
    assert "OCANNL_FAST_ROUNDING" not in config.check()
    oc.Context("numpy")
    assert fast not in sys.modules


def test_misspelt_names_are_answered(fast, monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match="unknown setting `fast_tile` .*did you mean `fast_tiles`"):
        oc.settings(fast_tile=2)
    monkeypatch.setenv("OCANNL_FAST_TILE", "2")
    with pytest.raises(ConfigError, match="did you mean `OCANNL_FAST_TILES`"):
        config.check()
    (tmp_path / "ocannl.toml").write_text("fast_tile = 2\n")
    with pytest.raises(ConfigError, match="unknown setting `fast_tile` .*did you mean `fast_tiles`"):
        config.SEED.get()


def test_project_file_needs_trust(fast, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(settings_files, "_warned", set())
    tiles = __import__(fast).TILES
    (tmp_path / "ocannl.toml").write_text("fast_tiles = 2\n")
    with caplog.at_level(logging.WARNING):
        assert tiles.get() == 8
    assert f"ocannl config trust {tmp_path}" in caplog.text
    settings_files.trust(tmp_path)
    assert tiles.get() == 2


def test_listed_by_the_command_and_broken_ones_are_named(declare, caplog):
    declare({"fast_tiles": "TILES", "slow_tiles": "MISSING", "fast_third": "MISNAMED"})
    with caplog.at_level(logging.WARNING):
        result = CliRunner().invoke(build(), ["config"])
    assert result.exit_code == 0 and "fast_tiles = 8" in result.output
    assert "the setting `slow_tiles` of fast-sums 1.0 is broken: its import failed with AttributeError" in caplog.text
    assert "the setting `fast_third` of fast-sums 1.0 is broken" in caplog.text and "not a ConfigSetting" in caplog.text
    with pytest.raises(PluginError, match="`slow_tiles` of fast-sums 1.0 is broken.*pip uninstall fast-sums"):
        oc.settings(slow_tiles=3)


@pytest.mark.parametrize("statement", ["raise SystemExit(3)", "raise RuntimeError('broken')", "1 +", "import absent"])
def test_modules_that_cannot_be_imported(declare, statement, caplog):
    declare({"fast_tiles": "TILES"}, statement)
    with pytest.raises(PluginError, match="`fast_tiles` of fast-sums 1.0 is broken: its import failed with"):
        oc.settings(fast_tiles=3)
    assert CliRunner().invoke(build(), ["config"]).exit_code == 0


def test_import_has_a_time_limit(declare, monkeypatch):
    monkeypatch.setattr(plugin_settings, "IMPORT_SECONDS", 0.2)
    declare({"fast_tiles": "TILES"}, "import time\ntime.sleep(60)")
    with pytest.raises(PluginError, match="its import did not end within 0.2 seconds"):
        oc.settings(fast_tiles=3)


def test_names_that_collide_or_are_invalid(declare, caplog):
    declare({"seed": "TILES", "Fast Tiles": "TILES", "fast_tiles": "TILES"})
    declare({"fast_tiles": "TILES"}, dist="slow-sums")
    with caplog.at_level(logging.WARNING):
        assert set(plugin_settings.announced()) >= {"fast_tiles"}
    assert "`seed` of fast-sums 1.0 is passed over: ocannl has a setting of this name" in caplog.text
    assert "`Fast Tiles` of fast-sums 1.0 is passed over: a name has" in caplog.text
    assert "is passed over: another distribution announces the name, too" in caplog.text
    assert config.SEED.get() == 42


def test_setting_that_changes_code_is_part_of_keys(fast, monkeypatch):
    from ocannl.backend.reference.backend import ReferenceBackend

    class Fast(ReferenceBackend):
        __module__ = fast

    with oc.settings(fast_rounding="odd"):
        assert plugin_settings.code_values(fast) == "fast_rounding='odd'"
    with oc.settings(fast_tiles=3):  # does not change code
        assert plugin_settings.code_values(fast) == "fast_rounding='even'"
    monkeypatch.setattr(compile_cache.source_fingerprint, "package_fingerprint", str)
    x = oc.placeholder("x", output=[3])
    routine = oc.Context("numpy").compile((x + 1).with_label("y").forward, name="add")
    canon = compile_cache.canonical(routine.program.comp, {})
    keys = []
    for rounding in ("even", "odd"):
        with oc.settings(fast_rounding=rounding):
            keys.append(compile_cache.key(canon, "add", Fast(), ""))
    assert len(set(keys)) == 2


def test_setting_of_the_example_backend(monkeypatch):
    backend = pytest.importorskip("ocannl_backend_example.backend")
    monkeypatch.setitem(registry._backends, "example", backend.ExampleBackend())
    x = oc.placeholder("x", output=[3])
    y = (x * 2).with_label("y")
    texts = []
    for value in ("off", "on"):
        monkeypatch.setenv("OCANNL_EXAMPLE_CHECK_INDICES", value)
        with oc.settings(cache=False):
            compile_cache.clear()
            context = oc.Context("example")
            routine = context.compile(y.forward, name="double")
            context.set(x, np.arange(3, dtype=np.float32))
            routine()
            np.testing.assert_array_equal(context.get(y), [0, 2, 4])
            texts.append(routine.source())
    assert "checked(" not in texts[0] and "checked(" in texts[1]
    with pytest.raises(IndexError, match="-1 is negative"):
        backend.checked(-1)
