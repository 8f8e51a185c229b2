import pytest

from ocannl.base import config
from ocannl.base.config import BACKEND, CACHE, CACHE_DIR, LOG_LEVEL, SEED, THREADS, VERIFY
from ocannl.base.errors import ConfigError


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """No variable of ours, and a folder without any project file of ours above it."""
    for setting in config.SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.chdir(tmp_path)


def test_the_table_has_a_default_for_every_row():
    for setting, resolved in config.explain():
        assert resolved.source == "default"
        assert setting.get() == setting.default
        assert setting.variable == f"OCANNL_{setting.name.upper()}"
    assert (BACKEND.get(), SEED.get(), THREADS.get(), CACHE.get(), VERIFY.get()) == (None, 42, None, True, "ends")


def test_precedence_argument_manager_environment_file_default(monkeypatch, tmp_path):
    (tmp_path / "ocannl.toml").write_text("seed = 1\n")
    assert SEED.resolve() == config.Resolved(1, str(tmp_path / "ocannl.toml"))
    monkeypatch.setenv("OCANNL_SEED", "2")
    assert SEED.resolve() == config.Resolved(2, "OCANNL_SEED")
    with config.settings(seed=3):
        assert SEED.resolve() == config.Resolved(3, "context manager")
        with config.settings(seed=4):
            assert SEED.get() == 4
            with config.settings(seed=None):
                assert SEED.get() == 2  # None gives way
        assert SEED.get() == 3
        assert SEED.resolve(5) == config.Resolved(5, "argument")
    assert SEED.get() == 2


def test_override_is_reset_after_an_error():
    with pytest.raises(ZeroDivisionError), config.use_backend("x"):
        assert BACKEND.get() == "x"
        raise ZeroDivisionError
    assert BACKEND.get() is None


def test_nearest_file_takes_precedence(monkeypatch, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.ocannl]\nbackend = 'outer'\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert BACKEND.get() == "outer"
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\nname = 'ocannl'\n")  # no table of ours: go on
    assert BACKEND.get() == "outer"
    (inner / "ocannl.toml").write_text("backend = 'inner'\n")
    assert BACKEND.resolve() == config.Resolved("inner", str(inner / "ocannl.toml"))


def test_a_changed_file_is_read_again(tmp_path):
    file = tmp_path / "ocannl.toml"
    file.write_text("seed = 1")
    assert SEED.get() == 1
    file.write_text("seed = 12")
    assert SEED.get() == 12


def test_broken_unrelated_file_is_ignored(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.black\n")
    assert config.project_file() is None


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("ocannl.toml", "bakend = 'llvm'", "unknown setting `bakend` .*ocannl.toml.* did you mean `backend`"),
        ("pyproject.toml", "[tool.ocannl]\nxyzzy = 1", "unknown setting `xyzzy` .* settings are backend, precision"),
        ("ocannl.toml", "seed = ", "ocannl.toml cannot be read"),
        ("pyproject.toml", "[tool.ocannl\n", "pyproject.toml cannot be read"),
        ("pyproject.toml", "tool.ocannl = 3\n", "must be a table"),
        ("ocannl.toml", "seed = 'many'", r"seed = 'many', from .*ocannl.toml: expected an integer of at least 0"),
        ("ocannl.toml", "seed = true", "expected an integer of at least 0"),
        ("ocannl.toml", "seed = -1", "expected an integer of at least 0"),
    ],
)
def test_invalid_file_raises(tmp_path, file, text, says):
    (tmp_path / file).write_text(text)
    with pytest.raises(ConfigError, match=says):
        SEED.get()


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        (SEED, " 7 ", 7),
        (THREADS, "3", 3),
        (CACHE, "OFF", False),
        (CACHE, "1", True),
        (VERIFY, "Every", "every"),
        (LOG_LEVEL, "debug", "debug"),
        (BACKEND, " llvm ", "llvm"),
        (SEED, "", 42),
    ],
)
def test_variables_are_read(monkeypatch, setting, text, value):
    monkeypatch.setenv(setting.variable, text)
    assert setting.get() == value


def test_folder_is_absolute_and_expands_home(monkeypatch, tmp_path):
    monkeypatch.setenv("OCANNL_CACHE_DIR", "here")
    assert CACHE_DIR.get() == tmp_path / "here"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OCANNL_CACHE_DIR", "~/there")
    assert CACHE_DIR.get() == tmp_path / "there"


@pytest.mark.parametrize(
    ("setting", "text", "says"),
    [
        (THREADS, "0", "threads = '0', from OCANNL_THREADS: expected an integer of at least 1"),
        (THREADS, "two", "an integer of at least 1"),
        (CACHE, "perhaps", "`on` or `off`"),
        (VERIFY, "sometimes", "one of off, ends, every"),
        (LOG_LEVEL, "loud", "one of debug, info"),
    ],
)
def test_invalid_variable_raises(monkeypatch, setting, text, says):
    monkeypatch.setenv(setting.variable, text)
    with pytest.raises(ConfigError, match=says):
        setting.get()


def test_invalid_argument_raises():
    with pytest.raises(ConfigError, match="seed = -1, from argument"):
        SEED.get(-1)
    message = "unknown setting `sede` .context manager.; did you mean `seed`"
    with pytest.raises(ConfigError, match=message), config.settings(
        sede=1
    ):
        pass
    with pytest.raises(ConfigError, match="from context manager"), config.settings(seed="x"):
        pass


def test_misspelt_variable_raises_and_unknown_is_reported(monkeypatch):
    monkeypatch.setenv("OCANNL_SOMETHING_ELSE", "1")
    assert "OCANNL_SOMETHING_ELSE" in config.check()
    monkeypatch.setenv("OCANNL_BAKEND", "llvm")
    with pytest.raises(ConfigError, match=r"`OCANNL_BAKEND` \(environment\); did you mean `OCANNL_BACKEND`"):
        config.check()


def test_a_deleted_folder_has_no_project_file(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert config.project_file() is None
