"""A sample of the official node cases of ONNX: none is wrong, and all pass but those of `refused.txt`."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from zlib import crc32

import numpy as np
import pytest
from usable_backends import usable_backends

import ocannl as oc

pytest.importorskip("onnx")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "onnx_suite.py"
REFUSED = Path(__file__).with_name("refused.txt").read_text(encoding="utf-8").split()
PARTS = 72  # of 26 cases each; `--complete` runs all of them


@cache
def suite() -> ModuleType:
    spec = importlib.util.spec_from_file_location("onnx_suite", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def cases() -> list:
    return sorted(suite().node_cases(), key=lambda case: crc32(case.name.encode()))


@pytest.mark.sample(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_node_cases(part: int) -> None:
    names = usable_backends()
    backend = names[part % len(names)] if part % len(names) else names[-1]  # native ones: the reference is slow
    results = {}
    with oc.use_backend(backend), np.errstate(all="ignore"):
        for case in cases()[part::PARTS]:
            results[case.name] = suite().judged(case, suite().run_ocannl, (oc.OcannlError,))
    assert not {name: reason for name, (result, reason) in results.items() if result == "wrong"}
    malformed = {name: reason for name, (_, reason) in results.items() if "malformed" in reason}
    assert not malformed, "errors of Python in the functions of rows, which valid models never cause"
    failed = {name: result for name, result in results.items() if result[0] != "passed"}
    assert not {name: result for name, result in failed.items() if name not in REFUSED}
    assert not [name for name in results if name in REFUSED and name not in failed], "remove these from refused.txt"


@pytest.mark.filterwarnings("ignore")
def test_conversions_of_pytorch() -> None:
    """A third of the models that PyTorch exported, of version 6 of the operators."""
    with oc.use_backend("numpy"), np.errstate(all="ignore"):
        sample = [case for case in suite().conversions() if "gradient_of" not in case.name][::3]
        results = {case.name: suite().judged(case, suite().run_ocannl, (oc.OcannlError,)) for case in sample}
    assert len(results) > 40
    assert not {name: result for name, result in results.items() if result != ("passed", "")}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squeezenet", "inception_v1"])
def test_networks_with_constant_weights(name: str) -> None:
    onnx = pytest.importorskip("onnx")
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    expected = onnx.load_tensor(folder / f"light_{name}_output_0.pb")
    model = onnx.load(folder / f"light_{name}.onnx")
    (x,) = {value.name for value in model.graph.input} - {array.name for array in model.graph.initializer}
    cells = np.arange(3 * 224 * 224, dtype="float32").reshape(1, 3, 224, 224) / (3 * 224 * 224)
    (actual,) = oc.onnx.load(model).compile(oc.Context("llvm")).run({x: cells})
    np.testing.assert_allclose(actual, onnx.numpy_helper.to_array(expected), rtol=1e-5)
