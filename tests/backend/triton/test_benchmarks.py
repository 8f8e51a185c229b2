"""The GPU benchmarks without a GPU: workloads at tiny sizes, the simulated driver, the table."""

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
from ocannl_backend_triton.driver import open_driver


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_at_tiny_sizes(name, monkeypatch):
    """On the reference backend."""
    monkeypatch.setenv("BENCH_OCANNL_BACKEND", "numpy")
    measurement = measured("ocannl", name, 0.0, "small")
    assert "error" not in measurement and measurement["call_s"] > 0 and measurement["values"]
    assert ("flops" in measurement) or ("bytes" in measurement)


def test_failing_systems_report_an_error(monkeypatch):
    monkeypatch.setenv("BENCH_OCANNL_BACKEND", "nothing")
    assert "nothing" in measured("ocannl", "chain", 0.0, "small")["error"]


def test_copies_are_measured():
    fake = open_driver(FakeCuda().functions)
    with (
        patch.object(driver, "system_driver", lambda: fake), patch.object(gpu, "COPIED_BYTES", 1 << 16),
        patch.dict(device.__dict__),
    ):  # fmt: skip
        card, rate = gpu.copied_bytes_per_s()
    assert "Fake GPU" in card and rate > 0


def test_the_table():
    ocannl_result = {"trains": True, "flops": 4e12, "call_s": 0.02, "values": [3.0, 2.0], "version": "one"}
    torch_result = ocannl_result | {"call_s": 0.03, "values": [3.0, 2.1]}
    product = {"trains": False, "flops": 4e12, "call_s": 0.01, "values": [1.0]}
    copy = {"trains": False, "bytes": 4e9, "call_s": 0.004, "values": [1.0]}
    results = {
        "W2": {"ocannl": ocannl_result, "torch_eager": torch_result, "torch_compile": torch_result},
        "product_4096": {"ocannl": product, "torch_compile": {"error": "no"}},
        "chain": {"ocannl": copy},
    }
    text = gpu.table(results, ["ocannl", "torch_eager", "torch_compile"], {"flops": 8e14, "bytes": 2e12})
    assert text.splitlines()[2:] == [
        "| W2 | 50.0 steps/s (25%) | 33.3 steps/s (17%) | 33.3 steps/s (17%) | 1.50 | 3e-02 |",
        "| product_4096 | 400.0 TF/s (50%) |  | failed |  |  |",
        "| chain | 1000 GB/s (50%) |  |  |  |  |",
    ]
