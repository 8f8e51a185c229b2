"""What measures on a GPU, without one: workloads at tiny sizes, the simulated driver, the table."""

import sys
from pathlib import Path
from unittest.mock import patch

import pytest

pytest.importorskip("triton")

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

import gpu
from fake_cuda import FakeCuda
from on_gpu.worker import measured
from on_gpu.workloads import WORKLOADS

from ocannl_backend_triton import device, driver
from ocannl_backend_triton.driver import opened


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_at_tiny_sizes(name, monkeypatch):
    """By the reference: that they are written as they should be."""
    monkeypatch.setenv("BENCH_OCANNL_BACKEND", "numpy")
    found = measured("ocannl", name, 0.0, "small")
    assert "error" not in found and found["call_s"] > 0 and found["values"]
    assert ("flops" in found) or ("bytes" in found)


def test_a_system_that_fails_says_so(monkeypatch):
    monkeypatch.setenv("BENCH_OCANNL_BACKEND", "nothing")
    assert "nothing" in measured("ocannl", "chain", 0.0, "small")["error"]


def test_copies_are_measured():
    fake = opened(FakeCuda().functions)
    with (
        patch.object(driver, "cuda", lambda: fake), patch.object(gpu, "COPIED_BYTES", 1 << 16),
        patch.dict(device.__dict__),
    ):  # fmt: skip
        card, rate = gpu.copied_bytes_per_s()
    assert "Fake GPU" in card and rate > 0


def test_the_table():
    ours = {"trains": True, "flops": 4e12, "call_s": 0.02, "values": [3.0, 2.0], "version": "one"}
    other = ours | {"call_s": 0.03, "values": [3.0, 2.1]}
    product = {"trains": False, "flops": 4e12, "call_s": 0.01, "values": [1.0]}
    passed = {"trains": False, "bytes": 4e9, "call_s": 0.004, "values": [1.0]}
    results = {
        "W2": {"ocannl": ours, "torch_eager": other, "torch_compile": other},
        "product_4096": {"ocannl": product, "torch_compile": {"error": "no"}},
        "chain": {"ocannl": passed},
    }
    text = gpu.table(results, ["ocannl", "torch_eager", "torch_compile"], {"flops": 8e14, "bytes": 2e12})
    assert text.splitlines()[2:] == [
        "| W2 | 50.0 steps/s (25%) | 33.3 steps/s (17%) | 33.3 steps/s (17%) | 1.50 | 3e-02 |",
        "| product_4096 | 400.0 TF/s (50%) |  | failed |  |  |",
        "| chain | 1000 GB/s (50%) |  |  |  |  |",
    ]
