"""Sizes of kernels: by what the GPU is, smaller ones where shared memory is short, and others that are tried."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

pytest.importorskip("triton")

from fake_cuda import FakeCuda
from test_simulated import made

import ocannl as oc
from ocannl.backend import CompileError, registry
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.pipeline import optimize
from ocannl.runtime import benchmark, compile_cache
from ocannl_backend_triton.backend import CAPABILITIES, TritonBackend
from ocannl_backend_triton.compile import binaries
from ocannl_backend_triton.launch_config import LEAST, USUAL, Sizes
from ocannl_backend_triton.package import Binary
from ocannl_backend_triton.shrink_to_shared_memory import fitted, sizes_of
from ocannl_backend_triton.source import module
from ocannl_backend_triton.target import KIB, KNOWN


def programs(rows=256, inner=256, columns=256, dtype=oc.float32):
    """A product of matrices, and something of other cells in a nest of its own."""
    x = oc.placeholder("x", b=[rows], o=[inner], dtype=dtype)
    w = oc.placeholder("w", b=[], o=[columns], i=[inner], dtype=dtype)
    y = w @ x
    z = oc.exp(oc.placeholder("v", b=[], o=[5000]))
    code = oc.seq(y.forward, z.forward).elaborate()
    return [optimize(lower(code.comp, "step"), {each.value: "a test" for each in (y, z)}, CAPABILITIES)]


class Machine:
    """Compiles for some GPUs, and says what kernels need as it likes."""

    words = "a test"

    def __init__(self, *targets, need=None):
        self.targets, self.need, self.compiled = targets, need, []

    def compile(self, modules):
        self.compiled.append(modules)
        if self.need is None:
            return {target.sm: [binaries(each, target) for each in modules] for target in self.targets}
        return {target.sm: [[self.binary(k) for k in each.kernels] for each in modules] for target in self.targets}

    def binary(self, kernel):
        return Binary(kernel.name, b"", 32 * kernel.num_warps, self.need(kernel), ())


def block_bytes(kernel):
    """Of what is under way in a product, which is the first nest."""
    if kernel.nest:
        return 0
    sizes = dict(kernel.constants)
    wide = [value for value in sizes.values() if value > 1]
    return kernel.num_stages * 4 * max(wide) * sum(wide)


@pytest.mark.parametrize(("sm", "stages"), [(80, 4), (86, 3), (89, 3), (90, 4), (100, 4), (120, 3)])
def test_sizes_follow_from_the_gpu(sm, stages):
    sizes = Sizes.of(KNOWN[sm])
    assert sizes.stages == stages and sizes.programs == KNOWN[sm].multiprocessors
    assert sizes.stages * 2 * sizes.tiles[0] * sizes.depth_bytes <= KNOWN[sm].shared_bytes
    assert replace(sizes, stages=USUAL.stages, programs=USUAL.programs) == USUAL


@pytest.mark.parametrize("first", [USUAL, *sizes_of(Machine(KNOWN[90]))])
def test_smaller_and_smaller_sizes_come_to_an_end(first):
    seen = [first]
    while (less := seen[-1].smaller()) is not None:
        seen.append(less)
    last = seen[-1]
    assert len(set(seen)) == len(seen) < 20
    assert last.stages == 1 and last.depth_bytes == LEAST
    assert max(last.tile or last.tiles) <= LEAST


@pytest.mark.parametrize("rows", [128, 1024, 4096])
@pytest.mark.parametrize("sm", [80, 90])
def test_large_tiles_are_for_many_of_them(rows, sm):
    (proc,) = programs(rows, 64, rows)
    kernel = module(proc, "ieee", Sizes.of(KNOWN[sm])).kernels[0]
    tiles = (rows // 128) ** 2
    large = tiles >= KNOWN[sm].multiprocessors
    assert kernel.grid[0] == (tiles if large else (rows // 64) ** 2)


def test_what_needs_too_much_is_made_smaller_and_the_rest_is_left():
    target = replace(KNOWN[80], shared_bytes=24 * KIB)
    machine = Machine(target, need=block_bytes)
    procs = programs()
    (plain,) = (module(proc, "ieee", Sizes.of(target)) for proc in procs)
    (made_,), found = fitted(procs, [{}], Sizes.of(target), machine)
    assert block_bytes(plain.kernels[0]) > target.shared_bytes
    assert all(binary.shared_bytes <= target.shared_bytes for binary in found[80][0])
    assert made_.kernels[0] != plain.kernels[0] and made_.kernels[1:] == plain.kernels[1:]
    assert len(machine.compiled) > 1


def test_what_never_fits_is_refused():
    machine = Machine(KNOWN[90], need=lambda kernel: 1 << 19)
    with pytest.raises(CompileError, match="needs 524288 bytes of shared memory, and a block of sm_90 has at"):
        fitted(programs(), [{}], USUAL, machine)


def test_of_several_gpus_all_are_satisfied():
    small = replace(KNOWN[86], shared_bytes=16 * KIB)
    machine = Machine(KNOWN[90], small, need=block_bytes)
    assert sizes_of(machine)[0] == Sizes.of(small)
    _, found = fitted(programs(), [{}], sizes_of(machine)[0], machine)
    assert all(binary.shared_bytes <= small.shared_bytes for binary in found[86][0])


@pytest.mark.parametrize("dtype", [oc.float32, oc.bfloat16])
def test_machine_code_fits_where_there_is_little(dtype):
    target = replace(KNOWN[80], shared_bytes=12 * KIB)
    procs = programs(dtype=dtype)
    plain = binaries(module(procs[0], "ieee", Sizes.of(target)), target)
    _, found = fitted(procs, [{}], Sizes.of(target), Machine(target))
    assert max(binary.shared_bytes for binary in plain) > target.shared_bytes
    assert all(binary.shared_bytes <= target.shared_bytes for binary in found[80][0])


def test_each_way_is_another_code():
    backend = TritonBackend(Machine(KNOWN[90], need=lambda kernel: 0))
    (proc,) = programs()
    ways = backend.ways(proc)
    assert ways[0] == 0 and 8 < len(ways) <= 24
    texts = [backend.compile_in([proc], [[way, way]]).modules[0] for way in ways]
    assert len({(each.source, each.kernels) for each in texts}) == len(ways)
    assert backend.compile([proc]).modules[0] == texts[0]


def test_the_interpreter_has_one_way(triton):
    (proc,) = programs(16, 16, 16)
    assert triton.ways(proc) == [0]


# --------------------------------------------------------------------------------------------- on a simulated GPU


@pytest.fixture
def searched(tmp_path, monkeypatch):
    """A backend on a simulated GPU, and what the search has compared."""
    monkeypatch.setenv("OCANNL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(benchmark, "_known", {})
    monkeypatch.setattr(benchmark, "ROUNDS", 1)
    monkeypatch.setattr(benchmark, "STRETCH_S", 0.0)
    monkeypatch.setattr(machine, "MIN_AUTOTUNED_OPS", 0)
    compile_cache.forget()
    with patch.dict(registry._backends, triton=made(FakeCuda())):
        yield registry._backends["triton"]
    compile_cache.forget()


def product(ctx, rng):
    x, w = oc.placeholder("x", b=[48], o=[40]), oc.placeholder("w", b=[], o=[72], i=[40])
    y = oc.relu(w @ x) + 1
    ctx[x], ctx[w] = (rng.integers(-3, 4, t.dims).astype("float32") for t in (x, w))
    routine = ctx.compile(y.forward)
    routine()
    return routine, ctx[y], np.maximum(ctx[x] @ ctx[w].T, 0) + 1


def kernels(routine):
    """With all of their sizes."""
    return [each.kernels for each in routine._program.code.modules]


@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_ways_are_timed_on_the_gpu(searched, queue):
    with oc.settings(search=100):
        _, got, wanted = product(oc.Context("triton", queue=queue), np.random.default_rng(0))
    assert np.array_equal(got, wanted)
    assert benchmark._known and searched._machine.fake.launched


def test_the_fastest_way_is_taken_and_known_again(searched, monkeypatch):
    asked = []

    def compared(self, rivals, codes):
        asked.append(len(codes))
        return [1.0] * (len(codes) - 1) + [0.1]

    monkeypatch.setattr(benchmark.Timer, "compared", compared)
    rng = np.random.default_rng(0)
    plain, *_ = product(oc.Context("triton"), rng)
    with oc.settings(search=100):
        tried, second, wanted = product(oc.Context("triton"), rng)
    assert np.array_equal(second, wanted)
    assert kernels(tried) != kernels(plain) and asked
    compile_cache.forget()
    benchmark._known.clear()
    with oc.settings(search=100):
        again, third, wanted = product(oc.Context("triton"), rng)
    assert np.array_equal(third, wanted)
    assert kernels(again) == kernels(tried) and len(asked) == 1


def test_way_that_the_compiler_refuses_is_left_out(searched, monkeypatch):
    seen = []
    compared = lambda self, rivals, codes: seen.extend(codes) or [1.0] * len(codes)  # noqa: E731
    monkeypatch.setattr(benchmark.Timer, "compared", compared)
    real = type(searched).compile_in

    def compile_in(self, procs, ways):
        if [*ways[0]] == [5]:
            raise CompileError("not this one")
        return real(self, procs, ways)

    monkeypatch.setattr(type(searched), "compile_in", compile_in)
    with oc.settings(search=100):
        _, got, wanted = product(oc.Context("triton"), np.random.default_rng(0))
    assert np.array_equal(got, wanted)
    assert seen.count(None) <= 1 < len(seen)
