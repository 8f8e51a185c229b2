"""Official node cases of ONNX, imported and exported again: ONNX Runtime computes the expected outputs.

Left out are cases whose import needs values of inputs, and those with inputs or outputs that are no arrays.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import ocannl as oc

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
from ocannl_onnx.model import placeholder  # noqa: E402

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "onnx_suite.py"
PARTS = 90  # of 21 cases; `--complete` runs all of them


@cache
def suite() -> ModuleType:
    spec = importlib.util.spec_from_file_location("onnx_suite", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def cases() -> list[Any]:
    return sorted(suite().node_cases(), key=lambda case: crc32(case.name.encode()))


def run_exported(model: Any, inputs: list[Any]) -> Any:
    """The outputs of the exported import. Raises: OcannlError for models and inputs that are refused."""
    if not all(isinstance(a, np.ndarray) and a.dtype.isbuiltin == 1 and a.dtype.kind in "biuf" for a in inputs):
        raise oc.DataError("an input is no array of numbers that ONNX Runtime takes")
    imported = oc.onnx.load(model)
    arrays = dict(zip((declared.name for declared in imported.declared_inputs), inputs, strict=False))
    operands = {
        name: placeholder(name, array.shape, onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in arrays.items()
    }
    outputs = imported(**operands)
    tensors = outputs if isinstance(outputs, tuple) else (outputs,)
    named = {f"output{n}": t for n, t in enumerate(tensors)}
    exported = oc.onnx.export(named, inputs=operands, ctx=oc.Context("numpy"))
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = runtime.InferenceSession(exported.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {value.name: arrays[value.name] for value in session.get_inputs()})


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_imported_cases_are_exported(part: int) -> None:
    with np.errstate(all="ignore"):
        results = {
            case.name: suite().judged(case, run_exported, (oc.OcannlError,)) for case in cases()[part::PARTS]
        }
    assert not {name: result for name, result in results.items() if result[0] in ("wrong", "crashed")}
    passed = [name for name, result in results.items() if result[0] == "passed"]
    assert len(passed) >= len(results) // 3, results
