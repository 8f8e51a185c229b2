"""`import_forks.py BACKEND RUNS SEED`: processes fork while another thread imports a backend for the first time.

Both processes must then be able to use it, and print nothing. Prints what happened, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from random import Random

from programs import check

import ocannl as oc

BACKEND, RUNS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
LIMIT_SECONDS = 60


def forked(work) -> int:
    """A child that works; it is stopped after the limit."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT_SECONDS)
        status = 1
        try:
            status = work()
        except BaseException:
            traceback.print_exc()
        os._exit(status)
    return pid


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def use() -> int:
    check(1, oc.Context(BACKEND))
    return 0


def attack(delay_seconds: float) -> int:
    """The backend is imported by a thread while this thread forks."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            use()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(delay_seconds)
    status = ended(forked(use))
    thread.join(LIMIT_SECONDS)
    return 1 if status or failures or thread.is_alive() else 0


def main() -> int:
    random = Random(SEED)
    start = time.monotonic()
    assert ended(forked(use)) == 0
    longest = time.monotonic() - start
    with tempfile.TemporaryFile() as messages:
        standard = os.dup(2)
        os.dup2(messages.fileno(), 2)
        statuses = [ended(forked(lambda: attack(random.uniform(0, longest)))) for _ in range(RUNS)]
        os.dup2(standard, 2)
        messages.seek(0)
        text = messages.read().decode(errors="replace")
    print(json.dumps({"seed": SEED, "statuses": statuses, "messages": text[:4000]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
