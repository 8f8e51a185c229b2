"""A world of which rank 1 fails in the way that the argument names, while all others wait."""

from __future__ import annotations

import os
import signal
import sys
import time

import ocannl as oc

world = oc.World("mpi")
ctx = oc.Context("numpy")
x, y = oc.placeholder("x", o=[3]), oc.placeholder("y", o=[4])
ctx[x], ctx[y] = 1, 2
world.barrier()
match sys.argv[1]:
    case "killed" if world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    case "stopped" if world.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    case "interrupted" if world.rank == 1:
        os.kill(os.getpid(), signal.SIGINT)
    case "ending" if world.rank == 1:
        sys.exit(3)
    case "raising" if world.rank == 1:
        raise ArithmeticError("a defect")
    case "of another program":
        world.agree("the compiled code", f"first line\nline of rank {world.rank}")
    case "with another transfer":
        if world.rank == 0:
            oc.transfer(x, src=ctx, dst=world[1])
        else:
            oc.transfer(y, src=world[0], dst=ctx)
    case "waiting":  # for a signal from outside
        print(f"rank {world.rank} waits\n", end="", flush=True)
        time.sleep(60)
    case "busy" if world.rank == 1:  # longer than heartbeats may be missing: no failure
        end = time.monotonic() + 3
        while time.monotonic() < end:
            sum(range(10_000))
world.barrier()
