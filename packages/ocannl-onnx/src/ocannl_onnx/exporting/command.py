"""`ocannl onnx export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocannl.cli.imported_function import imported_function


def export(
    function: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="A function without arguments that returns tensors.")
    ],
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    weights: Annotated[
        Path | None, typer.Option("--weights", help="A checkpoint of `oc.save`; initial values by default.")
    ] = None,
    opset: Annotated[int, typer.Option("--opset", help="The version of the operators.")] = 21,
) -> None:
    """Write a model to an ONNX file; exit with status 1 and a list if operations have no form in ONNX.

    Imports the module, from the current folder too, and calls the function, which returns the outputs of the model.
    """
    import ocannl as oc
    from ocannl_onnx.exporting.model import export as export_model
    from ocannl_onnx.exporting.model import named_outputs

    outputs = named_outputs(imported_function(function)(), {})
    ctx = oc.Context()
    if weights is not None:
        graph = oc.graph(*outputs.values())
        oc.load(weights, ctx, {**graph.params, **graph.states})
    model = export_model(outputs, file, ctx=ctx, opset=opset)
    typer.echo(f"{file}: {len(model.graph.node)} nodes, {len(model.graph.initializer)} constants")
