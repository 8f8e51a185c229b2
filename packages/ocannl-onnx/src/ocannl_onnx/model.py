"""Imported models: blocks of tensors with named inputs, outputs and parameters, and functions of arrays."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import onnx

import ocannl as oc
from ocannl.lang.core.context_vars import gradients_enabled
from ocannl.runtime.inference_routines import compile_inference, is_outdated
from ocannl_onnx.element_types import numpy_type_of, precision_of
from ocannl_onnx.errors import ModelError, NeedsConstant, UnsupportedModel
from ocannl_onnx.graph import Model, OnnxGraph, ValueDeclaration
from ocannl_onnx.importer import GraphImporter, ImportScope
from ocannl_onnx.missing_operators import missing_operators
from ocannl_onnx.model_file import read_model
from ocannl_onnx.unread_masks import drop_unread_masks
from ocannl_onnx.values import Array, Initializer, StaticArray, Value, as_tensor, check_type, label
from ocannl_onnx.weights import FLOATS, lift_weights

Trainable = bool | Callable[[str], bool]


def load(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    sizes: Mapping[str, int] | None = None,
    trainable: Trainable = True,
) -> ImportedModel:
    """An ONNX model as a block of ocannl.

        model = oc.onnx.load("classifier.onnx", sizes={"batch": 8})
        loss = oc.cross_entropy(model.outputs["logits"], labels)

    `source` is a path, the bytes of a model, or an `onnx.ModelProto`; `sizes` are the sizes of axes that the model
    names. Floating-point initializers, and `Constant` nodes that hold weights, become parameters, labelled by their
    names, except the means and variances of batch normalizations, and numbers without axes. `trainable` is False, or a
    function of the name that decides for all of them; the others become constants. Every axis of ONNX is an axis of the
    output row.

    Raises: ModelError for files that are not valid models, UnsupportedModel, which lists all operators that are
    missing.
    """
    model = read_model(source)
    missing = missing_operators(model)
    if missing:
        lines = "\n".join(f"  {operator}" for operator in missing)
        raise UnsupportedModel(f"the model uses operators that are not supported:\n{lines}", missing)
    return ImportedModel(replace(model, graph=drop_unread_masks(lift_weights(model.graph))), sizes or {}, trainable)


def outputs_of_file(path: str | os.PathLike[str], sizes: Mapping[str, int]) -> list[oc.Tensor]:
    """The outputs of the model in a file, for the command line."""
    return list(load(path, sizes=sizes).outputs.values())


class ImportedModel:
    """A model read from ONNX. Calling it with tensors, by position or name, builds its expression on them.

    `inputs` are placeholders and `outputs` the tensors computed from them, by their names in the model; both exist
    when all sizes are known. `parameters` are the trainable initializers. All expressions of a model share them.
    """

    def __init__(self, model: Model, sizes: Mapping[str, int], trainable: Trainable) -> None:
        self.model = model
        self.label = label(model.graph.name or "model")
        self.sizes = dict(sizes)
        constants = _untrained(model.graph)
        self._is_trainable = trainable if callable(trainable) else lambda name: trainable and name not in constants
        self._initializers: dict[str, Value] = {
            name: self._initializer(name, array) for name, array in model.graph.constants.items()
        }
        self._values: Mapping[str, Value] | None = None
        self._inputs: dict[str, oc.Tensor] = {}

    def _initializer(self, name: str, array: Array) -> Value:
        if str(array.dtype) not in FLOATS or not self._is_trainable(name):
            return StaticArray(array, name)
        return Initializer(array, name, lambda: _parameter(name, array))

    @property
    def parameters(self) -> dict[str, oc.Tensor]:
        """The parameters by the names of their initializers, in the order of the file."""
        return {name: value.tensor for name, value in self._initializers.items() if isinstance(value, Initializer)}

    @property
    def declared_inputs(self) -> tuple[ValueDeclaration, ...]:
        return self.model.graph.free_inputs

    @property
    def metadata(self) -> Mapping[str, str]:
        """The texts that the file keeps beside the graph, such as the names of classes, by their keys."""
        return self.model.metadata

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(declared.name for declared in self.model.graph.outputs)

    @property
    def inputs(self) -> Mapping[str, oc.Tensor]:
        """The placeholders. Raises: ModelError when a size is not known."""
        self._built()
        return self._inputs

    @property
    def outputs(self) -> dict[str, oc.Tensor]:
        """The outputs, computed from the placeholders. Raises: ModelError when a size is not known."""
        values = self._built()
        return {name: _output(name, values[name]) for name in self.output_names}

    @property
    def values(self) -> Mapping[str, oc.Tensor]:
        """All tensors of the main graph by their names in the model, computed from the placeholders."""
        return {
            name: as_tensor(value)
            for name, value in self._built().items()
            if isinstance(value, oc.Tensor | Initializer) or name in self.output_names
        }

    def __call__(self, *tensors: Any, **named: Any) -> Any:
        """The outputs for given inputs: one tensor, or a tuple of several."""
        arguments = self._arguments(tensors, named)
        values = self.imported({name: x if isinstance(x, oc.Tensor) else oc.tensor(x) for name, x in arguments.items()})
        outputs = tuple(_output(name, values[name]) for name in self.output_names)
        return outputs[0] if len(outputs) == 1 else outputs

    def _arguments(self, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        names = [declared.name for declared in self.declared_inputs]
        if len(positional) > len(names):
            raise ModelError(f"the model has {len(names)} inputs ({', '.join(names)}), not {len(positional)}")
        arguments = dict(zip(names, positional, strict=False))
        if double := sorted(set(arguments) & set(named)):
            raise ModelError(f"the input `{double[0]}` is given twice")
        input_names = {declared.name for declared in self.model.graph.inputs}
        if unknown := sorted(set(named) - input_names):
            raise ModelError(f"the model has no input `{unknown[0]}`; its inputs are {', '.join(names)}")
        arguments.update(named)
        if absent := [name for name in names if name not in arguments]:
            raise ModelError(f"the input `{absent[0]}` is not given")
        return arguments

    def imported(self, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
        """The values of the main graph for its inputs: tensors, or static arrays where sizes depend on them."""
        importer = GraphImporter(ImportScope(self.model.opsets, self.model.functions))
        for name, value in {**self._initializers, **inputs}.items():
            importer.bind(name, value, frozenset({name} & inputs.keys()))
        importer.run(self.model.graph.nodes)
        for name in self.output_names:
            importer.values.setdefault(name, importer.lookup(name))
        return importer.values

    def _built(self) -> Mapping[str, Value]:
        if self._values is None:
            self._inputs = {declared.name: self._placeholder(declared) for declared in self.declared_inputs}
            self._values = self.imported(self._inputs)
        return self._values

    def _placeholder(self, declared: ValueDeclaration) -> oc.Tensor:
        if declared.kind != "tensor" or declared.sizes is None:
            raise ModelError(f"the input `{declared.name}` has no declared rank: call the model with tensors")
        dims = []
        for n, size in enumerate(declared.sizes):
            length = self.sizes.get(size) if isinstance(size, str) else size
            if length is None:
                name = f"`{size}`" if size else "has no name and"
                raise ModelError(
                    f"axis {n} of the input `{declared.name}` {name} has no size: "
                    + (f"write sizes={{{size!r}: ...}}" if size else "call the model with tensors")
                )
            dims.append(length)
        return placeholder(declared.name, dims, declared.element_type)

    def compile(self, ctx: oc.Context | None = None, *, limit: int = 8) -> ModelFunction:
        """A function from arrays to arrays that runs the model, with a routine for each of the last `limit` sizes."""
        return ModelFunction(self, oc.default_context() if ctx is None else ctx, limit)

    def __repr__(self) -> str:
        inputs = ", ".join(declared.name for declared in self.declared_inputs)
        return f"<ONNX model {self.label}: {inputs} -> {', '.join(self.output_names)}>"


def _untrained(graph: OnnxGraph) -> frozenset[str]:
    """The means and variances of batches, which training records, and numbers, which are factors and epsilons."""
    nodes = [node for node in graph.nodes if node.operator == "BatchNormalization" and not node.domain]
    statistics = frozenset(name for node in nodes for name in node.inputs[3:5])
    return statistics | {name for name, array in graph.constants.items() if array.ndim == 0}


def placeholder(name: str, dims: Iterable[int], element_type: int) -> oc.Tensor:
    check_type(element_type, name)
    return oc.placeholder(label(name), b=[], i=[], o=list(dims), dtype=precision_of(element_type))


def _output(name: str, value: Value) -> oc.Tensor:
    if value is None or isinstance(value, list):
        raise UnsupportedModel(f"the output `{name}` is {'empty' if value is None else 'a sequence'}, not a tensor")
    return as_tensor(value)


def _parameter(name: str, array: Array) -> oc.Tensor:
    """A parameter with a gradient, also where the expression that reads it first has none: all expressions share it."""
    content = np.ascontiguousarray(array).reshape(array.shape)
    token = gradients_enabled.set(True)
    try:
        parameter = oc.param(label(name), content, b=[], i=[], o=list(array.shape), dtype=str(array.dtype))
    finally:
        gradients_enabled.reset(token)
    parameter.node.path = label(name)
    return parameter


Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _CompiledModel:
    """A routine for inputs of some sizes, types and constants; results are tensors, or structures of them."""

    routine: oc.Routine | None
    operands: Mapping[str, oc.Tensor]
    results: Sequence[Value]


class ModelFunction:
    """An imported model as a function from arrays to arrays: one routine for each combination of sizes and types.

    Inputs that sizes depend on become constants of the routine, which is then compiled for their values.
    """

    def __init__(self, model: ImportedModel, ctx: oc.Context, limit: int) -> None:
        if limit < 1:
            raise oc.CodeError(f"`limit` is the number of routines to keep, at least 1, not {limit}")
        self.model, self.ctx, self.limit = model, ctx, limit
        self._constants: set[str] = set()
        self._compiled: OrderedDict[Key, _CompiledModel] = OrderedDict()

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The outputs as NumPy arrays: one, or a tuple of several."""
        outputs = self.run(self.model._arguments(arrays, named))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run(self, arguments: Mapping[str, Any]) -> list[Any]:
        """The outputs of the model in order, for arrays (or lists of arrays, or None) by the names of inputs."""
        declarations = {declared.name: declared for declared in self.model.model.graph.inputs}
        if unknown := sorted(set(arguments) - set(declarations)):
            raise ModelError(f"the model has no input `{unknown[0]}`; its inputs are {', '.join(declarations)}")
        inputs = {name: _input(declarations[name], value) for name, value in arguments.items()}
        with self.ctx.lock:
            compiled = self._routine(inputs)
            for name, tensor in compiled.operands.items():
                self.ctx.set(tensor, inputs[name])
            if compiled.routine is not None:
                compiled.routine()
            return [self._array(value) for value in compiled.results]

    def _array(self, value: Value) -> Any:
        if isinstance(value, list):
            return [self._array(item) for item in value]
        return value if value is None else value.array if isinstance(value, StaticArray) else self.ctx.get(value)

    def _routine(self, inputs: Mapping[str, Any]) -> _CompiledModel:
        while True:
            key = tuple(self._key(name, value) for name, value in sorted(inputs.items()))
            if key in self._compiled and not is_outdated(self._compiled[key].routine):
                self._compiled.move_to_end(key)
                return self._compiled[key]
            try:
                compiled = self._compile(inputs)
            except NeedsConstant as error:
                if not set(error.inputs) - self._constants:
                    raise
                self._constants.update(error.inputs)
                continue
            self._compiled[key] = compiled
            while len(self._compiled) > self.limit:
                self._compiled.popitem(last=False)
            return compiled

    def _key(self, name: str, value: Any) -> tuple[Any, ...]:
        if value is None:
            return name, None
        if isinstance(value, list):
            return name, tuple((item.shape, item.dtype, item.tobytes()) for item in value)
        if name in self._constants or not _is_data(value.dtype):
            content = value.tobytes() if value.dtype.kind != "O" else tuple(value.ravel())
            return name, value.shape, value.dtype, content
        return name, value.shape, value.dtype

    def _compile(self, inputs: Mapping[str, Any]) -> _CompiledModel:
        values: dict[str, Value] = {}
        operands: dict[str, oc.Tensor] = {}
        for name, value in inputs.items():
            if value is None:
                values[name] = None
            elif isinstance(value, list):
                values[name] = [StaticArray(np.asarray(item), name) for item in value]
            elif name in self._constants or not _is_data(value.dtype):
                values[name] = StaticArray(value, name)
            else:
                element_type = int(onnx.helper.np_dtype_to_tensor_dtype(value.dtype))
                values[name] = operands[name] = placeholder(name, value.shape, element_type)
        with oc.training(False), oc.no_grad():
            imported = self.model.imported(values)
            results = [self._result(imported[name]) for name in self.model.output_names]
        tensors = [t for value in results for t in _tensors(value)]
        if not tensors:
            return _CompiledModel(None, {}, results)
        for tensor in tensors:
            self.ctx.init(tensor)
        routines = [compiled.routine for compiled in self._compiled.values()]
        routine = compile_inference(self.ctx, tensors, self.model.label, routines)
        return _CompiledModel(routine, operands, results)

    def _result(self, value: Value) -> Value:
        if isinstance(value, list):
            return [self._result(item) for item in value]
        if value is None or isinstance(value, StaticArray):
            return value
        return oc.id(as_tensor(value))


def _input(declared: ValueDeclaration, value: Any) -> Any:
    """An input as an array of the declared type, a list of arrays for a sequence, or None for an empty optional."""
    if value is None:
        return None
    if declared.kind != "tensor" and isinstance(value, list):
        return [np.asarray(item) for item in value]
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise oc.DataError(f"the input `{declared.name}` cannot become an array: {error}") from error
    type_ = numpy_type_of(declared.element_type)
    if declared.kind != "tensor" or type_ is None:
        return array
    if declared.element_type == onnx.TensorProto.STRING and array.dtype.kind in "OU":
        return array.astype(object)
    if array.dtype == type_:
        return array
    converted = array.astype(type_) if np.can_cast(array.dtype, type_, "same_kind") else None
    if converted is None or (array.dtype.kind in "iu" and not np.array_equal(converted, array)):
        raise oc.DataError(f"the input `{declared.name}` has elements of type {type_}, and {array.dtype} are given")
    return converted


def _tensors(value: Value) -> list[oc.Tensor]:
    if isinstance(value, list):
        return [t for item in value for t in _tensors(item)]
    return [value] if isinstance(value, oc.Tensor) else []


@lru_cache
def _is_data(dtype: np.dtype[Any]) -> bool:
    """Whether tensors of ocannl can hold arrays of this type, which are constants otherwise, such as strings."""
    return dtype.kind != "O" and precision_of(int(onnx.helper.np_dtype_to_tensor_dtype(dtype))) is not None
