"""`storm.py BACKEND SECONDS SEED`: eight processes compile into one cache while another damages it.

OCANNL_CACHE_DIR names the cache. Every record that a process stores is written down beside the cache first, so that one
that is loaded can be known to be somebody's, whole. Prints what happened, as JSON; status 0 when nothing went wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

from programs import Warnings, check

import ocannl as oc
from ocannl.base import disk_cache
from ocannl.runtime import compile_cache

WORKERS, PROGRAMS = 8, 12
BACKEND, SECONDS, SEED = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
FOLDER = Path(os.environ["OCANNL_CACHE_DIR"])
STORED = FOLDER.parent / "stored"


def digest(key: str, record: disk_cache.Record) -> Path:
    header = json.dumps(record.header, sort_keys=True).encode()
    return STORED / hashlib.sha256(b"\0".join([key.encode(), header, record.blob])).hexdigest()


def watch(counts: Counter[str]) -> None:
    load, store = disk_cache.Cache.load, disk_cache.Cache.store

    def watched_load(self, key):
        record = load(self, key)
        counts["hits" if record else "misses"] += 1
        assert record is None or digest(key, record).exists(), "what was loaded is nothing that was stored"
        return record

    def watched_store(self, key, record):
        digest(key, record).touch()
        store(self, key, record)

    disk_cache.Cache.load, disk_cache.Cache.store = watched_load, watched_store


def work(number: int) -> Counter[str]:
    random, counts, warnings = Random(f"{SEED} {number}"), Counter(), Warnings()
    watch(counts)
    context = oc.Context(BACKEND)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or not (counts["hits"] and counts["misses"]):  # a loaded machine may need longer
        compile_cache.clear()
        check(random.randrange(PROGRAMS), context)
        counts["runs"] += 1
    counts["warnings"] = len(warnings.messages)
    return counts


def damage(random: Random) -> str:
    """One thing that goes wrong with a file or a folder."""
    kind = random.choice(("flip", "flip", "flip", "cut", "lengthen", "delete", "swap", "litter", "folder", "all"))
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    if not files:
        return "nothing there"
    path = random.choice(files)
    match kind:
        case "flip":
            with path.open("r+b") as file:
                for _ in range(random.randrange(1, 9)):
                    file.seek(random.randrange(max(1, path.stat().st_size)))
                    file.write(random.randbytes(1))
                    file.flush()
        case "cut":
            os.truncate(path, random.randrange(path.stat().st_size + 1))
        case "lengthen":
            with path.open("ab") as file:
                file.write(random.randbytes(9))
        case "delete":
            path.unlink()
        case "swap":
            path.write_bytes(random.choice(files).read_bytes())
        case "litter":
            (path.parent / f".new-{random.randrange(99)}").write_bytes(random.randbytes(99))
        case "folder":
            shutil.rmtree(path.parent, ignore_errors=True)
        case "all":
            if random.random() < 0.1:
                shutil.rmtree(FOLDER, ignore_errors=True)
    return kind


def disturb() -> Counter[str]:
    random, counts = Random(SEED), Counter()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(random.uniform(0, 0.03))
        with suppress(OSError, ValueError):  # somebody else was faster
            counts[damage(random)] += 1
    return counts


def child(number: int, report: Path) -> None:
    """In a fork: what it counted is written to its file, and a file that lacks is a failure."""
    try:
        report.write_text(json.dumps(disturb() if number == WORKERS else work(number)))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def calm() -> int:
    """How many warnings there are when everything is compiled once more, and then found: the first time takes away what
    was damaged."""
    context = oc.Context(BACKEND)
    for _ in range(2):
        warnings = Warnings()
        disk_cache._warned.clear()
        compile_cache.clear()
        for n in range(PROGRAMS):
            check(n, context)
    return len(warnings.messages)


def main() -> int:
    STORED.mkdir()
    check(0, oc.Context(BACKEND))  # imports everything before the forks; its record is nobody's
    shutil.rmtree(FOLDER)
    paths = [FOLDER.parent / f"counts-{number}" for number in range(WORKERS + 1)]
    children = []
    for number, report in enumerate(paths):
        pid = os.fork()
        if pid == 0:
            child(number, report)
        children.append(pid)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    total: Counter[str] = Counter()
    for report in paths:
        total.update(json.loads(report.read_text()) if report.exists() else {})
    print(json.dumps({"seed": SEED, "statuses": statuses, "left": calm(), **total}))
    return 0 if not any(statuses) else 1


if __name__ == "__main__":
    sys.exit(main())
