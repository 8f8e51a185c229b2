"""A world of which rank 1 fails in the way that the first argument names, or trains another model than all others.

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
from ocannl import train

folder = Path(sys.argv[2])
world = oc.World("mpi")


class StampedMessages:
    """Standard error, of which each text is a time stamp."""

    def write(self, text: str) -> int:
        (folder / "noticed").touch()
        return sys.__stderr__.write(text)

    def flush(self) -> None:
        sys.__stderr__.flush()


class InterruptedMessages(StampedMessages):
    """Standard error, of which each text is interrupted."""

    def write(self, text: str) -> int:
        signal.raise_signal(signal.SIGINT)
        return super().write(text)


def stamp() -> None:
    while True:
        own.touch()
        time.sleep(0.02)


@oc.op
def layer(x, *, activation):
    w = oc.param()
    return activation(w @ x)


def train_models(activation):
    x, t = oc.placeholder("x", b=[4], o=[5]), oc.placeholder("t", b=[4], o=[2])
    loss = ((layer(activation=activation)(x) - t) ** 2).sum()
    train.DataParallel([oc.Context("llvm")], loss, train.sgd(loss, 0.1), world=world)


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
    case "interrupted" if world.rank == 1:
        sys.stderr = InterruptedMessages()
        raise KeyboardInterrupt
    case "ending" if world.rank == 1:
        sys.exit(3)
    case "differing":
        train_models(oc.exp if world.rank == 1 else oc.sin)
    case "waiting":  # for a signal from outside
        print(f"rank {world.rank} waits\n", end="", flush=True)
        time.sleep(60)
world.barrier()
