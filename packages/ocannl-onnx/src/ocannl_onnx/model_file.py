"""Reading the files of models: limits, and the versions of operator sets."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from ocannl_onnx.errors import ModelError, UnsupportedModel
from ocannl_onnx.graph import Model, domain_of, model_from_proto

MAX_BYTES = 2**31 - 1  # the limit of protobuf; larger models keep their weights in external data
OLDEST_OPSET = 6
NEWEST_OPSET = int(onnx.defs.onnx_opset_version())
MAX_DEPTH = 32  # of subgraphs in subgraphs


def read_model(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> Model:
    """A model from a file, its bytes, or a message of the `onnx` package.

    Nothing in the file is executed, and external data are read only from files in the folder of the model.

    Raises: ModelError when the source is not a valid model, UnsupportedModel for versions of operator sets before 7.
    """
    if isinstance(source, onnx.ModelProto):
        proto, folder = source, None
    elif isinstance(source, bytes):
        proto, folder = _parsed(source, "the given bytes"), None
    else:
        path = Path(source)
        proto, folder = _parsed(_content(path), f"`{path}`"), path.parent
    _check(proto)
    return model_from_proto(proto, folder)


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ModelError(f"`{path}` has more than {MAX_BYTES} bytes, the limit of ONNX without external data")
        if not path.is_file():
            raise ModelError(f"`{path}` is not a regular file")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise ModelError(f"`{path}` cannot be read: {error}") from error


def _parsed(content: bytes, source: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except (DecodeError, ValueError) as error:
        raise ModelError(f"{source} is not an ONNX model: {error}") from error
    if not proto.opset_import and not proto.graph.node:
        raise ModelError(f"{source} is not an ONNX model: it has neither nodes nor a version of the operators")
    return proto


def _check(proto: onnx.ModelProto) -> None:
    if _depth(proto.graph) > MAX_DEPTH:
        raise ModelError(f"the graphs of the model are nested in more than {MAX_DEPTH} levels")
    version = next((opset.version for opset in proto.opset_import if domain_of(opset.domain) == ""), None)
    if version is not None and not OLDEST_OPSET <= version <= NEWEST_OPSET:
        raise UnsupportedModel(
            f"the model uses version {version} of the operators; supported are {OLDEST_OPSET} to {NEWEST_OPSET}: "
            + ("convert it with onnx.version_converter" if version < OLDEST_OPSET else "upgrade the package onnx")
        )


def _depth(graph: onnx.GraphProto, level: int = 0) -> int:
    """The depth of nested graphs."""
    if level > MAX_DEPTH:
        return level
    graphs = [
        inner
        for node in graph.node
        for attribute in node.attribute
        for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs)
    ]
    return max((_depth(inner, level + 1) for inner in graphs), default=level)
