"""`ocannl onnx export`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ocannl.cli.imported_function import imported_function

if TYPE_CHECKING:
    from ocannl_onnx.exporting.free_axes import FreeAxes


def export(
    function: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="A function without arguments that returns tensors.")
    ],
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    weights: Annotated[
        Path | None, typer.Option("--weights", help="A checkpoint of `oc.save`; initial values by default.")
    ] = None,
    opset: Annotated[int, typer.Option("--opset", help="The version of the operators.")] = 21,
    dynamic: Annotated[
        list[str] | None,
        typer.Option("--dynamic", metavar="INPUT:AXIS=SIZE", help="An axis of any size, such as `x:0=batch`."),
    ] = None,
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
    model = export_model(outputs, file, ctx=ctx, opset=opset, dynamic=_free_axes(dynamic) if dynamic else None)
    typer.echo(f"{file}: {len(model.graph.node)} nodes, {len(model.graph.initializer)} constants")


def _free_axes(options: list[str]) -> FreeAxes:
    """The names of sizes by inputs and axes. Raises: typer.BadParameter."""
    axes: dict[str, dict[int, str]] = {}
    for option in options:
        match = re.fullmatch(r"(.+):([0-9]{1,3})=(.+)", option)
        if match is None:
            raise typer.BadParameter(f"{option!r} is not of the form INPUT:AXIS=SIZE, such as x:0=batch")
        name, axis, size = match.groups()
        if axes.setdefault(name, {}).setdefault(int(axis), size) != size:
            raise typer.BadParameter(f"axis {axis} of {name!r} has two sizes: {axes[name][int(axis)]} and {size}")
    return axes
