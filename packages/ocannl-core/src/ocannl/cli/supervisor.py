"""The supervisor of a rank of `ocannl run`: starts the script, and names the rank if a signal or an error ends it.

    python -I -S supervisor.py PROCESSES python script.py ARGUMENT ...

The launcher ends all processes as soon as it notices a lost one, and reports any of them. It notices by the connections
that a process inherits; the supervisor holds these, too, so it can report its rank before. This file is executed by its
path and imports the standard library only, since every rank starts it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")  # of MPICH, PMIx and Open MPI
PR_SET_PDEATHSIG = 1
FORWARDED = (signal.SIGINT, signal.SIGTERM)
REPORTED = (0, 70)  # statuses after which the process has printed a message if one is needed


def main(processes: str, *command: str) -> int:
    """Executes a command as one of so many processes; returns its exit status, 128 + the number of a signal."""
    supervisor = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # until they can be forwarded
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        _end_with(supervisor)
        os.execvp(command[0], command)
    received = set()

    def forward(number: int, _: object) -> None:
        received.add(number)
        os.kill(child, number)

    for number in FORWARDED:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if -status not in received and status not in REPORTED:
        rank = next((os.environ[name] for name in RANK_VARIABLES if name in os.environ), "?")
        end = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"has ended with status {status}"
        os.write(2, f"ocannl: rank {rank} of {processes} {end}; all processes end\n".encode())
    return 128 - status if status < 0 else status


def _end_with(supervisor: int) -> None:
    """Lets the system kill this process when its parent ends: launchers kill the supervisor alone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
