"""Files of settings as attacks: those of other users, those that block, and those that are too large."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from time_limit import time_limit

from ocannl.base import config, settings_files
from ocannl.base.config import BACKEND, C_COMPILER, CACHE_DIR, SEED, THREADS
from ocannl.base.errors import ConfigError

unix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners, modes and pipes are those of Unix")
root = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can give files to other users")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path, warnings):
    """The current folder, of a user without settings."""
    for setting in config.SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / "config"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def another_user(monkeypatch):
    """Whatever exists belongs to another user."""
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 4711)
    if user == 0:  # root is trusted
        stat, fstat, lstat = os.stat, os.fstat, os.lstat

        def given_away(real):
            def status(*arguments, **settings):
                values = list(real(*arguments, **settings)[:10])
                values[4] = 12345
                return os.stat_result(values)

            return status

        for real in (stat, fstat, lstat):
            monkeypatch.setattr(os, real.__name__, given_away(real))


PROJECT = "seed = 1\nc_compiler = '/tmp/evil'\ncache_dir = '/tmp/evil'\n"


def test_settings_that_run_or_write_need_trust(folder, warnings):
    (folder / "ocannl.toml").write_text(PROJECT)
    assert (SEED.get(), C_COMPILER.get(), CACHE_DIR.get()) == (1, None, None)
    assert len(warnings.records) == 1
    assert f"`c_compiler`, `cache_dir` in {folder / 'ocannl.toml'} has no effect" in warnings.text
    assert f"ocannl config trust {folder}" in warnings.text
    settings_files.trust(folder)
    assert (SEED.get(), C_COMPILER.get(), CACHE_DIR.get()) == (1, "/tmp/evil", Path("/tmp/evil"))
    assert len(warnings.records) == 1
    settings_files.distrust(folder)
    assert C_COMPILER.get() is None


def test_trust_does_not_extend_to_other_folders(folder, monkeypatch):
    inner = folder / "inner"
    inner.mkdir()
    settings_files.trust(folder)
    (inner / "pyproject.toml").write_text("[tool.ocannl]\nc_compiler = 'evil'\n")
    monkeypatch.chdir(inner)
    assert C_COMPILER.get() is None


def test_user_file_sets_everything_and_gives_way_to_project_file(folder, warnings):
    path = settings_files.user_config_folder() / "ocannl.toml"
    path.parent.mkdir(parents=True)
    path.write_text("seed = 2\nthreads = 3\nc_compiler = 'clang'\n")
    (folder / "ocannl.toml").write_text("seed = 1\nc_compiler = 'evil'\n")
    assert C_COMPILER.resolve() == config.Resolved("clang", str(path))
    assert (SEED.get(), THREADS.get()) == (1, 3)
    path.write_text("sede = 2")
    with pytest.raises(ConfigError, match=r"unknown setting `sede`.*did you mean `seed`"):
        THREADS.get()


@unix
def test_user_file_that_others_can_write_is_ignored(warnings):
    path = settings_files.user_config_folder() / "ocannl.toml"
    path.parent.mkdir(parents=True)
    path.write_text("c_compiler = 'evil'")
    path.chmod(0o666)
    assert C_COMPILER.get() is None
    assert "can be written by others" in warnings.text


@unix
def test_list_of_trusted_folders_that_others_can_write_is_ignored(folder, warnings):
    settings_files.trust(folder)
    (folder / "ocannl.toml").write_text("c_compiler = 'evil'")
    (settings_files.user_config_folder() / "trusted.json").chmod(0o666)
    assert C_COMPILER.get() is None
    assert "trusted.json is ignored: can be written by others" in warnings.text


@unix
@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000, '{"/": "x"}', '{"/": null}', "\x00"])
def test_damaged_list_of_trusted_folders_is_ignored(folder, warnings, content):
    settings_files.trust(folder)
    (settings_files.user_config_folder() / "trusted.json").write_text(content)
    assert settings_files.trusted_folders() == {}
    assert "is ignored" in warnings.text or content == "[]"


@unix
@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o666, 0o700), (0o664, 0o700), (0o644, 0o777), (0o644, 0o775)])
def test_trust_does_not_cover_what_others_can_write(folder, monkeypatch, file_mode, folder_mode):
    monkeypatch.setattr("ocannl.base.file_access._is_private_group", lambda uid, gid: False)
    (folder / "ocannl.toml").write_text(PROJECT)
    settings_files.trust(folder)
    (folder / "ocannl.toml").chmod(file_mode)
    folder.chmod(folder_mode)
    assert (SEED.get(), C_COMPILER.get()) == (1, None)
    if folder_mode & 0o022:
        with pytest.raises(ConfigError, match="others can write to it; run: chmod go-w"):
            settings_files.trust(folder)


@unix
@pytest.mark.parametrize("text", [PROJECT, PROJECT + "sede = 2\nthreads = 'all'\n", "[", "seed = ", "[" * 50_000])
def test_file_of_another_user_is_harmless(folder, warnings, another_user, text):
    (folder / "ocannl.toml").write_text(text)
    seed = 1 if "1" in text else 42
    for _ in range(3):
        assert (SEED.get(), C_COMPILER.get(), CACHE_DIR.get(), THREADS.get()) == (seed, None, None, None)
    assert len(warnings.records) == 1
    assert "belongs to another user" in warnings.text
    assert "`seed` in it counts, `c_compiler`, `cache_dir`" in warnings.text or "this file is ignored" in warnings.text


@root
def test_checkout_of_another_user(folder, warnings):
    """As in containers and on CI machines."""
    (folder / "ocannl.toml").write_text(PROJECT)
    for path in (folder / "ocannl.toml", folder):
        os.chown(path, 12345, 12345)
    os.environ.pop("SUDO_UID", None)
    assert (SEED.get(), C_COMPILER.get()) == (1, None)
    assert len(warnings.records) == 1
    settings_files.trust(folder)
    assert C_COMPILER.get() == "/tmp/evil"
    os.chown(folder / "ocannl.toml", 54321, 54321)  # a third user
    assert (SEED.get(), C_COMPILER.get()) == (1, None)
    os.chown(folder / "ocannl.toml", 12345, 12345)
    os.chown(folder, 54321, 54321)  # the folder has been replaced
    assert (SEED.get(), C_COMPILER.get()) == (1, None)


@root
def test_link_of_another_user_is_harmless(folder, warnings, tmp_path):
    (tmp_path / "mine.toml").write_text("c_compiler = 'mine'\nseed = 7")
    settings_files.trust(folder)
    (folder / "ocannl.toml").symlink_to(tmp_path / "mine.toml")
    assert C_COMPILER.get() == "mine"
    os.chown(folder / "ocannl.toml", 12345, 12345, follow_symlinks=False)
    assert (C_COMPILER.get(), SEED.get()) == (None, 7)


@unix
@pytest.mark.parametrize("name", settings_files.NAMES)
@pytest.mark.parametrize("kind", ["pipe", "zero", "terminal", "large"])
def test_file_that_blocks_or_never_ends_is_refused(folder, warnings, name, kind):
    path = folder / name
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "zero":
            path.symlink_to("/dev/zero")
        case "terminal":
            path.symlink_to("/dev/tty")
        case "large":
            path.write_bytes(b"#" * (settings_files.MAX_BYTES + 1))
    wanted = "is larger than 1048576 bytes" if kind == "large" else "is not a regular file"
    with time_limit(20, elapsed=True):
        if kind in ("pipe", "large"):
            with pytest.raises(ConfigError, match=f"cannot be read: {wanted}"):
                SEED.get()
        else:  # all users can write to these devices
            assert SEED.get() == 42
            assert wanted in warnings.text


@unix
def test_pipe_of_another_user_is_left_out(folder, warnings, another_user, monkeypatch):
    inner = folder / "inner"
    inner.mkdir()
    (folder / "ocannl.toml").write_text("seed = 5")
    os.mkfifo(inner / "ocannl.toml")
    monkeypatch.chdir(inner)
    assert SEED.get() == 5
    assert "cannot be read: is not a regular file: this file is ignored" in warnings.text


@unix
def test_file_replaced_by_pipe_while_it_is_opened(folder, monkeypatch):
    (folder / "ocannl.toml").write_text("seed = 5")
    open_ = os.open

    def replaced(path, *arguments, **settings):
        if str(path).endswith("ocannl.toml"):
            os.unlink(path)
            os.mkfifo(path)
        return open_(path, *arguments, **settings)

    monkeypatch.setattr(os, "open", replaced)
    with pytest.raises(ConfigError, match="is not a regular file"):
        SEED.get()


@unix
def test_names_in_warnings_are_printable(folder, monkeypatch, warnings):
    inner = folder / "\x1b[2Jinner"
    inner.mkdir()
    (inner / "ocannl.toml").write_text("c_compiler = 'evil'")
    monkeypatch.chdir(inner)
    assert C_COMPILER.get() is None
    assert r"\x1b[2Jinner" in warnings.text and "\x1b" not in warnings.text


def test_what_cannot_be_trusted(folder, tmp_path):
    (folder / "file").write_text("")
    for path, reason in [(folder / "absent", "No such file"), (folder / "file", "is not a folder")]:
        with pytest.raises(ConfigError, match=reason):
            settings_files.trust(path)
    with pytest.raises(ConfigError, match="not among the trusted"):
        settings_files.distrust(folder)
    (tmp_path / "home").write_text("")
    with pytest.raises(ConfigError, match="list of trusted folders .* cannot be written"):
        settings_files.trust(folder)


def test_personal_settings_are_those_that_run_or_write():
    assert {setting.name for setting in config.SETTINGS if setting.personal} == {"c_compiler", "cache_dir"}
    assert not BACKEND.personal  # installed backends are trusted by being installed
