"""Attacks on the cache: links, owners and modes of folders, what is replaced at the worst moment, and its limits."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from ocannl.base import disk_cache
from ocannl.base.config import settings
from ocannl.base.disk_cache import Record, open_cache
from ocannl.base.private_folder import open_private_folder

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes are those of Unix")
root = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can give files to other users")

KEY = hashlib.sha256(b"key").hexdigest()
RECORD = Record({"from": "the user"}, b"code")
FOREIGN = Record({"from": "another user"}, b"foreign code")


@pytest.fixture(autouse=True)
def measured_anew(monkeypatch):
    monkeypatch.setattr(disk_cache, "_unmeasured_bytes", {})


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0, 0o077, 0o777], ids=oct)
def test_folders_and_files_are_private_whatever_the_umask(tmp_path, mask):
    with umask(mask), settings(cache_dir=tmp_path / "a" / "b"):
        open_cache().store(KEY, RECORD)
        assert open_cache().load(KEY) == RECORD
    modes = {oct(path.stat().st_mode & 0o777) for path in (tmp_path / "a").rglob("*") if path.is_dir()}
    assert modes == {"0o700"} and (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert [oct(path.stat().st_mode & 0o777) for path in tmp_path.rglob("*.*") if path.is_file()] == ["0o600"]


@pytest.mark.parametrize(("mode", "is_used"), [(0o777, False), (0o1777, True), (0o755, True), (0o711, True)])
def test_ancestors_that_others_can_write(tmp_path, warnings, mode, is_used):
    ancestor = tmp_path / "ancestor"
    (ancestor / "cache").mkdir(parents=True)
    ancestor.chmod(mode)
    with settings(cache_dir=ancestor / "cache"):
        for _ in range(3):
            assert (open_cache() is not None) == is_used
    assert len(warnings.records) == (not is_used)
    assert is_used or f"{ancestor}: can be written by others" in warnings.text


@root
@pytest.mark.parametrize("given", ["ancestor", "cache", "cache/code", "link"])
def test_folders_of_another_user(tmp_path, warnings, given):
    (tmp_path / "ancestor" / "cache" / "code").mkdir(parents=True, mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "ancestor" / "cache")
    path = tmp_path / given if given == "link" else tmp_path / "ancestor" / given.replace("ancestor", ".")
    os.chown(path, 12345, 12345, follow_symlinks=False)
    with settings(cache_dir=tmp_path / ("link" if given == "link" else "ancestor/cache")):
        assert open_cache() is None
    assert "belongs to another user" in warnings.text


def test_link_of_the_user_can_be_the_cache(tmp_path):
    (tmp_path / "large disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "large disk")
    with settings(cache_dir=tmp_path / "cache"):
        open_cache().store(KEY, RECORD)
        assert open_cache().load(KEY) == RECORD
    assert (tmp_path / "large disk" / "code").is_dir()


def test_circle_of_links_is_no_cache(tmp_path, warnings):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with settings(cache_dir=tmp_path / "a" / "cache"):
        assert open_cache() is None
    assert "is not used" in warnings.text


CALLS = ("open", "fstat", "listdir", "scandir", "utime", "unlink", "stat", "lstat", "mkdir", "replace")


@pytest.mark.parametrize("place", ["", "code", f"code/{KEY[:2]}"], ids=["root", "kind", "shard"])
@pytest.mark.parametrize("by_link", [False, True], ids=["folder", "link"])
def test_folder_replaced_between_any_two_calls(tmp_path, monkeypatch, place, by_link):
    """Whatever an attacker puts in place of a folder of the cache, at whatever moment, is not loaded."""
    number, moments = 0, 1
    while number < moments:
        attacked = tmp_path / str(number)
        cache, foreign = attacked / "cache", attacked / "foreign"
        for folder, record in ((cache, RECORD), (foreign, FOREIGN)):
            with settings(cache_dir=folder):
                open_cache().store(KEY, record)
        if os.geteuid() == 0:
            for path in (foreign, *foreign.rglob("*")):
                os.chown(path, 12345, 12345)
        else:
            for path in (foreign, *foreign.rglob("*")):
                path.chmod(0o777)
        calls = 0

        def attack(real, number=number, cache=cache, foreign=foreign):
            def call(*arguments, **named):
                nonlocal calls
                calls += 1
                if calls == number + 1:
                    os.rename(cache / place, cache.with_name("moved"))
                    (os.symlink if by_link else os.rename)(foreign / place, cache / place)
                return real(*arguments, **named)

            return call

        with settings(cache_dir=cache), monkeypatch.context() as patch:
            opened = open_cache()
            for name in CALLS:
                patch.setattr(os, name, attack(getattr(os, name)))
            assert opened.load(KEY) in (RECORD, None)
        moments, number = max(moments, calls), number + 1
    assert number > 10


@pytest.mark.parametrize("kind", ["pipe", "foreign content", "link"])
def test_file_replaced_while_it_is_read(tmp_path, monkeypatch, kind):
    with settings(cache_dir=tmp_path / "cache"):
        cache = open_cache()
        cache.store(KEY, RECORD)
        (path,) = (tmp_path / "cache" / "code" / KEY[:2]).iterdir()
        fstat = os.fstat

        def replaced(descriptor):
            if Path(os.readlink(f"/proc/self/fd/{descriptor}")) == path:
                path.unlink()
                match kind:
                    case "pipe":
                        os.mkfifo(path)
                    case "foreign content":
                        path.write_bytes(b"foreign")
                    case "link":
                        path.symlink_to(__file__)
            return fstat(descriptor)

        monkeypatch.setattr(os, "fstat", replaced)
        assert cache.load(KEY) == RECORD  # the file that was checked


def keys(count):
    return [hashlib.sha256(bytes([n])).hexdigest() for n in range(count)]


def size_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_least_recently_used_records_are_evicted_at_the_limit_of_bytes(tmp_path):
    with settings(cache_dir=tmp_path, cache_bytes=100_000):
        cache = open_cache()
        for n, key in enumerate(keys(40)):
            cache.store(key, Record({}, bytes(9000)))
            assert size_bytes(tmp_path) <= 100_000
            (path,) = (tmp_path / "code").glob(f"*/{key}.*")
            os.utime(path, (1000 + n, 1000 + n))
        assert [cache.load(key) is not None for key in keys(40)[-9:]] == [True] * 9
        cache.store(KEY, Record({}, bytes(200_000)))
        assert cache.load(KEY) is None


def test_records_of_dead_versions_are_evicted_first(tmp_path):
    with settings(cache_dir=tmp_path, cache_bytes=100_000):
        dead, live = open_cache(generation="old"), open_cache(generation="new")
        for key in keys(8)[:3]:
            live.store(key, Record({}, bytes(9000)))
        for path in tmp_path.rglob("*.new"):
            os.utime(path, (1000, 1000))
        for key in keys(20)[8:14]:
            dead.store(key, Record({}, bytes(9000)))
        disk_cache._unmeasured_bytes.clear()
        for key in keys(8)[3:8]:
            live.store(key, Record({}, bytes(9000)))
        assert all(live.load(key) is not None for key in keys(8))
        assert size_bytes(tmp_path) <= 100_000


def test_abandoned_files_are_removed_everywhere(tmp_path):
    with settings(cache_dir=tmp_path):
        cache = open_cache()
        for key in keys(5):
            cache.store(key, RECORD)
        for folder in (tmp_path / "code").iterdir():
            for name, age in ((".new-old", 7200), (".new-now", 0)):
                (folder / name).write_bytes(b"x")
                os.utime(folder / name, (time.time() - age,) * 2)
        disk_cache._unmeasured_bytes.clear()
        cache.store(KEY, RECORD)
        assert not list(tmp_path.rglob(".new-old")) and len(list(tmp_path.rglob(".new-now"))) == 5


def test_many_damaged_records_cause_a_single_warning(tmp_path, warnings):
    with settings(cache_dir=tmp_path):
        cache = open_cache()
        for key in keys(9):
            cache.store(key, RECORD)
        for path in (tmp_path / "code").glob("*/*"):
            path.write_bytes(b"damaged")
        assert [cache.load(key) for key in keys(9)] == [None] * 9
    assert len(warnings.records) == 1


def test_folders_are_not_created_where_the_path_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError), open_private_folder(tmp_path / "file" / "below", "code", create=True):
        pass
