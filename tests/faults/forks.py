"""`forks.py BACKEND SEED`: contexts are used, the process forks, and both go on with them, the child of a child too.

Some of the forks happen while other threads run routines in contexts of their own.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import traceback

import numpy as np
from programs import build, inputs, wanted

import ocannl as oc

BACKEND, SEED = sys.argv[1], int(sys.argv[2])
LIMIT_SECONDS = 20  # for each generation
QUEUES = ("inline", "threaded")


class Use:
    """A context with a compiled routine that is called again and again."""

    def __init__(self, queue: str, size: int = 300) -> None:
        self.context = oc.Context(BACKEND, queue=queue)
        self.x = oc.placeholder("x", o=[size, size])
        self.context[self.x] = 0
        with oc.cd("count") as code:
            self.x += 1
        self.step = self.context.compile(code)
        self.count = 0

    def go_on(self) -> None:
        for _ in range(3):
            self.step()
        self.count += 3
        assert (self.context[self.x] == self.count).all()

    def compile(self, n: int) -> None:
        y, x, w = build(n)
        routine = self.context.compile(y.forward, name="program", keep=[y])
        self.context[x], self.context[w] = inputs(n)
        routine()
        assert np.array_equal(self.context[y], wanted(n))

    def send(self, peer: Use) -> None:
        oc.transfer(self.x, src=self.context, dst=peer.context, into="node")()
        assert (peer.context[self.x] == self.count).all()


def everything(uses: list[Use], n: int) -> None:
    for use in uses:
        use.go_on()
        use.compile(1)  # known before the fork
        use.compile(n)  # new
    uses[0].send(uses[1])
    uses[1].send(uses[0])
    everything_new = Use("threaded", 20)
    everything_new.go_on()
    oc.backends()


def forked(uses: list[Use], n: int, depth: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    signal.alarm(LIMIT_SECONDS * (1 + depth))
    try:
        everything(uses, n)
        status = 0 if depth == 0 else ended(forked(uses, n + 1, depth - 1))
        everything(uses, n + 2)
    except BaseException:
        traceback.print_exc()
        status = 1
    os._exit(status)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> int:
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(9 * LIMIT_SECONDS)
    uses = [Use(queue) for queue in QUEUES]
    everything(uses, 2)
    statuses = [ended(forked(uses, 10 * k, 2)) for k in range(1, 4)]
    everything(uses, 3)

    stop = threading.Event()

    def busy(use: Use) -> None:
        while not stop.is_set():
            use.go_on()

    threads = [threading.Thread(target=busy, args=(Use(queue),)) for queue in QUEUES * 2]
    for thread in threads:
        thread.start()
    statuses += [ended(forked(uses, 10 * k, 0)) for k in range(10, 30)]
    stop.set()
    for thread in threads:
        thread.join()
    everything(uses, 4)
    print(json.dumps({"seed": SEED, "forks": len(statuses), "statuses": statuses}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
