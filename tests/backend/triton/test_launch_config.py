"""Launch configurations: defaults by GPU, shrinking to shared memory, and autotuning."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

pytest.importorskip("triton")

from fake_cuda import FakeCuda
from test_simulated import simulated_backend

import ocannl as oc
from ocannl.backend import CompileError, registry
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.pipeline import optimize
from ocannl.runtime import benchmark, compile_cache
from ocannl_backend_triton.backend import CAPABILITIES, TritonBackend
from ocannl_backend_triton.compile import compile_kernels
from ocannl_backend_triton.cuda_target import KIB, TARGETS
from ocannl_backend_triton.emit_module import generate_module
from ocannl_backend_triton.launch_config import DEFAULT_CONFIG, MIN_K_BLOCK_BYTES, MIN_TILE, LaunchConfig
from ocannl_backend_triton.serialization import Binary
from ocannl_backend_triton.shrink_to_shared_memory import compile_to_fit, launch_configs


def build_programs(rows=256, inner=256, columns=256, dtype=oc.float32):
    """A matrix product, and an elementwise operation in a nest of its own."""
    x = oc.placeholder("x", b=[rows], o=[inner], dtype=dtype)
    w = oc.placeholder("w", b=[], o=[columns], i=[inner], dtype=dtype)
    y = w @ x
    z = oc.exp(oc.placeholder("v", b=[], o=[5000]))
    code = oc.seq(y.forward, z.forward).elaborate()
    return [optimize(lower(code.comp, "step"), {module.value: "a test" for module in (y, z)}, CAPABILITIES)]


class Machine:
    """Compiles for some GPUs; `need` gives the shared memory of kernels without compiling them."""

    fingerprint = "a test"

    def __init__(self, *targets, need=None):
        self.targets, self.need, self.compiled = targets, need, []

    def compile(self, modules):
        self.compiled.append(modules)
        if self.need is None:
            return {target.sm: [compile_kernels(module, target) for module in modules] for target in self.targets}
        return {target.sm: [[self.binary(k) for k in module.kernels] for module in modules] for target in self.targets}

    def binary(self, kernel):
        return Binary(kernel.name, b"", 32 * kernel.num_warps, self.need(kernel), ())


def product_shared_bytes(kernel):
    """Shared memory for the operands in flight of the matrix product, which is the first nest."""
    if kernel.nest:
        return 0
    config = dict(kernel.constants)
    wide = [value for value in config.values() if value > 1]
    return kernel.num_stages * 4 * max(wide) * sum(wide)


@pytest.mark.parametrize(("sm", "stages"), [(80, 4), (86, 3), (89, 3), (90, 4), (100, 4), (120, 3)])
def test_configuration_follows_from_the_gpu(sm, stages):
    config = LaunchConfig.for_target(TARGETS[sm])
    assert config.num_stages == stages and config.min_programs == TARGETS[sm].multiprocessors
    assert config.num_stages * 2 * config.tile_sizes[0] * config.k_block_bytes <= TARGETS[sm].shared_bytes
    unspecific = replace(config, num_stages=DEFAULT_CONFIG.num_stages, min_programs=DEFAULT_CONFIG.min_programs)
    assert unspecific == DEFAULT_CONFIG


@pytest.mark.parametrize("first", [DEFAULT_CONFIG, *launch_configs(Machine(TARGETS[90]))])
def test_shrinking_terminates(first):
    seen = [first]
    while (smaller := seen[-1].shrunk()) is not None:
        seen.append(smaller)
    last = seen[-1]
    assert len(set(seen)) == len(seen) < 20
    assert last.num_stages == 1 and last.k_block_bytes == MIN_K_BLOCK_BYTES
    assert max(last.tile or last.tile_sizes) <= MIN_TILE


@pytest.mark.parametrize("rows", [128, 1024, 4096])
@pytest.mark.parametrize("sm", [80, 90])
def test_large_tiles_need_enough_programs(rows, sm):
    (proc,) = build_programs(rows, 64, rows)
    kernel = generate_module(proc, "ieee", LaunchConfig.for_target(TARGETS[sm])).kernels[0]
    tiles = (rows // 128) ** 2
    large = tiles >= TARGETS[sm].multiprocessors
    assert kernel.grid[0] == (tiles if large else (rows // 64) ** 2)


def test_only_oversized_kernels_shrink():
    target = replace(TARGETS[80], shared_bytes=24 * KIB)
    machine = Machine(target, need=product_shared_bytes)
    procs = build_programs()
    (plain,) = (generate_module(proc, "ieee", LaunchConfig.for_target(target)) for proc in procs)
    (compiled,), binaries = compile_to_fit(procs, [{}], LaunchConfig.for_target(target), machine)
    assert product_shared_bytes(plain.kernels[0]) > target.shared_bytes
    assert all(binary.shared_bytes <= target.shared_bytes for binary in binaries[80][0])
    assert compiled.kernels[0] != plain.kernels[0] and compiled.kernels[1:] == plain.kernels[1:]
    assert len(machine.compiled) > 1


def test_impossible_kernels_raise():
    machine = Machine(TARGETS[90], need=lambda kernel: 1 << 19)
    with pytest.raises(CompileError, match="needs 524288 bytes of shared memory, and a block of sm_90 has at"):
        compile_to_fit(build_programs(), [{}], DEFAULT_CONFIG, machine)


def test_all_gpus_constrain_the_configuration():
    small = replace(TARGETS[86], shared_bytes=16 * KIB)
    machine = Machine(TARGETS[90], small, need=product_shared_bytes)
    assert launch_configs(machine)[0] == LaunchConfig.for_target(small)
    _, binaries = compile_to_fit(build_programs(), [{}], launch_configs(machine)[0], machine)
    assert all(binary.shared_bytes <= small.shared_bytes for binary in binaries[86][0])


@pytest.mark.parametrize("dtype", [oc.float32, oc.bfloat16])
def test_machine_code_fits_little_shared_memory(dtype):
    target = replace(TARGETS[80], shared_bytes=12 * KIB)
    procs = build_programs(dtype=dtype)
    plain = compile_kernels(generate_module(procs[0], "ieee", LaunchConfig.for_target(target)), target)
    _, binaries = compile_to_fit(procs, [{}], LaunchConfig.for_target(target), Machine(target))
    assert max(binary.shared_bytes for binary in plain) > target.shared_bytes
    assert all(binary.shared_bytes <= target.shared_bytes for binary in binaries[80][0])


def test_variants_generate_distinct_code():
    backend = TritonBackend(Machine(TARGETS[90], need=lambda kernel: 0))
    (proc,) = build_programs()
    variants = backend.variants(proc)
    assert variants[0] == 0 and 8 < len(variants) <= 24
    texts = [backend.compile_variants([proc], [[variant, variant]]).modules[0] for variant in variants]
    assert len({(module.source, module.kernels) for module in texts}) == len(variants)
    assert backend.compile([proc]).modules[0] == texts[0]


def test_the_interpreter_has_a_single_variant(triton):
    (proc,) = build_programs(16, 16, 16)
    assert triton.variants(proc) == [0]


# --------------------------------------------------------------------------------------------- on a simulated GPU


@pytest.fixture
def tuned_backend(tmp_path, monkeypatch):
    """A backend on a simulated GPU, with a short benchmark and empty caches."""
    monkeypatch.setenv("OCANNL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(benchmark, "_memory", {})
    monkeypatch.setattr(benchmark, "ROUNDS", 1)
    monkeypatch.setattr(benchmark, "MIN_SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr(machine, "MIN_AUTOTUNED_OPS", 0)
    compile_cache.clear()
    with patch.dict(registry._backends, triton=simulated_backend(FakeCuda())):
        yield registry._backends["triton"]
    compile_cache.clear()


def product(ctx, rng):
    x, w = oc.placeholder("x", b=[48], o=[40]), oc.placeholder("w", b=[], o=[72], i=[40])
    y = oc.relu(w @ x) + 1
    ctx[x], ctx[w] = (rng.integers(-3, 4, t.dims).astype("float32") for t in (x, w))
    routine = ctx.compile(y.forward)
    routine()
    return routine, ctx[y], np.maximum(ctx[x] @ ctx[w].T, 0) + 1


def kernels(routine):
    """The kernels with their launch configurations."""
    return [module.kernels for module in routine._program.code.modules]


@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_variants_are_benchmarked_on_the_gpu(tuned_backend, queue):
    with oc.settings(autotune=100):
        _, result, expected = product(oc.Context("triton", queue=queue), np.random.default_rng(0))
    assert np.array_equal(result, expected)
    assert benchmark._memory and tuned_backend._machine.fake.launched


def test_the_fastest_variant_is_selected_and_cached(tuned_backend, monkeypatch):
    candidate_counts = []

    def compared(self, rivals, codes):
        candidate_counts.append(len(codes))
        return [1.0] * (len(codes) - 1) + [0.1]

    monkeypatch.setattr(benchmark.Benchmark, "benchmark", compared)
    rng = np.random.default_rng(0)
    plain, *_ = product(oc.Context("triton"), rng)
    with oc.settings(autotune=100):
        tuned, second, expected = product(oc.Context("triton"), rng)
    assert np.array_equal(second, expected)
    assert kernels(tuned) != kernels(plain) and candidate_counts
    compile_cache.clear()
    benchmark._memory.clear()
    with oc.settings(autotune=100):
        cached, third, expected = product(oc.Context("triton"), rng)
    assert np.array_equal(third, expected)
    assert kernels(cached) == kernels(tuned) and len(candidate_counts) == 1


def test_variants_that_do_not_compile_are_skipped(tuned_backend, monkeypatch):
    seen = []
    compared = lambda self, rivals, codes: seen.extend(codes) or [1.0] * len(codes)  # noqa: E731
    monkeypatch.setattr(benchmark.Benchmark, "benchmark", compared)
    original = type(tuned_backend).compile_variants

    def compile_variants(self, procs, variants):
        if [*variants[0]] == [5]:
            raise CompileError("refused")
        return original(self, procs, variants)

    monkeypatch.setattr(type(tuned_backend), "compile_variants", compile_variants)
    with oc.settings(autotune=100):
        _, result, expected = product(oc.Context("triton"), np.random.default_rng(0))
    assert np.array_equal(result, expected)
    assert seen.count(None) <= 1 < len(seen)
