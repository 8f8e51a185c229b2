"""Import of a graph: one pass over its nodes, which become tensors, constants and parameters of ocannl.

Nodes whose inputs are all constants are evaluated by the reference implementation of ONNX, so that computed shapes are
known. Operators without a row are replaced by their definition as a function, where ONNX or the model has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import defs, helper, shape_inference
from onnx.reference import ReferenceEvaluator

import ocannl as oc
from ocannl.base.errors import OcannlError
from ocannl.ir.tnode import next_id
from ocannl.lang.core.context_vars import UserCall, block_path, enclosing_call
from ocannl_onnx.call import NodeCall
from ocannl_onnx.element_types import element_type_of, element_type_of_array, precision_of
from ocannl_onnx.errors import ModelError, NeedsConstant, UnsupportedModel
from ocannl_onnx.graph import Function, Node, OnnxGraph, Reference, function_from_proto, names_used
from ocannl_onnx.registry import operators
from ocannl_onnx.values import Array, StaticArray, Value, block_of, label, shape_of

MAX_FOLDED_CELLS = 2**24  # of the operands, and of the results, of nodes that are evaluated while importing
MAX_LOOPED_CELLS = 2**12  # of those that the reference implementation evaluates by loops of Python
LOOPED = frozenset({
    "AveragePool", "Col2Im", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "GridSample", "GRU", "LpPool",
    "LSTM", "MaxPool", "MaxRoiPool", "MaxUnpool", "QLinearConv", "Resize", "ReverseSequence", "RNN", "RoiAlign",
    "Scatter", "ScatterElements", "ScatterND", "TensorScatter", "TreeEnsemble", "Upsample",
})  # fmt: skip
MAX_SHAPING_CELLS = 64  # of an operand that decides the sizes of results
MALFORMED = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Errors of Python that attributes and inputs of unexpected types or sizes cause in the functions of the rows."""

MAX_CALLS = 64  # of functions within each other
MAX_EXPANDED = 2**14  # nodes of functions and subgraphs, counted at each call


@dataclass(frozen=True, slots=True)
class ImportScope:
    """What the nodes of a graph may refer to: the operator sets, functions, and the attributes of the function."""

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], Function]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    depth: int = 0
    expanded: Iterator[int] = field(default_factory=lambda: iter(range(MAX_EXPANDED)))
    """A number for each node that is left to be imported from functions and subgraphs."""

    def count(self, nodes: Sequence[Node]) -> None:
        """Raises: UnsupportedModel when calls and steps of loops have too many nodes in total."""
        for node in nodes:
            if next(self.expanded, None) is None:
                raise UnsupportedModel(
                    f"the calls of functions and the steps of loops have more than {MAX_EXPANDED} nodes", [node]
                )


class GraphImporter:
    """Imports the nodes of one graph, in order. `outer` is the importer of the graph around a subgraph."""

    def __init__(self, scope: ImportScope, outer: GraphImporter | None = None) -> None:
        self.scope = scope
        self.values: dict[str, Value] = {}
        self._inputs_of: dict[str, frozenset[str]] = {}
        self._outer = outer

    def bind(self, name: str, value: Value, inputs: frozenset[str] = frozenset()) -> None:
        """Gives a value a name. `inputs` are the inputs of the model that it depends on."""
        if name in self.values:
            raise ModelError(f"the value `{name}` is computed twice")
        self.values[name] = value
        self._inputs_of[name] = inputs

    def lookup(self, name: str) -> Value:
        importer: GraphImporter | None = self
        while importer is not None:
            if name in importer.values:
                return importer.values[name]
            importer = importer._outer
        raise ModelError(f"the value `{name}` is used, but no node before computes it")

    def inputs_of(self, name: str) -> frozenset[str]:
        """The inputs of the model that a value depends on."""
        importer: GraphImporter | None = self
        while importer is not None:
            if name in importer._inputs_of:
                return importer._inputs_of[name]
            importer = importer._outer
        return frozenset()

    def run(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self._import(node)

    def constant(self, call: NodeCall, position: int) -> Array:
        """Raises: NeedsConstant, which names the inputs of the model that decide the value."""
        name = call.node.inputs[position]
        inputs = sorted(self.inputs_of(name))
        cause = f"which depends on the values of `{'`, `'.join(inputs)}`" if inputs else "which is not constant"
        raise NeedsConstant(
            f"{call.node}: sizes depend on `{name}`, {cause}: give constant values for these inputs", inputs
        )

    def subgraph(self, call: NodeCall, graph: OnnxGraph, arguments: Sequence[Value]) -> list[Value]:
        """The outputs of a subgraph of a node for the values of its inputs."""
        inner = GraphImporter(self.scope, self)
        for name, array in graph.constants.items():
            inner.bind(name, StaticArray(array, name))
        for declared, value in zip(graph.inputs, arguments, strict=False):
            inner.bind(declared.name, value, self.dependencies(call.node))
        self.scope.count(graph.nodes)
        inner.run(graph.nodes)
        return [inner.lookup(declared.name) for declared in graph.outputs]

    def dependencies(self, node: Node) -> frozenset[str]:
        """The inputs of the model that the outputs of a node depend on."""
        return frozenset().union(*(self.inputs_of(name) for name in names_used(node)))

    def needs_constant(self, call: NodeCall, reason: str) -> NoReturn:
        """Raises: NeedsConstant, which names all inputs of the model that the node depends on."""
        inputs = sorted(self.dependencies(call.node))
        causes = f"it depends on the values of `{'`, `'.join(inputs)}`" if inputs else "it is not constant"
        raise NeedsConstant(f"{call.node}: {reason}; {causes}: give constant values for these inputs", inputs)

    # --- one node ----------------------------------------------------------------------------

    def _import(self, node: Node) -> None:
        node = self._bound(node)
        values = [self.lookup(name) if name else None for name in node.inputs]
        version = self.scope.opsets.get(node.domain, 1)
        call = NodeCall(node, version, values, self)
        first = next_id()
        try:
            with _provenance(call):
                outputs = self._outputs(call)
        except (NeedsConstant, ModelError):
            raise
        except UnsupportedModel as error:
            raise error if error.problems else UnsupportedModel(f"{node}: {error}", [node]) from error
        except OcannlError as error:
            raise UnsupportedModel(f"{node}: {error}", [node]) from error
        except MemoryError as error:
            raise UnsupportedModel(f"{node} needs more memory than there is", [node]) from error
        except MALFORMED as error:
            raise ModelError(f"{node} is malformed: {type(error).__name__}: {error}") from error
        inputs = self.dependencies(node)
        for name, value in zip(node.outputs, outputs, strict=False):
            if name:
                if isinstance(value, oc.Tensor):
                    _rename(value, label(name.rpartition("/")[2]), first)
                self.bind(name, value, inputs)

    def _bound(self, node: Node) -> Node:
        """The node of a function with the values of the function's attributes; those without a value are absent."""
        if not any(isinstance(value, Reference) for value in node.attributes.values()):
            return node
        attributes = {}
        for name, value in node.attributes.items():
            if isinstance(value, Reference):
                if value.name in self.scope.attributes:
                    attributes[name] = self.scope.attributes[value.name]
            else:
                attributes[name] = value
        return replace(node, attributes=attributes)

    def _outputs(self, call: NodeCall) -> Sequence[Value]:
        node = call.node
        function = self.scope.functions.get((node.domain, node.operator))
        if function is not None:
            return self._call_function(call, function)
        row = operators().get((node.domain, node.operator))
        if (row is None or row.folds) and _foldable(call):
            folded = _folded(call)
            if folded is not None:
                return folded
        if row is not None:
            outputs = row.build(call)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            return [_typed(call, n, value) for n, value in enumerate(outputs)]
        body = _definition(call)
        if body is None:
            raise UnsupportedModel("the operator is not supported")
        return self._call_function(call, body)

    def _call_function(self, call: NodeCall, function: Function) -> list[Value]:
        if self.scope.depth >= MAX_CALLS:
            raise ModelError(f"functions call each other more than {MAX_CALLS} deep, at {call.node}")
        opsets = {**self.scope.opsets, **function.opsets}
        attributes = {**function.defaults, **call.node.attributes}
        self.scope.count(function.nodes)
        scope = replace(self.scope, opsets=opsets, attributes=attributes, depth=self.scope.depth + 1)
        inner = GraphImporter(scope)
        for n, name in enumerate(function.inputs):
            inputs = self.inputs_of(call.node.inputs[n]) if n < len(call.node.inputs) else frozenset()
            inner.bind(name, call.value(n), inputs)
        inner.run(function.nodes)
        return [inner.values.get(name) for name in function.outputs[: max(1, call.outputs)]]


@contextmanager
def _provenance(call: NodeCall) -> Iterator[None]:
    """Makes the operations of a node one call, in the block that the name of its first output states."""
    scope = block_path.set(block_of(call.node.outputs[0] if call.node.outputs else call.node.name))
    tensors = tuple(value for value in call.values if isinstance(value, oc.Tensor))
    user_call = enclosing_call.set(enclosing_call.get() or UserCall(_function(call.node.operator), tensors, {}))
    try:
        yield
    finally:
        enclosing_call.reset(user_call)
        block_path.reset(scope)


def _rename(value: oc.Tensor, name: str, first: int) -> None:
    """Names a result after its name in the model. One from before the node (`first`) keeps a name that it has."""
    if value.application is not None and value.node.id > first:
        value.with_label(name)
    else:
        value.rename_if_unnamed(name)


@cache
def _function(name: str) -> Callable[..., Any]:
    """A function of this name, which calls are described by."""

    def function(*tensors: oc.Tensor) -> None:
        raise NotImplementedError

    function.__name__ = label(name)
    return function


def _foldable(call: NodeCall) -> bool:
    """Whether all inputs are known, so that the node may be evaluated while importing."""
    inputs = [value for value in call.values if value is not None]
    return not call.node.subgraphs and all(isinstance(value, StaticArray) for value in inputs)


def _folded(call: NodeCall) -> list[Value] | None:
    """The outputs of a node with constant inputs; None when the reference implementation lacks or refuses it."""
    node = call.node
    arrays = [None if value is None else value.array for value in call.values]
    limit = MAX_LOOPED_CELLS if node.operator in LOOPED else MAX_FOLDED_CELLS
    if sum(array.size for array in arrays if array is not None) > limit:
        return None
    try:
        model = _model_of(node, call.version, arrays)
        if _result_cells(model, arrays) > limit:
            return None
        outputs = _evaluated(node, model, arrays)
    except Exception:  # the reference implementation raises errors of many classes; the row of the operator decides
        return None
    if any(not isinstance(output, np.ndarray | np.generic) for output in outputs):
        return None
    return [StaticArray(np.asarray(output), name) for output, name in zip(outputs, node.outputs, strict=False)]


def _model_of(node: Node, version: int, arrays: Sequence[Array | None]) -> onnx.ModelProto:
    """A model of one node. Small operands are in it as constants, from which the sizes of results are inferred."""
    inputs = {name: array for name, array in zip(node.inputs, arrays, strict=True) if array is not None}
    graph = helper.make_graph(
        [_proto_of(node)],
        "node",
        [helper.make_tensor_value_info(name, element_type_of_array(x), x.shape) for name, x in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in node.outputs if name],
        [onnx.numpy_helper.from_array(x, name) for name, x in inputs.items() if x.size <= MAX_SHAPING_CELLS],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])


def _result_cells(model: onnx.ModelProto, arrays: Sequence[Array | None]) -> float:
    """The cells of the largest result; where no size is inferred, the largest integer that may decide it."""
    declared = [value.type.tensor_type for value in shape_inference.infer_shapes(model).graph.output]
    if all(type_.HasField("shape") and all(dim.HasField("dim_value") for dim in type_.shape.dim) for type_ in declared):
        return max((math.prod(dim.dim_value for dim in type_.shape.dim) for type_ in declared), default=0)
    integers = [abs(number) for node in model.graph.node for a in node.attribute for number in (a.i, *a.ints)]
    operands = [x for x in arrays if x is not None and x.size and x.dtype.kind in "iu"]
    return max([*integers, *(float(np.abs(x.astype(np.float64)).max()) for x in operands)], default=0)


def _evaluated(node: Node, model: onnx.ModelProto, arrays: Sequence[Array | None]) -> list[Any]:
    inputs = {name: array for name, array in zip(node.inputs, arrays, strict=True) if array is not None}
    results = iter(ReferenceEvaluator(model).run(None, inputs))
    return [next(results) if name else np.zeros(0) for name in node.outputs]


def _proto_of(node: Node) -> onnx.NodeProto:
    """The message of a node, with values in place of references to attributes of the function around it."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    del proto.attribute[:]
    for attribute in node.proto.attribute:
        if not attribute.ref_attr_name:
            proto.attribute.append(attribute)
        elif attribute.name in node.attributes:
            value = node.attributes[attribute.name]
            content = onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
            proto.attribute.append(helper.make_attribute(attribute.name, content, attr_type=attribute.type))
    return proto


def _typed(call: NodeCall, output: int, value: Value) -> Value:
    """An output in the element type that the definition of the operator declares, where its inputs decide it."""
    if not isinstance(value, oc.Tensor):
        return value
    declared = declared_type(call, output)
    return value if declared is None or str(declared) == str(value.dtype) else oc.cast(value, declared)


def declared_type(call: NodeCall, output: int) -> Any | None:
    """The data type of an output by the schema: fixed, or that of an input with the same type variable."""
    schema = schema_of(call.node.operator, call.node.domain, call.version)
    if schema is None or not schema.outputs:
        return None
    formal = schema.outputs[min(output, len(schema.outputs) - 1)]
    if not formal.is_homogeneous:  # outputs of different types, as of Loop and Scan
        return None
    fixed = _fixed_type(schema, formal.type_str)
    if fixed is not None:
        return precision_of(fixed)
    for n, value in enumerate(call.values):
        source = schema.inputs[min(n, len(schema.inputs) - 1)]
        if source.type_str == formal.type_str and value is not None and not isinstance(value, list):
            return call.dtype(n)
    return None


def _fixed_type(schema: Any, type_str: str) -> int | None:
    """The element type of a formal output that has only this one."""
    allowed = next((c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == type_str), [type_str])
    if len(allowed) != 1 or not allowed[0].startswith("tensor("):
        return None
    return int(onnx.TensorProto.DataType.Value(allowed[0].removeprefix("tensor(").removesuffix(")").upper()))


@cache
def schema_of(operator: str, domain: str, version: int) -> Any | None:
    try:
        return defs.get_schema(operator, version, domain)
    except defs.SchemaError:
        return None


def _definition(call: NodeCall) -> Function | None:
    """The body by which ONNX defines an operator as a function, for the types of the inputs; None without one."""
    node = call.node
    schema = schema_of(node.operator, node.domain, call.version)
    if schema is None:
        return None
    if schema.has_function:
        proto = schema.function_body
    elif schema.has_context_dependent_function:
        proto = _context_dependent_body(call, schema)
    else:
        return None
    function = function_from_proto(proto)
    defaults = {
        name: helper.get_attribute_value(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.type
    }
    decoded = {name: value.decode() if isinstance(value, bytes) else value for name, value in defaults.items()}
    return replace(function, defaults={**decoded, **function.defaults})


def _context_dependent_body(call: NodeCall, schema: Any) -> onnx.FunctionProto:
    types = [
        onnx.TypeProto()
        if value is None
        else helper.make_tensor_type_proto(element_type_of(call.dtype(n)), shape_of(value))
        for n, value in enumerate(call.values)
    ]
    body = schema.get_context_dependent_function_with_opset_version(
        call.version, _proto_of(call.node).SerializeToString(), [type_.SerializeToString() for type_ in types]
    )
    parsed = onnx.FunctionProto()
    parsed.ParseFromString(body)
    return parsed
