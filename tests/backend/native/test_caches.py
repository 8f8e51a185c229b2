"""Products on CPUs with caches of any size: packing and cache blocking do not change results."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.cpu import CacheLevel, Cpu

SPECS = ("mk;kn=>mn", "mk;nk=>mn", "km;kn=>mn", "bmk;bkn=>bmn", "mka;akn=>mn")
SIZES = {"m": 150, "n": 130, "k": 700, "b": 2, "a": 3}
LARGE, SMALL, TINY = (
    Cpu(l2=CacheLevel(private_bytes, ways, 16, 48), l3=CacheLevel(shared_bytes, ways, 64, 16))
    for private_bytes, ways, shared_bytes in ((1 << 24, 16, 1 << 28), (1 << 16, 8, 1 << 18), (1 << 13, 2, 1 << 14))
)


def computed(native, monkeypatch, cpu, threads):
    """The results of products, some with epilogues; the expected results; and the printed stages."""
    capabilities = replace(native.capabilities, vector_bytes=32, vector_registers=16, cpu=cpu)
    monkeypatch.setattr(import_module(f"ocannl_backend_{native.name}.backend"), "_capabilities", lambda: capabilities)
    random = np.random.default_rng(0)
    results, wants, programs = [], [], []
    for spec in SPECS:
        inputs, output = spec.split("=>")
        arrays = [random.standard_normal([SIZES[axis] for axis in axes], "float32") for axes in inputs.split(";")]
        rows = "; ".join(f"{', '.join(axes)} |" for axes in inputs.split(";"))
        tensors = [oc.tensor(array, batch_axes=array.ndim) for array in arrays]
        product = oc.einsum(f"{rows} => {', '.join(output)} |", *tensors)
        y = product if len(results) % 2 else oc.relu(product + 1.0)
        want = np.einsum(spec.replace(";", ",").replace("=>", "->"), *(array.astype("float64") for array in arrays))
        wants.append(want if len(results) % 2 else np.maximum(want + 1.0, 0.0))
        with oc.settings(cache=False), oc.Context(native.name, threads=threads) as ctx:
            routine = ctx.compile(y.forward)
            routine()
            results.append(np.array(ctx[y]))
            programs.append(str(routine.stages()))
    return results, wants, programs


@pytest.mark.slow
def test_caches_change_plans_and_no_bits(native, monkeypatch):
    plain, wants, programs = computed(native, monkeypatch, LARGE, 1)
    for got, want in zip(plain, wants, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)
    all_stages = ""
    for cpu, threads in ((SMALL, 1), (TINY, 1), (TINY, 3)):
        results, _, stages = computed(native, monkeypatch, cpu, threads)
        for spec, expected, actual in zip(SPECS, plain, results, strict=True):
            assert np.array_equal(expected, actual), f"{spec} with {cpu}"
        assert all(reference_stages != actual for reference_stages, actual in zip(programs, stages, strict=True))
        all_stages += "".join(stages)
    assert "_sums" in all_stages and "_sums" not in "".join(programs)  # partial sums between cache blocks
