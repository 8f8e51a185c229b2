"""`kills.py BACKEND RUNS SEED`: processes that compile and transfer are killed at random moments.

After each kill another process does the same work to its end, with the same cache. Prints what happened, as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
from programs import Warnings, check

import ocannl as oc
from ocannl.base import disk_cache
from ocannl.base.private_folder import TEMPORARY, open_private_folder
from ocannl.runtime import compile_cache

BACKEND, RUNS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
FOLDER = Path(os.environ["OCANNL_CACHE_DIR"])


def work(n: int, rounds: int) -> None:
    """Compiles programs, and passes a node round between contexts, its value growing by one at each stop."""
    for k in range(rounds):
        compile_cache.clear()
        check(n + k, oc.Context(BACKEND))
        transfer(n + k)


def transfer(n: int) -> None:
    ring = [oc.Context(BACKEND, device=d, queue=("inline", "threaded")[(n + d) % 2]) for d in range(3)]
    x, increment = oc.placeholder("x", o=[1 << 16]), oc.placeholder("one", o=[1 << 16])
    for context in ring:
        context[increment] = 1
    ring[0][x] = np.arange(1 << 16) % 1000 + n
    with oc.cd("add") as add:
        x += increment
    legs = []
    for source, target in zip(ring, [*ring[1:], ring[0]], strict=True):
        legs.append((oc.transfer(x, src=source, dst=target, into="node"), target.compile(add)))
    for _ in range(4):
        for copy, step in legs:
            copy()
            step()
    assert np.array_equal(ring[0][x], np.arange(1 << 16) % 1000 + n + 12)
    for context in ring:
        context.close()


def forked(n: int, rounds: int = 1) -> int:
    """A child that works; its status is 0 when all was right, without a warning."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        warnings = Warnings()
        work(n, rounds)
        assert not warnings.messages, warnings.messages
        status = 0
    except BaseException:
        traceback.print_exc()
    os._exit(status)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed(n: int, delay_seconds: float) -> int:
    """How a child ended that was killed; it lives long enough to be killed."""
    pid = forked(n, 1000)
    time.sleep(delay_seconds)
    os.kill(pid, signal.SIGKILL)
    return ended(pid)


def left_behind() -> Counter[str]:
    """What lies in the cache: whole records, and temporary files of writers that are gone."""
    tally: Counter[str] = Counter()
    with open_private_folder(FOLDER, "code") as records:
        for shard in records.names():
            with records.subfolder(shard) as folder:
                for name in folder.names():
                    if name.startswith(TEMPORARY):
                        tally["temporary"] += 1
                    else:
                        disk_cache.read_verified(folder, name, name.partition(".")[0])
                        tally["records"] += 1
    return tally


def sweep() -> int:
    """How many temporary files are left once they are old and something is stored beside them."""
    for path in (FOLDER / "code").glob(f"*/{TEMPORARY}*"):
        os.utime(path, (0, 0))
    kept = disk_cache.open_cache()
    assert kept is not None
    for folder in (FOLDER / "code").iterdir():
        kept.store(folder.name + "0" * 62, disk_cache.Record({}, b""))
    return left_behind()["temporary"]


def main() -> int:
    random, counts = Random(SEED), Counter()
    work(10**6, 1)  # imports everything, and finds out how long it takes
    start = time.monotonic()
    work(10**6 + 1, 1)
    longest = 1.5 * (time.monotonic() - start)
    assert threading.active_count() < 20
    for run in range(RUNS):
        if run % 20 == 0:
            shutil.rmtree(FOLDER, ignore_errors=True)
        statuses = killed(3 * run, random.uniform(0, longest)), ended(forked(3 * run))
        counts["killed"] += statuses[0] == -signal.SIGKILL
        counts["survived"] += statuses[1] == 0
        if run % 20 == 19 or run == RUNS - 1:
            counts += left_behind()
            counts["unswept"] += sweep()
    print(json.dumps({"seed": SEED, "longest": longest, **counts}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
