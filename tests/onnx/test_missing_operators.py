"""`ocannl onnx check`: all missing operators of a model with counts, names, reasons and replacements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import ocannl as oc

onnx = pytest.importorskip("onnx")
from onnx import helper, parser  # noqa: E402

from ocannl_onnx import command  # noqa: E402

DOMAINS = ("", "ai.onnx.ml", "com.microsoft", "org.pytorch.aten", "acme")
MISSING = {  # operator: the count of nodes, and words of the replacement
    "ImageDecoder": (1, "decode pictures before the model"),
    "ai.onnx.ml.ZipMap": (1, "skl2onnx"),
    "ai.onnx.ml.LinearClassifier": (2, "MatMul, Add, ArgMax"),
    "com.microsoft.NhwcMaxPool": (1, "ORT_ENABLE_BASIC"),
    "org.pytorch.aten.ATen": (3, "dynamo=True"),
    "acme.Relu": (1, "Relu, if it computes the same"),
    "acme.MatMull": (1, "MatMul, which has a similar name"),
    "acme.Frobnicate": (1, "a package with the entry point `ocannl_onnx.operators`"),
}
BRANCH = parser.parse_graph("inner () => (float[3] z) { z = Neg (x) }")


def model_with_missing_operators() -> Any:
    nodes, value = [], "x"
    for name, (count, _) in MISSING.items():
        domain, _, operator = name.rpartition(".")
        for n in range(count):
            result = f"{operator}_{n}"
            nodes.append(helper.make_node(operator, [value], [result], f"node_{result}", domain=domain))
            value = result
    then_branch, else_branch = onnx.GraphProto(), onnx.GraphProto()
    then_branch.CopyFrom(BRANCH)
    else_branch.CopyFrom(BRANCH)
    else_branch.node[0].op_type = "MatMull"  # in a subgraph, and of another domain
    else_branch.node[0].domain = "acme"
    nodes.append(helper.make_node("If", ["c"], ["y"], then_branch=then_branch, else_branch=else_branch))
    declared = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
    ]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3])]
    versions = [helper.make_opsetid(domain, 20 if not domain else 1) for domain in DOMAINS]
    return helper.make_model(helper.make_graph(nodes, "net", declared, outputs), opset_imports=versions)


def app() -> typer.Typer:
    commands = typer.Typer()
    command.register(commands)
    return commands


def test_check_lists_all_missing_operators(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model_with_missing_operators(), path)
    result = CliRunner().invoke(app(), ["onnx", "check", str(path)])
    assert result.exit_code == 1
    header, *lines = [line.split("\t") for line in result.output.splitlines()]
    assert header == ["operator", "nodes", "names", "reason", "replacement"]
    assert [line[0] for line in lines] == list(MISSING)
    for (name, (count, words)), (_, nodes, names, reason, replacement) in zip(MISSING.items(), lines, strict=True):
        total = count + (name == "acme.MatMull")
        assert int(nodes) == total and len(names.split(", ")) == total, name
        assert words in replacement, replacement
        assert reason == ("not an operator of ONNX" if name.startswith(("acme", "com", "org")) else
                          "no row and no definition as a function")  # fmt: skip


def test_loading_raises_the_list_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model_with_missing_operators(), path)
    with pytest.raises(oc.Unsupported) as error:
        oc.onnx.load(path)
    lines = CliRunner().invoke(app(), ["onnx", "check", str(path)]).output.splitlines()[1:]
    problems = error.value.problems  # type: ignore[attr-defined]
    rows = [(p.qualified_name, str(len(p.nodes)), ", ".join(p.nodes), p.reason, p.replacement) for p in problems]
    assert rows == [tuple(line.split("\t")) for line in lines]
    for problem in problems:
        assert f"{problem.qualified_name}  {len(problem.nodes)} node" in str(error.value)
        assert f"replacement: {problem.replacement}" in str(error.value)


def test_check_of_a_supported_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Relu (x) }'
    onnx.save(parser.parse_model(text), path)
    result = CliRunner().invoke(app(), ["onnx", "check", str(path)])
    assert result.exit_code == 0 and "all operators of 1 nodes are supported" in result.output
