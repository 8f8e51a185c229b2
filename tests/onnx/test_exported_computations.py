"""Random computations of all types, with scattered, masked and repeated writes: ONNX Runtime computes what an
evaluator computes, or the statement is refused."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from ocannl.ir.assign import written_nodes
from ocannl.ir.precision import float32, int64
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import PRECISIONS, Program, difference, generate

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
from ocannl_onnx.element_types import element_type_of  # noqa: E402
from ocannl_onnx.exporting.graph_builder import OnnxBuilder, graph_proto, live_nodes, used_names  # noqa: E402
from ocannl_onnx.exporting.grids import Grid, NoForm  # noqa: E402
from ocannl_onnx.exporting.loads import Stored  # noqa: E402
from ocannl_onnx.exporting.recognized_operators import recognize  # noqa: E402
from ocannl_onnx.exporting.regions import RegionWriter  # noqa: E402

SEEDS = 25  # of each part


def refuse(call: Any, statements: Any) -> None:
    raise NoForm("host calls")


def exported(program: Program, outputs: list) -> Any:
    """The model, with outputs of narrow float types converted to float32; None if a statement has no form."""
    builder, missing = OnnxBuilder(), {}
    inputs = [(f"in{n}", element_type_of(node.precision), node.dims) for n, node in enumerate(program.arrays)]
    inputs += [(f"symbol_{sym.name}", onnx.TensorProto.INT64, ()) for sym in program.symbols]
    values = {node: Stored(f"in{n}", tuple(range(len(node.dims)))) for n, node in enumerate(program.arrays)}
    steps = {sym: Grid(f"symbol_{sym.name}", (), int64) for sym in program.symbols}
    region = RegionWriter(builder, values, steps, refuse, missing)
    region.run([program.code], outputs)
    names = [builder.node("Cast", region._current(node), to=element_type_of(readable(node))) for node in outputs]
    names = [builder.nodes_of("Identity", [name], 1)[0] for name in names]
    nodes = live_nodes(recognize(builder, live_nodes(builder.nodes, names)), names)
    used = used_names(nodes)
    if not used.isdisjoint(missing):
        return None
    declared = [(name, element_type_of(readable(node)), node.dims) for name, node in zip(names, outputs, strict=True)]
    arrays = {name: array for name, array in builder.constants.arrays.items() if name in used}
    graph = graph_proto("computation", nodes, inputs, declared, arrays)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


def readable(node: Any) -> Any:
    """A type that ONNX Runtime returns as a NumPy array."""
    return float32 if node.precision.is_float and node.precision.nbytes < 4 else node.precision


def fed(array: np.ndarray) -> Any:
    kind = next(precision for precision in PRECISIONS if precision.numpy == array.dtype)
    if array.dtype.isbuiltin == 1:
        return runtime.OrtValue.ortvalue_from_numpy(array)
    bits = array.view(f"uint{8 * array.itemsize}")
    return runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, element_type_of(kind))


@pytest.mark.sample(4)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(120))
def test_computations_of_all_types(part: int) -> None:
    compared = 0
    for seed in range(SEEDS * part, SEEDS * part + SEEDS):
        program = generate(Random(seed))
        outputs = list(dict.fromkeys(written_nodes(program.code)))
        model = exported(program, outputs)
        if model is None:
            continue
        options = runtime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        arrays = {f"in{n}": np.asarray(a, node.precision.numpy) for n, (node, a) in enumerate(program.arrays.items())}
        arrays |= {f"symbol_{sym.name}": np.array(value, np.int64) for sym, value in program.symbols.items()}
        feeds = {value.name: fed(arrays[value.name]) for value in session.get_inputs()}
        actual = [value.numpy() for value in session.run_with_ort_values(None, feeds)]
        expected = evaluate(program.code, program.arrays, program.symbols, program.merged)
        got = dict(zip(outputs, actual, strict=True))
        assert not difference(expected, got, program.tolerance), seed
        compared += 1
    assert compared > SEEDS // 4
