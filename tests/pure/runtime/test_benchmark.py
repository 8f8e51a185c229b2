"""Timing on a real backend, and what is remembered of it."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace

import numpy as np
import pytest

from ocannl.backend import registry
from ocannl.base.config import settings
from ocannl.base.errors import CompileError, OutOfMemory
from ocannl.ir.loops import MemorySpace
from ocannl.lower.lower import lower
from ocannl.opt import autotune as module
from ocannl.opt import machine_model as machine
from ocannl.opt.autotune import standalone_program
from ocannl.opt.pipeline import optimize
from ocannl.runtime import benchmark, compile_cache
from ocannl.runtime.benchmark import Autotuner
from ocannl.runtime.context import Context

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch):
    monkeypatch.setattr(benchmark, "_memory", {})
    monkeypatch.setattr(benchmark, "ROUNDS", 2)
    monkeypatch.setattr(benchmark, "MIN_SAMPLE_SECONDS", 1e-6)
    monkeypatch.setattr(machine, "MIN_AUTOTUNED_OPS", 0)


class Watched:
    """The LLVM backend, counting; `refuses` says which programs."""

    def __init__(self):
        self.real, self.batches, self.refuses = registry.resolve("llvm"), [], lambda name: False

    def __getattr__(self, name):
        return getattr(self.real, name)

    def compile(self, procs):
        self.batches.append([proc.name for proc in procs])
        if any(self.refuses(proc.name) for proc in procs):
            raise CompileError("not this one")
        return self.real.compile(procs)


@pytest.fixture
def backend(monkeypatch):
    watched = Watched()
    monkeypatch.setattr("ocannl.runtime.context.resolve", lambda name=None: watched)
    return watched


def searcher(backend, seconds=100, threads=1):
    return Autotuner(backend, backend.device(0), threads, seconds)


def product(build, rows=8):
    w, x, y = build.param("w", 40, 24), build.node("x", rows, 24), build.result("y", rows, 40)
    return {"w": w, "x": x, "y": y}, build.matmul(y, w, x)


def programs(build, backend, count=3):
    """Some programs on the same arrays."""
    _, code = product(build)
    proc = optimize(lower(code, "step"), {}, backend.capabilities)
    return [replace(proc, name=f"step_{n}") for n in range(count)]


def test_each_program_is_measured(build, backend):
    device = backend.device(0)
    before = device.bytes_in_use
    times = searcher(backend).timer().seconds(programs(build, backend))
    assert len(times) == 3 and all(0 < time < 1 for time in times)
    assert device.bytes_in_use == before


def test_rejected_program_is_infinitely_slow(build, backend):
    backend.refuses = lambda name: name == "step_1"
    times = searcher(backend).timer().seconds(programs(build, backend))
    assert [math.isinf(time) for time in times] == [False, True, False]


def test_nothing_is_measured_after_the_deadline(build, backend, monkeypatch):
    monkeypatch.setattr(module, "schedule_and_finish", None)
    late = searcher(backend, seconds=-1).timer()
    assert not late.has_expired
    _, code = product(build)
    proc = optimize(lower(code, "step"), {}, backend.capabilities, without=frozenset(["schedule", "allocate_memory"]))
    assert module.autotune(proc, backend.capabilities, late) == {}
    assert late.has_expired and not backend.batches


def test_program_without_memory_is_not_measured(build, backend, monkeypatch):
    def refuse(self, size_bytes):
        raise OutOfMemory("none left")

    monkeypatch.setattr(type(backend.device(0)), "alloc_pool", refuse)
    assert searcher(backend).timer().seconds(programs(build, backend)) is None


def nest(build, backend, rows=8):
    _, code = product(build, rows)
    proc = optimize(lower(code, "step"), {}, backend.capabilities, without=frozenset(["schedule", "allocate_memory"]))
    return standalone_program(proc, proc.body[-1])


SECONDS = (0.5, 0.25, math.inf, 0.125), ()


@pytest.mark.parametrize("warm", ["memory", "disk"])
def test_choices_are_cached_by_canonical_nest(build, backend, warm):
    searcher(backend).timer().insert(nest(build, backend), (3, 0), SECONDS)
    if warm == "disk":
        benchmark._memory.clear()
    assert searcher(backend).timer().lookup(nest(build, backend)) == (3, 0)  # other nodes
    assert (timer := searcher(backend).timer()).cached(timer.key(nest(build, backend))) == ((3, 0), SECONDS)
    assert searcher(backend).timer().lookup(nest(build, backend, rows=9)) is None
    assert searcher(backend, threads=2).timer().lookup(nest(build, backend)) is None


def test_damaged_record_is_ignored(build, backend, private_cache, warnings):
    searcher(backend).timer().insert(nest(build, backend), (3, 0), SECONDS)
    benchmark._memory.clear()
    (path,) = (private_cache.parent / "plans").glob("*/*")
    path.write_bytes(path.read_bytes()[:-2] + b"1]")
    assert searcher(backend).timer().lookup(nest(build, backend)) is None
    assert "damaged" in warnings.text


def test_in_memory_cache_without_disk_cache(build, backend, private_cache):
    with settings(cache=False):
        searcher(backend).timer().insert(nest(build, backend), (3, 0), SECONDS)
        assert searcher(backend).timer().lookup(nest(build, backend)) == (3, 0)
    assert not (private_cache.parent / "plans").exists()


def compiled(build, ctx):
    nodes, code = product(build)
    routine = ctx.compile_comp(code, {nodes["y"]: "keep="}, "step")
    rng = np.random.default_rng(0)
    for name in "wx":
        ctx.set(nodes[name], rng.standard_normal(nodes[name].dims).astype("float32"))
    routine()
    return routine, ctx.get(nodes["y"])


def fastest(monkeypatch, number):
    monkeypatch.setattr(
        benchmark.Benchmark, "seconds", lambda self, rivals: [0.1 if n == number else 1.0 for n in range(len(rivals))]
    )


def test_routine_uses_the_fastest_plans(build, backend, monkeypatch):
    plain, wanted = compiled(build, Context("llvm", threads=1))
    fastest(monkeypatch, 2)
    with settings(autotune=10):
        tried, got = compiled(build, Context("llvm", threads=1))
    assert tried._program.choices and not plain._program.choices
    assert tried.stages()["schedule"] != plain.stages()["schedule"]
    assert got.tobytes() == wanted.tobytes()
    compile_cache.clear()  # what is on disk is the same
    with settings(autotune=10):
        again, _ = compiled(build, Context("llvm", threads=1))
    assert again._program.choices == tried._program.choices
    assert str(again.stages()) == str(tried.stages())


def test_incomplete_autotuning_is_repeated(build, backend, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(benchmark, "perf_counter", iter(range(0, 10**6, 1000)).__next__)
        with settings(autotune=10):
            first, _ = compiled(build, Context("llvm", threads=1))
    assert not first._program.choices
    fastest(monkeypatch, 2)
    with settings(autotune=10):
        second, _ = compiled(build, Context("llvm", threads=1))
    assert second._program.choices


def test_autotuning_measures(build, backend):
    with settings(autotune=10):
        compiled(build, Context("llvm", threads=2))
        batches = len(backend.batches)
        assert batches > 1
        compile_cache.clear()
        compiled(build, Context("llvm", threads=2))
    assert len(backend.batches) == batches  # all is on disk
    compiled(build, Context("llvm", threads=2))
    assert len(backend.batches) == batches + 1  # by the model, which is another program


def test_backend_without_schedules_is_not_autotuned(build):
    with settings(autotune=10):
        routine, _ = compiled(build, Context("numpy"))
    assert not routine._program.choices
    assert all(buf.space is MemorySpace.GLOBAL or buf.offset is not None for buf in routine._program.rebuild().bufs)
