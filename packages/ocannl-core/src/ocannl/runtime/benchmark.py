"""Benchmarking of candidate plans and code variants on this machine; choices and times are cached."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from math import inf
from time import perf_counter
from typing import Any, NamedTuple, Self

import numpy as np

from ocannl.backend.api import Backend, CompiledCode, Device, Location, Pool, Queue
from ocannl.backend.returned_values import compile_code, link_program
from ocannl.base.disk_cache import Record, open_cache
from ocannl.base.errors import CompileError, Unsupported
from ocannl.base.log import logger
from ocannl.base.plugin_settings import code_values
from ocannl.codegen.identical_code_folding import canonical_text
from ocannl.codegen.outlining import outline_nests
from ocannl.ir.loops import MemorySpace, Proc
from ocannl.opt.autotune import Seconds
from ocannl.runtime import source_fingerprint

ROUNDS = 12  # of interleaved samples, one per program
MIN_SAMPLE_SECONDS = 1e-4
MAX_SLOWDOWN = 1.2  # relative to the best time; slower programs are dropped after `MIN_ROUNDS`
MIN_ROUNDS = 3
FILL_BYTE = 0x3F  # repeated, a normal number of moderate size in every float type
_log = logger("runtime.benchmark")
_memory: dict[str, Tuning] = {}


class Tuning(NamedTuple):
    """The chosen candidates of a nest, and the seconds of all candidates."""

    chosen: tuple[int, ...]
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class Autotuner:
    """The configuration of autotuning: backend, device, number of threads, and time budget per routine."""

    backend: Backend
    device: Device
    threads: int
    seconds: float

    @property
    def plan_origin(self) -> str:
        """Identifies the plans in cache keys."""
        return f"searched with {self.threads} threads"

    def timer(self) -> Benchmark:
        """Returns a benchmark whose time budget starts now."""
        return Benchmark(self, perf_counter() + self.seconds)


@dataclass(slots=True)
class Benchmark:
    """Implements `opt.autotune.PlanBenchmark`."""

    autotuner: Autotuner
    deadline: float
    has_expired: bool = field(default=False, init=False)  # before all candidates were measured

    # ----------------------------------------------------------------------------------------------- cached choices

    def key(self, nest: Proc) -> str:
        """Returns the cache key: a hash of everything that determines the candidates and their run times."""
        backend = self.autotuner.backend
        parts = [
            source_fingerprint.package_fingerprint("ocannl"),
            source_fingerprint.package_fingerprint(package := type(backend).__module__.partition(".")[0]),
            code_values(package),
            backend.name,
            backend.version,
            backend.capabilities.canonical(),
            self.autotuner.plan_origin,
            *map(canonical_text, outline_nests(nest)),
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def lookup(self, nest: Proc) -> tuple[int, ...] | None:
        """Returns the cached choice for an equal nest, from memory or disk."""
        tuning = self.cached(self.key(nest))
        return tuning.chosen if tuning else None

    def cached(self, key: str) -> Tuning | None:
        """Returns the cached choice and times of a nest with the key, from memory or disk."""
        if key not in _memory:
            cache = open_cache("plans")
            record = cache.load(key) if cache else None
            if record is None:
                return None
            choice: Any = record.header.get("chosen")
            seconds: Any = record.header.get("seconds")
            if _are(int, choice) and _are(list, seconds) and all(_are(float, row) for row in seconds):
                _memory[key] = Tuning(tuple(choice), tuple([tuple(row) for row in seconds]))
            else:
                _log.warning("a record of chosen plans has another form: %r, %r", choice, seconds)
                return None
        return _memory[key]

    def insert(self, nest: Proc, choice: tuple[int, ...], seconds: Seconds) -> None:
        key = self.key(nest)
        _memory[key] = Tuning(choice, seconds)
        cache = open_cache("plans")
        if cache is not None:
            cache.store(key, Record({"chosen": choice, "seconds": seconds}, b""))

    # -------------------------------------------------------------------------------------------------- measurement

    def check_deadline(self) -> bool:
        """Returns whether the time budget is exhausted; records it in `has_expired`."""
        self.has_expired = self.has_expired or perf_counter() > self.deadline
        return self.has_expired

    def seconds(self, candidates: Sequence[Proc]) -> list[float] | None:
        return self.benchmark(candidates, _compiled(candidates, self.autotuner.backend))

    def benchmark(self, candidates: Sequence[Proc], codes: Sequence[CompiledCode | None]) -> list[float] | None:
        """Returns the seconds per call of each candidate, infinite without code; None if memory is insufficient."""
        queue = self.autotuner.device.queue(False, self.autotuner.threads)
        try:
            with _Scratch(queue, candidates) as scratch:
                backend = self.autotuner.backend
                runs = {n: scratch.bind(backend, code, candidates[n]) for n, code in enumerate(codes) if code}
                best_times = _best_times(runs)
        except MemoryError as error:  # device or host memory
            _log.debug("`%s` is not tried: %s", candidates[0].name, error)
            return None
        times = [best_times.get(n, inf) for n in range(len(candidates))]
        _log.debug("`%s`: %s us", candidates[0].name, ", ".join(f"{seconds * 1e6:.2f}" for seconds in times))
        return times


def _are(kind: type, values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def _compiled(procs: Sequence[Proc], backend: Backend) -> list[CompiledCode | None]:
    """Compiles all programs together; if that fails, one by one, with None for those that are rejected."""
    try:
        return [compile_code(backend, procs)] * len(procs)
    except (CompileError, Unsupported):
        codes: list[CompiledCode | None] = []
        for proc in procs:
            try:
                codes.append(compile_code(backend, [proc]))
            except (CompileError, Unsupported) as error:
                _log.debug("`%s` is left out: %s", proc.name, error)
                codes.append(None)
        return codes


class _Scratch:
    """Temporary arrays and a shared arena for the benchmarked programs."""

    def __init__(self, queue: Queue, procs: Sequence[Proc]) -> None:
        self.queue = queue
        self.pools: list[Pool] = []
        self.bufs = [buf for buf in procs[0].bufs if buf.space is MemorySpace.GLOBAL]
        self.arena = max(proc.arena for proc in procs)

    def __enter__(self) -> Self:
        try:
            self.arrays = [self._filled(buf.nbytes, FILL_BYTE if buf.precision.is_float else 0) for buf in self.bufs]
            self.arena_location = self._filled(self.arena, 0)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _filled(self, size_bytes: int, byte: int) -> Location:
        size_bytes = max(1, size_bytes)
        self.pools.append(self.queue.device.alloc_pool(size_bytes))
        location = Location(self.pools[-1], 0)
        self.queue.from_host(location, np.full(size_bytes, byte, np.uint8))
        self.queue.synchronize()
        return location

    def __exit__(self, *_: object) -> None:
        for pool in self.pools:
            self.queue.device.free_pool(pool)

    def bind(self, backend: Backend, code: CompiledCode, proc: Proc) -> Run:
        """Returns a function that calls the program a given number of times and waits for completion."""
        locations = [*self.arrays, *([self.arena_location] if proc.arena else [])]
        entry = link_program(backend, code, proc.name, self.queue, locations)
        values = tuple([sym.lo for sym in proc.syms])
        call = partial(entry, *values) if self.queue.immediate else partial(self.queue.submit, entry, *values)

        def run(calls: int) -> None:
            for _ in repeat(None, calls):
                call()
            self.queue.synchronize()

        return run


Run = Callable[[int], None]


def _best_times(runs: Mapping[int, Run]) -> dict[int, float]:
    """Returns the minimal seconds per call of each program over interleaved rounds; slow programs are dropped early."""
    calls = {n: _calls_per_sample(run) for n, run in runs.items()}
    best = dict.fromkeys(runs, inf)
    for round_number in range(ROUNDS):
        bound = MAX_SLOWDOWN * min(best.values(), default=inf) if round_number >= MIN_ROUNDS else inf
        for n, run in runs.items():
            if n == 0 or best[n] <= bound:
                start = perf_counter()
                run(calls[n])
                best[n] = min(best[n], (perf_counter() - start) / calls[n])
    return best


def _calls_per_sample(run: Run) -> int:
    """Returns the number of calls that fill a sample; also warms up pages and caches."""
    calls = 1
    while True:
        start = perf_counter()
        run(calls)
        if perf_counter() - start >= MIN_SAMPLE_SECONDS:
            return calls
        calls *= 2
