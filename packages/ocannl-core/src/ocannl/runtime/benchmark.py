"""How long nests take on this machine, by any plan: measured once, and remembered."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from math import inf
from time import perf_counter
from typing import Self

import numpy as np

from ocannl.backend.api import Backend, Code, Device, Location, Pool, Queue
from ocannl.base.errors import CompileError, Unsupported
from ocannl.base.log import logger
from ocannl.codegen.deduplicate import anonymous
from ocannl.codegen.nests import nests
from ocannl.ir.loops import Home, Proc
from ocannl.runtime import fingerprint
from ocannl.runtime.disk_cache import Record, open_cache

ROUNDS = 12  # in which programs take turns
STRETCH_S = 1e-4  # of calls in a turn, at least
CLOSE = 1.2  # times the best time, from where on a program is out after a few rounds
EARLY = 3
BITS = 0x3F  # every byte of arrays of fractions: each is a number that is not small, whatever the type
_log = logger("runtime.timer")
_known: dict[str, tuple[int, ...]] = {}


@dataclass(frozen=True, slots=True)
class Searcher:
    """Where plans are tried, by how many threads, and for how long for each routine."""

    backend: Backend
    device: Device
    threads: int
    seconds: float

    @property
    def words(self) -> str:
        return f"searched with {self.threads} threads"

    def timer(self) -> Timer:
        """One whose time begins now."""
        return Timer(self, perf_counter() + self.seconds)


@dataclass(slots=True)
class Timer:
    """Implements `opt.search.Timer`."""

    where: Searcher
    deadline: float
    is_over: bool = field(default=False, init=False)  # and something was left to do

    # ------------------------------------------------------------------------------------------------ what was chosen

    def key(self, nest: Proc) -> str:
        """Of everything that decides which programs are tried, and how long they take."""
        backend = self.where.backend
        parts = [
            fingerprint.of_package("ocannl"),
            fingerprint.of_package(type(backend).__module__.partition(".")[0]),
            backend.name,
            backend.version,
            backend.capabilities.canonical(),
            self.where.words,
            *map(anonymous, nests(nest)),
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def recall(self, nest: Proc) -> tuple[int, ...] | None:
        key = self.key(nest)
        if key not in _known:
            cache = open_cache("plans")
            record = cache.load(key) if cache else None
            if record is None:
                return None
            chosen = record.header.get("chosen")
            if not isinstance(chosen, list) or not all(isinstance(n, int) for n in chosen):
                _log.warning("a record of chosen plans has another form: %r", chosen)
                return None
            _known[key] = tuple(chosen)
        return _known[key]

    def remember(self, nest: Proc, chosen: tuple[int, ...]) -> None:
        key = self.key(nest)
        _known[key] = chosen
        cache = open_cache("plans")
        if cache is not None:
            cache.store(key, Record({"chosen": list(chosen)}, b""))

    # ----------------------------------------------------------------------------------------------------- measuring

    def is_late(self) -> bool:
        self.is_over = self.is_over or perf_counter() > self.deadline
        return self.is_over

    def seconds(self, rivals: Sequence[Proc]) -> list[float] | None:
        return self.compared(rivals, _compiled(rivals, self.where.backend))

    def compared(self, rivals: Sequence[Proc], codes: Sequence[Code | None]) -> list[float] | None:
        """The same of programs that are compiled: each is in the code at its place, if any."""
        queue = self.where.device.queue(False, self.where.threads)
        try:
            with _Scratch(queue, rivals) as scratch:
                runs = {n: scratch.bound(self.where.backend, code, rivals[n]) for n, code in enumerate(codes) if code}
                took = _timed(runs)
        except MemoryError as wrong:  # the backend's, or that of the host
            _log.debug("`%s` is not tried: %s", rivals[0].name, wrong)
            return None
        found = [took.get(n, inf) for n in range(len(rivals))]
        _log.debug("`%s`: %s us", rivals[0].name, ", ".join(f"{each * 1e6:.2f}" for each in found))
        return found


def _compiled(procs: Sequence[Proc], backend: Backend) -> list[Code | None]:
    """All at once; one by one if some are refused, which leaves these out."""
    try:
        return [backend.compile(procs)] * len(procs)
    except (CompileError, Unsupported):
        found: list[Code | None] = []
        for proc in procs:
            try:
                found.append(backend.compile([proc]))
            except (CompileError, Unsupported) as wrong:
                _log.debug("`%s` is left out: %s", proc.name, wrong)
                found.append(None)
        return found


class _Scratch:
    """Memory for programs that are timed: arrays of their own, and one arena."""

    def __init__(self, queue: Queue, procs: Sequence[Proc]) -> None:
        self.queue = queue
        self.pools: list[Pool] = []
        self.bufs = [buf for buf in procs[0].bufs if buf.home is Home.POOL]
        self.arena = max(proc.arena for proc in procs)

    def __enter__(self) -> Self:
        try:
            self.arrays = [self.held(buf.nbytes, BITS if buf.precision.is_float else 0) for buf in self.bufs]
            self.own = self.held(self.arena, 0)
        except BaseException:
            self.__exit__()
            raise
        return self

    def held(self, size_bytes: int, byte: int) -> Location:
        size_bytes = max(1, size_bytes)
        self.pools.append(self.queue.device.alloc_pool(size_bytes))
        where = Location(self.pools[-1], 0)
        self.queue.from_host(where, np.full(size_bytes, byte, np.uint8))
        self.queue.synchronize()
        return where

    def __exit__(self, *_: object) -> None:
        for pool in self.pools:
            self.queue.device.free_pool(pool)

    def bound(self, backend: Backend, code: Code, proc: Proc) -> Run:
        """Runs the program so many times, and waits."""
        locations = [*self.arrays, *([self.own] if proc.arena else [])]
        entry = backend.link(code, proc.name, self.queue, locations)
        values = tuple([sym.lo for sym in proc.syms])
        call = partial(entry, *values) if self.queue.immediate else partial(self.queue.submit, entry, *values)

        def run(calls: int) -> None:
            for _ in repeat(None, calls):
                call()
            self.queue.synchronize()

        return run


Run = Callable[[int], None]


def _timed(runs: Mapping[int, Run]) -> dict[int, float]:
    """The shortest time of a call that each of them has had, when all take turns; and those that are slow, few."""
    calls = {n: _calls(run) for n, run in runs.items()}
    best = dict.fromkeys(runs, inf)
    for turn in range(ROUNDS):
        bound = CLOSE * min(best.values(), default=inf) if turn >= EARLY else inf
        for n, run in runs.items():
            if n == 0 or best[n] <= bound:
                start = perf_counter()
                run(calls[n])
                best[n] = min(best[n], (perf_counter() - start) / calls[n])
    return best


def _calls(run: Run) -> int:
    """So many take long enough; and pages and caches are now as they are in later ones."""
    calls = 1
    while True:
        start = perf_counter()
        run(calls)
        if perf_counter() - start >= STRETCH_S:
            return calls
        calls *= 2
