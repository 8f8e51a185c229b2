import hashlib
import os
import subprocess
import sys
import time

import pytest

from ocannl.base.config import settings
from ocannl.base.disk_cache import MAGIC, Record, open_cache

KEY = hashlib.sha256(b"key").hexdigest()
RECORD = Record({"links": [[0, "in"]], "text": "π\n"}, b"\x00\xffcode")

unix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes are those of Unix")


def only_file(folder):
    (path,) = (folder / KEY[:2]).iterdir()
    return path


def test_stored_record_is_loaded(private_cache):
    cache = open_cache()
    assert cache.load(KEY) is None
    cache.store(KEY, RECORD)
    assert open_cache().load(KEY) == RECORD
    assert cache.load("0" * 64) is None


def test_file_name_contains_key_and_sha256(private_cache):
    open_cache().store(KEY, RECORD)
    path = only_file(private_cache)
    assert path.name == f"{KEY}.{hashlib.sha256(path.read_bytes()).hexdigest()}"
    assert path.read_bytes().startswith(MAGIC)


@unix
def test_folders_and_files_are_private(private_cache):
    open_cache().store(KEY, RECORD)
    modes = [p.stat().st_mode & 0o777 for p in (private_cache, private_cache / KEY[:2], only_file(private_cache))]
    assert modes == [0o700, 0o700, 0o600]


def test_setting_disables_the_cache(private_cache):
    with settings(cache=False):
        assert open_cache() is None
    assert not private_cache.exists()


def damage(kind, path):
    content = path.read_bytes()
    match kind:
        case "cut short":
            path.write_bytes(content[:-3])
        case "empty":
            path.write_bytes(b"")
        case "one bit":
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "longer":
            path.write_bytes(content + b"\x00")
        case "renamed":
            path.rename(path.with_name(f"{KEY}.{'0' * 64}"))
        case "folder":
            path.unlink()
            path.mkdir()
        case "pipe":
            path.unlink()
            os.mkfifo(path)
        case "link":
            renamed = path.with_name("other")
            path.rename(renamed)
            path.symlink_to(renamed)


@pytest.mark.parametrize(
    "kind",
    ["cut short", "empty", "one bit", "longer", "renamed", "folder",
     pytest.param("pipe", marks=unix), pytest.param("link", marks=unix)],
)  # fmt: skip
def test_a_damaged_record_is_a_miss_and_a_warning(private_cache, warnings, kind):
    cache = open_cache()
    cache.store(KEY, RECORD)
    damage(kind, only_file(private_cache))
    assert cache.load(KEY) is None
    assert "a damaged record of compiled code is left out" in warnings.text
    cache.store(KEY, RECORD)
    if kind not in ("folder",):
        warnings.clear()
        assert cache.load(KEY) == RECORD
        assert not warnings.text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"else",
        MAGIC,
        MAGIC + b"\xff" * 8,
        MAGIC + (3).to_bytes(8, "little") + b"[1]",
        MAGIC + b"\x02" * 30,
        MAGIC + (100_000).to_bytes(8, "little") + b"[" * 100_000,
    ],
    ids=range(7),
)
def test_valid_digest_with_malformed_content_is_a_miss(private_cache, warnings, content):
    cache = open_cache()
    cache.store(KEY, RECORD)
    path = only_file(private_cache)
    path.write_bytes(content)
    path.rename(path.with_name(f"{KEY}.{hashlib.sha256(content).hexdigest()}"))
    assert cache.load(KEY) is None
    assert "damaged" in warnings.text


def test_second_record_replaces_damaged_record(private_cache, warnings):
    cache = open_cache()
    cache.store(KEY, RECORD)
    (private_cache / KEY[:2] / f"{KEY}.{'0' * 64}").write_bytes(b"broken")
    assert cache.load(KEY) == RECORD


def test_a_record_replaces_another_of_its_key(private_cache):
    cache = open_cache()
    for blob in (b"first", b"second", b"third"):
        cache.store(KEY, Record({}, blob))
        assert cache.load(KEY).blob == blob
    assert len(list((private_cache / KEY[:2]).iterdir())) == 1


@unix
def test_world_writable_folder_is_not_trusted(private_cache, warnings):
    cache = open_cache()
    cache.store(KEY, RECORD)
    (private_cache / KEY[:2]).chmod(0o777)
    assert cache.load(KEY) is None
    assert "can be written by others; run: chmod 700" in warnings.text
    (private_cache / KEY[:2]).chmod(0o700)
    private_cache.chmod(0o770)
    assert open_cache() is None


@unix
def test_world_writable_file_is_not_trusted(private_cache, warnings):
    cache = open_cache()
    cache.store(KEY, RECORD)
    only_file(private_cache).chmod(0o666)
    assert cache.load(KEY) is None


def test_impossible_folder_is_no_error(tmp_path, monkeypatch, warnings):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("OCANNL_CACHE_DIR", str(file))
    assert open_cache() is None
    assert "is not used" in warnings.text


def test_a_full_disk_is_no_error_and_leaves_nothing(private_cache, monkeypatch, warnings):
    cache = open_cache()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    cache.store(KEY, RECORD)
    assert "could not be kept: [Errno 28] No space left on device" in warnings.text
    assert list((private_cache / KEY[:2]).iterdir()) == []
    assert cache.load(KEY) is None


def test_deleted_folder_is_recreated(private_cache):
    import shutil

    cache = open_cache()
    cache.store(KEY, RECORD)
    shutil.rmtree(private_cache)
    assert cache.load(KEY) is None
    open_cache().store(KEY, RECORD)
    assert cache.load(KEY) == RECORD


def test_stale_temporary_files_are_removed(private_cache):
    cache = open_cache()
    cache.store(KEY, RECORD)
    shard = private_cache / KEY[:2]
    old, new = shard / ".new-old", shard / ".new-new"
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(old, (time.time() - 7200,) * 2)
    cache.store(KEY, RECORD)
    assert not old.exists() and new.exists()


def test_least_recently_used_records_are_evicted(private_cache):
    cache = open_cache()
    keys = [f"{KEY[:2]}{n:062x}" for n in range(40)]
    for n, key in enumerate(keys):
        cache.store(key, RECORD)
        (path,) = (private_cache / KEY[:2]).glob(f"{key}.*")
        os.utime(path, (n, n))
        if n == 30:
            assert cache.load(keys[0]) == RECORD  # used now
    assert len(list((private_cache / KEY[:2]).iterdir())) == 32
    assert cache.load(keys[0]) == cache.load(keys[-1]) == RECORD
    assert cache.load(keys[1]) is None


WRITER = """
import sys
from ocannl.base.disk_cache import Record, open_cache
cache = open_cache()
for n in range(100):
    key = f"{n % 5:064x}"
    cache.store(key, Record({"n": n % 5}, bytes([n % 5]) * 100_000))
    found = cache.load(key)
    assert found is not None and found.blob == bytes([found.header["n"]]) * 100_000, found
"""


@pytest.mark.slow
def test_processes_share_the_cache(private_cache):
    command = [sys.executable, "-c", WRITER]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    children = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    complaints = [child.communicate(timeout=120)[1] for child in children]
    assert [child.returncode for child in children] == [0] * 3, complaints
    assert complaints == [""] * 3
