"""The interface of ONNX for backends (`onnx.backend.base`), so that its official runner can test the importer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

import ocannl as oc
from ocannl_onnx.model import ImportedModel, ModelFunction, load


class PreparedModel(BackendRep):  # type: ignore[misc]
    """A model that is ready to run; each combination of sizes is compiled at its first run."""

    def __init__(self, model: ImportedModel, ctx: oc.Context) -> None:
        self._function = ModelFunction(model, ctx, limit=8)
        self._names = [declared.name for declared in model.declared_inputs]

    def run(self, inputs: Any, **kwargs: Any) -> Sequence[Any]:
        """The outputs for inputs in the order of the model, or by name."""
        values = [inputs[name] for name in self._names] if isinstance(inputs, dict) else list(inputs)
        return self._function.run(dict(zip(self._names, map(_array, values), strict=False)))


def _array(value: Any) -> Any:
    """An input as an array; the suite passes values of types that NumPy lacks as messages."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return [_array(item) for item in value] if isinstance(value, list) else value


class OcannlBackend(Backend):  # type: ignore[misc]
    """Runs models on the default backend of ocannl."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        super().prepare(model, device, **kwargs)
        return PreparedModel(load(model), oc.Context())

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> Sequence[Any]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> Any:
        super().run_node(node, inputs, device, outputs_info=outputs_info, **kwargs)
        arrays = [np.asarray(value) for value in (inputs.values() if isinstance(inputs, dict) else inputs)]
        names = [name for name in node.input if name]
        declared = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
        ]
        graph = helper.make_graph([node], "node", declared, [onnx.ValueInfoProto(name=name) for name in node.output])
        opsets = [helper.make_opsetid(node.domain, kwargs.get("opset_version", onnx.defs.onnx_opset_version()))]
        results = PreparedModel(load(helper.make_model(graph, opset_imports=opsets)), oc.Context()).run(arrays)
        return namedtupledict("Outputs", list(node.output))(*results)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return bool(Device(device).type == DeviceType.CPU)


prepare = OcannlBackend.prepare
run_node = OcannlBackend.run_node
run_model = OcannlBackend.run_model
supports_device = OcannlBackend.supports_device
is_compatible = OcannlBackend.is_compatible
