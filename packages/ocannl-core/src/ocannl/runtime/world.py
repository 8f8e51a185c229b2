"""Worlds: the processes that execute one script together.

A world numbers its processes by rank. `world[r]` stands for the process of rank r where a transfer takes a context. All
processes create their halves of a transfer, and all exchanges of data-parallel training, in the same order.
"""

from __future__ import annotations

import atexit
import difflib
import hashlib
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from types import TracebackType
from typing import Protocol

import numpy as np

from ocannl.base import config
from ocannl.base.config import HEARTBEAT_SECONDS, SHARED_MEMORY, TRANSPORT
from ocannl.base.errors import ArgumentError, CodeError, ProgramMismatch
from ocannl.base.traceback_filtering import public_class
from ocannl.runtime.farewells import CHECK_SECONDS, Farewells
from ocannl.runtime.heartbeats import Heartbeats
from ocannl.runtime.shared_memory import Gatherer, MessageGatherer, SlotRequest, WindowAllocator, WindowGatherer
from ocannl.transport.api import Bytes, PersistentRequest
from ocannl.transport.registry import connect

FAILED = 70  # exit status of all processes after a failure in one of them: EX_SOFTWARE of sysexits.h
FIRST_TAG = 2  # smaller tags are those of heartbeats and farewells
TAGS = 32768
MAX_SHOWN_LINES = 30  # of each of two programs
_POLLS = 10  # before the first look at the clock
_SPIN_SECONDS = 50e-6  # a wait of a process that has a core to itself
_YIELD_SECONDS = 1e-3
_SLEEP_SECONDS = 100e-6
_INTERRUPTS = 3  # that may arrive before further ones are ignored


class Completion(Protocol):
    """A request or an event, which completes."""

    def is_done(self) -> bool: ...


@public_class()
@dataclass(frozen=True, slots=True, eq=False)
class Process:
    """A process of a world, as the source or destination of a transfer."""

    world: World
    rank: int

    def __repr__(self) -> str:
        return f"<process {self.rank} of {self.world.size}>"


@public_class(exclude=("require_open", "wait"))
class World:
    """The processes that execute this script, started by `ocannl run -n 4 script.py` or by `mpiexec`.

    `transport` is the name of a transport, such as "mpi"; the default is the setting `transport`, a single process
    without communication. `rank` and `size` are the number of this process and of all processes. With
    `shared_memory`, by default the setting, processes of one host exchange arrays in shared windows of memory.

    If a process fails, is killed or stops responding, all processes end with a nonzero status, and the message names
    the rank. At the end of the script, every process waits for all.
    """

    def __init__(self, transport: str | None = None, *, shared_memory: bool | None = None) -> None:
        config.check()
        self.transport = connect(TRANSPORT.get(transport))
        self.rank, self.size = self.transport.rank, self.transport.size
        self._is_closed = False
        self._pair_counts: Counter[int] = Counter()
        self._count = 0
        limit_seconds = HEARTBEAT_SECONDS.get()
        self._farewells = Farewells(self.transport, limit_seconds)
        self._heartbeats = Heartbeats(self.transport, limit_seconds, self._fail)
        self._heartbeats.watch([int(content) for content in self.gather(str(os.getpid()).encode())])
        self._barrier: Gatherer = MessageGatherer(self.transport, np.zeros(1, np.uint8))
        self._windows = WindowAllocator(self.transport, range(self.size), self.barrier)
        self._pair_windows: dict[int, WindowAllocator] = {}
        self._is_shared = SHARED_MEMORY.get(shared_memory)
        self.shares_memory = self._is_shared and len(set(self.transport.hosts)) == 1
        self.agree("the setting `shared_memory`", str(self._is_shared))
        if self.shares_memory:
            self._barrier = self.signal()
        if self.size > 1:
            sys.excepthook = self._fail_by_exception
            atexit.register(self.close)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, rank: int) -> Process:
        if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < self.size:
            raise ArgumentError(f"this world has ranks 0 to {self.size - 1}, not {rank!r:.80}")
        if rank == self.rank:
            raise CodeError(f"world[{rank}] is this process: give the context, such as src=ctx")
        return Process(self, rank)

    # ------------------------------------------------------------------------------------------------ communication

    def wait(self, request: Completion, rank: int | None = None) -> None:
        """Waits for a request that needs the process of this rank, or all processes. Raises `ProcessEnded` if it has
        ended. The processor is soon yielded, since there may be fewer cores than processes."""
        for _ in range(_POLLS):
            if request.is_done():
                return
        start = time.perf_counter()
        check_seconds = CHECK_SECONDS
        while not request.is_done():
            elapsed = time.perf_counter() - start
            if elapsed > check_seconds:
                self._farewells.check(rank, start)
                check_seconds = elapsed + CHECK_SECONDS
            if elapsed > _YIELD_SECONDS:
                time.sleep(_SLEEP_SECONDS)
            elif elapsed > _SPIN_SECONDS:
                os.sched_yield()

    def require_open(self) -> None:
        """Raises: CodeError after `close`."""
        if self._is_closed:
            raise CodeError("this world is closed, so that its processes cannot exchange anything")

    def run(self, request: PersistentRequest, rank: int | None = None) -> None:
        """Starts a request, and waits for it."""
        self.require_open()
        request.start()
        self.wait(request, rank)

    def barrier(self) -> None:
        """Waits until all processes have called this."""
        self.run(self._barrier)

    def gatherer(self, memory: Bytes) -> Gatherer:
        """Returns a request that gathers the bytes of all processes, through shared memory or by messages. All
        processes create and start such requests in the same order."""
        if self.shares_memory and self.size > 1:
            return WindowGatherer(self.transport, memory, self._windows)
        return MessageGatherer(self.transport, memory)

    def signal(self) -> Gatherer:
        """Returns a request that is done when all processes have started theirs, on one host. All processes create such
        requests in the same order, and start them in any order."""
        return WindowGatherer(self.transport, np.zeros(0, np.uint8), self._windows)

    def gather(self, content: bytes) -> list[bytes]:
        """Returns the contents of all processes, by rank."""
        sizes = np.zeros(self.size, np.int64)
        self.run(self.transport.gatherer(np.array([len(content)]).view(np.uint8), sizes.view(np.uint8)))
        width = max(1, int(sizes.max()))
        padded = np.frombuffer(content.ljust(width, b"\0"), np.uint8)
        out = np.zeros((self.size, width), np.uint8)
        self.run(self.transport.gatherer(padded, out.reshape(-1)))
        return [row[:size].tobytes() for row, size in zip(out, sizes, strict=True)]

    def agree(self, subject: str, text: str) -> None:
        """Raises `ProgramMismatch` in all processes unless all give the same text; the error shows where the first two
        begin to differ."""
        digests = self.gather(hashlib.sha256(text.encode()).digest())
        if len(set(digests)) == 1:
            return
        texts = [content.decode() for content in self.gather(text.encode())]
        stranger = next(rank for rank, content in enumerate(texts) if content != texts[0])
        first, second = texts[0].splitlines(), texts[stranger].splitlines()
        equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
        shown = slice(max(0, equal - 2), equal + MAX_SHOWN_LINES)
        difference = difflib.unified_diff(first[shown], second[shown], "rank 0", f"rank {stranger}", lineterm="")
        raise ProgramMismatch(
            f"{subject} differs between rank 0 and rank {stranger}, first in line {equal + 1}:\n"
            + "\n".join(difference)
            + "\n  fix  start all processes with the same script, arguments and settings"
        )

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """Context manager in which rank 0 works before all others, which then find its compiled code in the cache."""
        if self.rank:
            self.barrier()
        yield
        if not self.rank:
            self.barrier()

    def next_tag(self) -> int:
        """Returns a tag for a request between any two ranks; all processes call this equally often."""
        self._count += 1
        return FIRST_TAG + 2 * self._count % (TAGS - FIRST_TAG)

    def next_pair_tag(self, rank: int) -> int:
        """Returns a tag for requests between this process and another; both call this equally often."""
        self._pair_counts[rank] += 1
        return FIRST_TAG + 1 + 2 * self._pair_counts[rank] % (TAGS - FIRST_TAG)

    def exchange(self, rank: int, content: Bytes) -> Bytes:
        """Sends bytes to another process, and returns as many of it; both call this."""
        tag, answer = self.next_pair_tag(rank), np.empty_like(content)
        receiver = self.transport.receiver(answer, rank, tag)
        sender = self.transport.sender(content, rank, tag)
        receiver.start()
        self.run(sender, rank)
        self.wait(receiver, rank)
        return answer

    def slot(self, rank: int, size_bytes: int, sends: bool) -> tuple[Bytes, PersistentRequest]:
        """Returns memory for one value, and the request that sends it to another process, or receives it; both call
        this. On one host the memory of both is the same."""
        hosts = self.transport.hosts
        if self._is_shared and hosts[rank] == hosts[self.rank]:
            if rank not in self._pair_windows:
                synchronize = partial(self.exchange, rank, np.zeros(1, np.uint8))
                self._pair_windows[rank] = WindowAllocator(self.transport, sorted([self.rank, rank]), synchronize)
            request = SlotRequest(self.transport, self._pair_windows[rank], sends, size_bytes)
            return request.memory, request
        memory, tag = np.zeros(size_bytes, np.uint8), self.next_pair_tag(rank)
        connect = self.transport.sender if sends else self.transport.receiver
        return memory, connect(memory, rank, tag)

    # ------------------------------------------------------------------------------------------------------ lifetime

    def close(self) -> None:
        """Waits for all processes, and ends all exchanges; without effect after the first call. Arrays in shared memory
        stay valid."""
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self.close)
        self._farewells.send()
        for rank, request in self._farewells.requests():
            self.wait(request, rank)
        self._heartbeats.stop()
        self.transport.close()

    def _fail_by_exception(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        # The launcher repeats a Ctrl-C that the terminal has sent to all processes; it may arrive before it is ignored.
        for _ in range(_INTERRUPTS):
            with suppress(KeyboardInterrupt, ValueError):  # ValueError: the caller is not the main thread
                signal.signal(signal.SIGINT, signal.SIG_IGN)
        traceback.print_exception(kind, error, trace)
        self._fail(f"rank {self.rank} of {self.size} has failed with {kind.__name__}")

    def _fail(self, message: str) -> None:
        """Ends all processes."""
        print(f"ocannl: {message}; all processes end", file=sys.stderr, flush=True)
        self.transport.abort(FAILED)
        os._exit(FAILED)

    def __repr__(self) -> str:
        return f"<process {self.rank} of the {self.size} of {self.transport.name}>"

    def __reduce__(self) -> str:
        raise CodeError("a world belongs to its process and cannot be copied to another")
