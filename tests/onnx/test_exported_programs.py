"""Random programs, exported to ONNX: ONNX Runtime and the reference evaluator of ONNX compute what the programs mean.

OCANNL_TEST_FIRST is the first seed, OCANNL_TEST_EXPORTS the number of programs (default 40).
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.tnode import Role
from ocannl.testing import random_expressions

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
reference = pytest.importorskip("onnx.reference")

TOLERANCE = 2e-4  # of values near 1, in float32
FIRST, COUNT = int(os.environ.get("OCANNL_TEST_FIRST", "0")), int(os.environ.get("OCANNL_TEST_EXPORTS", "40"))


def session(model: Any) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_programs_are_computed_by_other_runtimes(seed: int) -> None:
    program = random_expressions.generate(Random(seed))
    meaning, built = program.meaning(), program.build("float32")
    ctx = oc.Context("numpy")
    tensors = built.tensors
    for name, array in program.data.items():
        if tensors[name].node.role is not Role.DATA:
            ctx[tensors[name]] = array
    model = oc.onnx.export({name: tensors[name] for name in meaning}, ctx=ctx)
    feeds = {
        declared.name: np.asarray(program.data[declared.name], tensors[declared.name].dtype.numpy)
        if declared.name in tensors
        else np.array(program.calls[0][declared.name], np.int64)
        for declared in model.graph.input
    }
    for runner in (session(model), reference.ReferenceEvaluator(model)):
        for (name, expected), actual in zip(meaning.items(), runner.run(None, feeds), strict=True):
            assert actual.shape == expected.shape, (runner, name)
            scale = 1 + np.max(np.abs(expected), initial=0)
            difference = np.abs(np.asarray(actual, float) - expected) / scale
            assert np.max(difference, initial=0) < TOLERANCE, (runner, name, str(program))
