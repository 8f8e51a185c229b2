"""Models of one node, and their results by ocannl, ONNX Runtime and the reference implementation of ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ocannl_onnx import backend


def node_model(
    operator: str,
    inputs: Sequence[Any],
    *,
    opset: int,
    outputs: int = 1,
    constants: Sequence[int] = (),
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node. `inputs` are arrays, None for those omitted; those at the positions `constants` are
    initializers."""
    names = ["" if array is None else f"x{n}" for n, array in enumerate(inputs)]
    results = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(operator, names, results, **attributes)
    varying = [n for n, array in enumerate(inputs) if array is not None and n not in constants]
    declared = [
        helper.make_tensor_value_info(
            names[n], helper.np_dtype_to_tensor_dtype(inputs[n].dtype), inputs[n].shape
        )
        for n in varying
    ]
    initializers = [numpy_helper.from_array(inputs[n], names[n]) for n in constants]
    graph = helper.make_graph(
        [node], "node", declared, [onnx.ValueInfoProto(name=name) for name in results], initializers
    )
    versions = [helper.make_opsetid("", opset)]
    if node.domain:
        versions.append(helper.make_opsetid(node.domain, 1))
    model = helper.make_model(graph, opset_imports=versions, ir_version=8 if opset < 20 else 10)
    return onnx.shape_inference.infer_shapes(model)


def arguments(inputs: Sequence[Any], constants: Sequence[int]) -> dict[str, Any]:
    return {f"x{n}": array for n, array in enumerate(inputs) if array is not None and n not in constants}


def by_ocannl(model: onnx.ModelProto, values: dict[str, Any]) -> list[Any]:
    return [np.asarray(value) for value in backend.prepare(model).run(values)]


def by_runtime(model: onnx.ModelProto, values: dict[str, Any]) -> list[Any]:
    """The results of ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, values))


def by_reference(model: onnx.ModelProto, values: dict[str, Any]) -> list[Any]:
    return list(ReferenceEvaluator(model).run(None, values))


def check_node(
    operator: str,
    inputs: Sequence[Any],
    *,
    opset: int,
    peer: Any = by_runtime,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    outputs: int = 1,
    constants: Sequence[int] = (),
    **attributes: Any,
) -> list[Any]:
    """Compares the results of a node with those of a peer, with their types and shapes."""
    model = node_model(operator, inputs, opset=opset, outputs=outputs, constants=constants, **attributes)
    values = arguments(inputs, constants)
    expected = [np.asarray(want) for want in peer(model, values)]
    for declared, want in zip(model.graph.output, expected, strict=True):
        declared.type.CopyFrom(helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(want.dtype), want.shape))
    results = by_ocannl(model, values)
    for want, got in zip(expected, results, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, got.shape, want.dtype, want.shape)
        np.testing.assert_allclose(
            got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol, err_msg=str((operator, attributes))
        )
    return results
