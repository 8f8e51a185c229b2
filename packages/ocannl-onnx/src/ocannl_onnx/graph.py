"""Graphs of ONNX as frozen data: nodes, attributes, constants, functions and subgraphs.

The protobuf messages are converted once, so that the importer works on Python values: tensors are NumPy arrays,
subgraphs are `OnnxGraph`, strings are `str`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, numpy_helper

from ocannl_onnx.errors import ModelError

Array = np.ndarray[Any, Any]
Size = int | str | None
"""A size in a declared shape: a number, a name, or nothing."""

STANDARD_DOMAIN = ""
_STANDARD_DOMAINS = ("", "ai.onnx")


def qualified_name(domain: str, operator: str) -> str:
    """An operator with its domain, if that is not the standard one."""
    return f"{domain}.{operator}" if domain else operator


def domain_of(name: str) -> str:
    """A domain with one spelling of the standard one."""
    return STANDARD_DOMAIN if name in _STANDARD_DOMAINS else name


@dataclass(frozen=True, slots=True)
class ValueDeclaration:
    """A declared value: its name, kind and, for tensors, the element type and the sizes (None: of any rank)."""

    name: str
    kind: str = "tensor"  # `tensor`, `sequence`, `optional`, `sparse` or `map`
    element_type: int = onnx.TensorProto.UNDEFINED
    sizes: tuple[Size, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """An attribute of a function's node that is an attribute of the function."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One application of an operator. Empty names stand for omitted inputs and outputs."""

    domain: str
    operator: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    proto: onnx.NodeProto

    @property
    def subgraphs(self) -> tuple[OnnxGraph, ...]:
        return tuple(value for value in self.attributes.values() if isinstance(value, OnnxGraph))

    def __str__(self) -> str:
        operator = qualified_name(self.domain, self.operator)
        return f"{operator} `{self.name}`" if self.name else f"{operator} of `{', '.join(filter(None, self.outputs))}`"


@dataclass(frozen=True, slots=True, eq=False)
class OnnxGraph:
    """A graph: nodes in topological order, constants by name, declared inputs and outputs."""

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[ValueDeclaration, ...]
    outputs: tuple[ValueDeclaration, ...]
    constants: Mapping[str, Array] = field(default_factory=dict)
    used: frozenset[str] = frozenset()
    """The names that nodes and outputs use, those of subgraphs included."""

    @property
    def free_inputs(self) -> tuple[ValueDeclaration, ...]:
        """The inputs without a default value."""
        return tuple(declared for declared in self.inputs if declared.name not in self.constants)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function of the model, or the body of an operator."""

    domain: str
    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    defaults: Mapping[str, Any]
    opsets: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The main graph, versions of the operator sets by domain, functions by domain and name, and metadata."""

    graph: OnnxGraph
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], Function]
    metadata: Mapping[str, str] = field(default_factory=dict)


def model_from_proto(proto: onnx.ModelProto, folder: Path | None = None) -> Model:
    """A model; external data are read from inside `folder`, and refused without one.

    Raises: ModelError.
    """
    functions = [function_from_proto(function, folder) for function in proto.functions]
    return Model(
        graph_from_proto(proto.graph, folder),
        opsets_of(proto.opset_import),
        {(function.domain, function.name): function for function in functions},
        {text(entry.key): text(entry.value) for entry in proto.metadata_props},
    )


def text(value: str | bytes) -> str:
    """A name in a model; the parser returns the bytes of those that are no text. Raises: ModelError."""
    if isinstance(value, bytes):
        raise ModelError(f"the name {value[:80]!r} is not valid UTF-8")
    return value


def texts(values: Iterable[str | bytes]) -> tuple[str, ...]:
    return tuple(map(text, values))


def opsets_of(imports: Sequence[onnx.OperatorSetIdProto]) -> dict[str, int]:
    versions = {domain_of(text(opset.domain)): opset.version for opset in imports}
    for domain, version in versions.items():
        if not 0 < version < 2**31:
            raise ModelError(f"the operators of the domain `{domain}` have no version {version}")
    return versions


def graph_from_proto(proto: onnx.GraphProto, folder: Path | None) -> OnnxGraph:
    if proto.sparse_initializer:
        raise ModelError(f"graph `{proto.name}` has sparse initializers, which are not supported")
    nodes = tuple(_node(node, folder) for node in proto.node)
    outputs = tuple(map(declaration_from_proto, proto.output))
    return OnnxGraph(
        text(proto.name),
        nodes,
        tuple(map(declaration_from_proto, proto.input)),
        outputs,
        {text(tensor.name): array_from_proto(tensor, folder) for tensor in proto.initializer},
        frozenset(declared.name for declared in outputs).union(*map(names_used, nodes)),
    )


def names_used(node: Node) -> frozenset[str]:
    """The inputs of a node, and the names that its subgraphs use."""
    return frozenset(node.inputs).union(*(graph.used for graph in node.subgraphs))


def function_from_proto(proto: onnx.FunctionProto, folder: Path | None = None) -> Function:
    return Function(
        domain_of(text(proto.domain)),
        text(proto.name),
        tuple(_node(node, folder) for node in proto.node),
        texts(proto.input),
        texts(proto.output),
        {text(attribute.name): _value(attribute, folder) for attribute in proto.attribute_proto},
        opsets_of(proto.opset_import),
    )


def declaration_from_proto(proto: onnx.ValueInfoProto) -> ValueDeclaration:
    name, kind = text(proto.name), proto.type.WhichOneof("value") or "tensor_type"
    if kind != "tensor_type":
        return ValueDeclaration(name, kind.removesuffix("_type").removesuffix("_tensor"))
    tensor = proto.type.tensor_type
    if not tensor.HasField("shape"):
        return ValueDeclaration(name, "tensor", tensor.elem_type)
    return ValueDeclaration(name, "tensor", tensor.elem_type, tuple(map(_size, tensor.shape.dim)))


def _size(dim: onnx.TensorShapeProto.Dimension) -> Size:
    kind = dim.WhichOneof("value")
    if kind == "dim_value":
        return dim.dim_value if dim.dim_value >= 0 else None  # -1 of exporters that have no names for open axes
    return text(dim.dim_param) or None if kind == "dim_param" else None


def array_from_proto(proto: onnx.TensorProto, folder: Path | None) -> Array:
    """The values of a tensor, external data included. Raises: ModelError."""
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        _check_location(proto, folder)
    try:
        array = numpy_helper.to_array(proto, str(folder) if folder is not None else "")
    except Exception as error:  # the parser of onnx raises errors of many classes for malformed tensors
        raise ModelError(f"the values of tensor `{proto.name}` cannot be read: {error}") from error
    return np.asarray(array)


def _check_location(proto: onnx.TensorProto, folder: Path | None) -> None:
    if folder is None:
        raise ModelError(f"tensor `{proto.name}` has external data: load the model from its file, not from bytes")
    location = next((text(entry.value) for entry in proto.external_data if entry.key == "location"), "")
    if not _is_file_inside(folder, location):
        raise ModelError(
            f"the external data of tensor `{proto.name}` are in {location[:80]!r}, "
            "which is no file in the model's folder"
        )


def _is_file_inside(folder: Path, location: str) -> bool:
    path = folder / location
    try:
        inside = not Path(location).is_absolute() and path.resolve().is_relative_to(folder.resolve())
        return inside and not path.is_symlink() and path.is_file()
    except (OSError, ValueError):  # names that no file can have
        return False


def _node(proto: onnx.NodeProto, folder: Path | None) -> Node:
    return Node(
        domain_of(text(proto.domain)),
        text(proto.op_type),
        text(proto.name),
        texts(proto.input),
        texts(proto.output),
        {text(attribute.name): _value(attribute, folder) for attribute in proto.attribute},
        proto,
    )


def _value(proto: onnx.AttributeProto, folder: Path | None) -> Any:
    if proto.ref_attr_name:
        return Reference(text(proto.ref_attr_name))
    match proto.type:
        case AttributeProto.FLOAT:
            return proto.f
        case AttributeProto.INT:
            return proto.i
        case AttributeProto.STRING:
            return proto.s.decode("utf-8", "replace")
        case AttributeProto.TENSOR:
            return array_from_proto(proto.t, folder)
        case AttributeProto.GRAPH:
            return graph_from_proto(proto.g, folder)
        case AttributeProto.FLOATS:
            return tuple(proto.floats)
        case AttributeProto.INTS:
            return tuple(proto.ints)
        case AttributeProto.STRINGS:
            return tuple(text.decode("utf-8", "replace") for text in proto.strings)
        case AttributeProto.TENSORS:
            return tuple(array_from_proto(tensor, folder) for tensor in proto.tensors)
        case AttributeProto.TYPE_PROTO:
            return proto.tp
        case _:
            raise ModelError(
                f"attribute `{proto.name}` is of the unsupported kind {AttributeProto.AttributeType.Name(proto.type)}"
            )
