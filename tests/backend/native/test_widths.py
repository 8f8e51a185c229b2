"""Contractions and pointwise operations do not depend on the vector width."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.precision import precision

VECTORS = [(16, 16), (16, 32), (32, 16), (64, 32)]
SPECS = ("mk;kn=>mn", "mk;nk=>mn", "km;kn=>mn", "km;nk=>nm", "bmk;bkn=>bmn", "mk;k=>m", "mk;mk=>", "k;m=>km")
SIZES = {"m": 13, "n": 21, "k": 37, "b": 3}
DTYPES = ("float32", "float64", "bfloat16", "float16", "int32", "uint8")


def product(spec, dtype):
    """A contraction of small integers, whose sums are exact, and its expected result."""
    random = np.random.default_rng(len(spec))
    inputs, output = spec.split("=>")
    arrays = [random.integers(0, 2, [SIZES[axis] for axis in axes]) for axes in inputs.split(";")]
    tensors = [oc.tensor(a.astype(precision(dtype).numpy), batch_axes=a.ndim) for a in arrays]
    rows = "; ".join(f"{', '.join(axes)} |" for axes in inputs.split(";"))
    want = np.einsum(spec.replace(";", ",").replace("=>", "->"), *arrays)
    return oc.einsum(f"{rows} => {', '.join(output)} |", *tensors), want


@pytest.mark.sample(covering=("dtype vectors", "dtype native", "vectors native"))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vectors", VECTORS, ids=str)
def test_contractions(native, monkeypatch, vectors, dtype):
    width, registers = vectors
    capabilities = replace(native.capabilities, vector_bytes=width, vector_registers=registers)
    module = import_module(f"ocannl_backend_{native.name}.backend")
    monkeypatch.setattr(module, "_capabilities", lambda: capabilities)
    ys, wants = zip(*(product(spec, dtype) for spec in SPECS), strict=True)
    mapped = [oc.where(y > 3, y * 2, y + 1) for y in ys]
    with oc.settings(cache=False), oc.Context(native.name) as ctx:
        routine = ctx.compile(oc.forward(*ys, *mapped))
        routine()
        for spec, y, z, want in zip(SPECS, ys, mapped, wants, strict=True):
            chosen = np.where(want > 3, want * 2, want + 1)  # uint8 may wrap
            np.testing.assert_array_equal(ctx[y], want.astype(precision(dtype).numpy), spec)
            np.testing.assert_array_equal(ctx[z], chosen.astype(precision(dtype).numpy), spec)
    if dtype == "float32":
        assert {"c": f"f32x{width // 4}", "llvm": f"<{width // 4} x float>"}[native.name] in routine.source()
