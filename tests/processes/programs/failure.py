"""A world of which rank 1 fails in the way that the first argument names, while all others wait.

In the folder of the second argument, the modification times of files are the ends of ranks ("0", "1", ...), the time of
the failure ("failed"), and the time of the last message about it ("noticed").
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import ocannl as oc

folder = Path(sys.argv[2])
world = oc.World("mpi")


class StampedMessages:
    """Standard error, of which each text is a time stamp."""

    def write(self, text: str) -> int:
        (folder / "noticed").touch()
        return sys.__stderr__.write(text)

    def flush(self) -> None:
        sys.__stderr__.flush()


def stamp() -> None:
    while True:
        own.touch()
        time.sleep(0.02)


own = folder / str(world.rank)
own.touch()  # the thread may not have started when this rank is killed
sys.stderr = StampedMessages()
threading.Thread(target=stamp, daemon=True).start()
world.barrier()
if world.rank == 1:
    (folder / "failed").touch()
match sys.argv[1]:
    case "killed" if world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    case "stopped" if world.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    case "exiting" if world.rank == 1:
        os._exit(3)
    case "raising" if world.rank == 1:
        raise ArithmeticError("a defect")
    case "ending" if world.rank == 1:
        sys.exit(3)
    case "waiting":  # for a signal from outside
        print(f"rank {world.rank} waits\n", end="", flush=True)
        time.sleep(60)
world.barrier()
