"""`oc.onnx.export`: tensors, blocks and functions as ONNX models."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

import ocannl as oc
from ocannl.base.output_files import Writing
from ocannl.ir.affine import Sym, SymKind
from ocannl.ir.assign import Assign, Comp, written_nodes
from ocannl.ir.precision import int64
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core import graph as traversal
from ocannl.lang.core import nested
from ocannl.lang.rewriting.copies import rewritten
from ocannl.lang.rewriting.graph import Graph
from ocannl.lang.rewriting.nodes import name_of, unique_name
from ocannl.lower.access_modes import static_symbols
from ocannl_onnx.element_types import element_type_of
from ocannl_onnx.errors import UnsupportedModel
from ocannl_onnx.exporting.composite_operators import CompositeOperators
from ocannl_onnx.exporting.finishing import all_values, fold_layouts, unique_names
from ocannl_onnx.exporting.free_axes import FreeAxes, with_free_axes
from ocannl_onnx.exporting.graph_builder import OnnxBuilder, graph_proto, live_nodes, rename, used_names
from ocannl_onnx.exporting.grids import Grid, transposed
from ocannl_onnx.exporting.host_functions import HostFunctions
from ocannl_onnx.exporting.loads import Stored
from ocannl_onnx.exporting.recognized_operators import recognize
from ocannl_onnx.exporting.regions import MissingForm, RegionWriter

OLDEST_OPSET, DEFAULT_OPSET = 20, 21
Placeholders = Mapping[str, oc.Tensor]
MAX_MESSAGE_BYTES = (1 << 31) - (1 << 20)  # of a message of protobuf; larger models store their data in a second file


def export(
    outputs: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    inputs: Mapping[str, oc.Tensor] | Sequence[oc.Tensor] | None = None,
    ctx: oc.Context | None = None,
    opset: int = DEFAULT_OPSET,
    external_data: bool | None = None,
    dynamic: FreeAxes | None = None,
) -> onnx.ModelProto:
    """The model of tensors as a message of ONNX, in inference; written to a file if there is a path.

        oc.onnx.export({"scores": net(x)}, "net.onnx")
        oc.onnx.export(net, "net.onnx", inputs={"x": oc.placeholder(batch=[1], output=[784])})

    `outputs` are a tensor, tensors by name or in a list, an `oc.graph`, or a block or other function of `inputs`, which
    are placeholders, by name or named by their labels. Parameters and states have their values in the context `ctx`,
    by default the default context; those without a value are initialized. Axes are in memory order: batch, output,
    input. Static symbols are inputs. `opset` is a version of the operators, from 20. With
    `external_data=True`, by default for models beyond 2 GB, the data of parameters are in a second file, `PATH.data`,
    to which the message refers. `dynamic={"x": {0: "batch"}}` names axes of inputs that may have any size; the model
    must be the same for all of them.

    Raises: UnsupportedModel, which lists all operations that have no form in ONNX; ArgumentError.
    """
    if isinstance(opset, bool) or not isinstance(opset, int):
        raise oc.ArgumentError(f"`opset` is a version of the operators of ONNX, such as 21, not {opset!r}"[:200])
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise oc.ArgumentError(f"models are exported with opsets from {OLDEST_OPSET} to {newest}, not {opset}")
    if external_data and path is None:
        raise oc.ArgumentError("external data are stored beside a file: give its path")
    with oc.training(False), oc.no_grad():
        named_inputs = _named_inputs(inputs)
        context = oc.default_context() if ctx is None else ctx
        if dynamic is None:
            model = _Exporter(named_outputs(outputs, named_inputs), named_inputs, context).model(opset)
        else:
            named_inputs = named_inputs or _placeholders(outputs)
            outputs_for = _resizable(outputs, named_inputs)
            model = with_free_axes(
                lambda xs: _Exporter(outputs_for(xs), xs, context).model(opset), named_inputs, dynamic
            )
    if path is None:
        onnx.checker.check_model(model, full_check=True)
    else:
        _write(model, Path(path), external_data)
    return model


def _write(model: onnx.ModelProto, path: Path, external_data: bool | None) -> None:
    if external_data is None:
        external_data = sum(len(array.raw_data) for array in model.graph.initializer) > MAX_MESSAGE_BYTES
    if external_data:
        data = path.with_name(f"{path.name}.data")
        with Writing(path):
            data.unlink(missing_ok=True)  # data are appended otherwise
            onnx.save_model(model, path, save_as_external_data=True, location=data.name)
        onnx.checker.check_model(os.fspath(path), full_check=True)
    else:
        onnx.checker.check_model(model, full_check=True)
        with Writing(path):
            onnx.save_model(model, path)


def _named_inputs(inputs: Any) -> dict[str, oc.Tensor]:
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        tensors = [inputs] if isinstance(inputs, oc.Tensor) else list(inputs)
        taken: set[str] = set()
        inputs = {unique_name(t.label, taken): t for t in tensors if isinstance(t, oc.Tensor)}
        if len(inputs) != len(tensors):
            raise oc.ArgumentError("`inputs` are placeholders: oc.placeholder(...)")
    for name, t in inputs.items():
        if not isinstance(name, str) or not name or not isinstance(t, oc.Tensor) or t.node.role is not Role.PLACEHOLDER:
            raise oc.ArgumentError(f"the input {name!r} is not a placeholder, but {t!r}"[:200])
    return dict(inputs)


def named_outputs(outputs: Any, inputs: Mapping[str, oc.Tensor]) -> dict[str, oc.Tensor]:
    """The tensors of a model by name, also of nested ones, of a graph, or of a function of the inputs.

    Raises: ArgumentError for anything else.
    """
    if isinstance(outputs, Graph):
        outputs = outputs.outputs
    elif _is_function(outputs):
        if not inputs:
            raise oc.ArgumentError("a function of tensors is exported with its operands: inputs=[oc.placeholder(...)]")
        outputs = outputs(*inputs.values())
    if isinstance(outputs, Mapping) and all(isinstance(t, oc.Tensor) for t in outputs.values()):
        named = dict(outputs)
    else:
        taken = set(inputs)
        tensors = nested.leaves(outputs)
        named = {unique_name(name_of(t), taken): t for t in tensors if isinstance(t, oc.Tensor)}
        if len(named) != len(tensors):
            raise oc.ArgumentError(f"tensors are exported, not {outputs!r}"[:200])
    if not named or not all(isinstance(name, str) and name for name in named):
        raise oc.ArgumentError("a model has outputs: tensors, by names that are not empty")
    if shared := sorted(set(named) & set(inputs)):
        raise oc.ArgumentError(f"{shared[0]!r} is the name of an input and of an output: give the output another name")
    return named


def _placeholders(outputs: Any) -> dict[str, oc.Tensor]:
    """The placeholders that tensors are computed from, named by their labels."""
    named = named_outputs(outputs, {})
    taken = set(named)
    tensors = traversal.in_execution_order(named.values())
    return {unique_name(t.label, taken): t for t in tensors if t.node.role is Role.PLACEHOLDER}


def _resizable(outputs: Any, inputs: Mapping[str, oc.Tensor]) -> Callable[[Placeholders], dict[str, oc.Tensor]]:
    """The function from placeholders like the inputs to outputs by name: a function of tensors is called again, the
    expressions of tensors are copied."""
    named = named_outputs(outputs, inputs)
    parameters = traversal.parameters(*named.values())

    def called(placeholders: Placeholders) -> dict[str, oc.Tensor]:
        results = named_outputs(outputs, placeholders)
        if dict(traversal.parameters(*results.values())) != dict(parameters):
            raise oc.ArgumentError(
                "the function makes new parameters in each call\n  fix  export a block, or the tensors of one call"
            )
        return results

    def copied(placeholders: Placeholders) -> dict[str, oc.Tensor]:
        replacements = {inputs[name]: placeholder for name, placeholder in placeholders.items()}
        return dict(zip(named, rewritten(list(named.values()), replacements), strict=True))

    return called if _is_function(outputs) else copied


def _is_function(outputs: Any) -> bool:
    return not isinstance(outputs, oc.Tensor | Mapping | list | tuple) and callable(outputs)


class _Exporter:
    """One export: the values of leaves, and the code of the outputs."""

    def __init__(self, outputs: Mapping[str, oc.Tensor], inputs: Mapping[str, oc.Tensor], ctx: oc.Context) -> None:
        self.outputs, self.ctx = outputs, ctx
        self.builder = OnnxBuilder()
        self.missing: dict[str, MissingForm] = {}
        self.inputs: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._names = {t.node: name for name, t in inputs.items()}
        for name, t in inputs.items():
            self._declare(name, t)

    def _declare(self, name: str, t: oc.Tensor) -> None:
        self.inputs[name] = (element_type_of(t.dtype), tuple(t.dims))
        self.builder.dims[name] = tuple(t.dims)

    def model(self, opset: int) -> onnx.ModelProto:
        """Raises: UnsupportedModel."""
        tensors = traversal.in_execution_order(self.outputs.values())
        for t in self.outputs.values():
            self.ctx.init(t)
        everything = traversal.everything(self.outputs.values())
        nodes = {t.node: t for t in everything}
        values: dict[TNode, Stored] = {}
        steps: dict[Sym, Grid] = {}
        region = RegionWriter(self.builder, values, steps, HostFunctions(nodes), self.missing)
        reached = set(tensors)
        composites = CompositeOperators(everything)
        codes = [
            (t, [*t.value_step(reached)()] if t.application is not None or t.literal is not None else [])
            for t in tensors
            if t.literal is None or t in self.outputs.values()
        ]
        code = [item for _, items in codes for item in items]
        for t in tensors:
            if t.application is None and t.literal is None:
                values[t.node] = self._leaf(t)
        self._symbols(code, steps)
        region.statements.steps.update(steps)
        self._states(tensors, code, values)
        for number, (t, items) in enumerate(codes):
            following = [item for _, later in codes[number + 1 :] for item in later] if _has_region(items) else []
            region.run_with(items, following, {t.node for t in self.outputs.values()})
            composites.apply(t, region.statements)
            if t.node in values:
                self.builder.label(values[t.node].name, name_of(t))
        return self._message(values, opset)

    # --- leaves ---

    def _leaf(self, t: oc.Tensor) -> Stored:
        node = t.node
        order = tuple(range(len(t.dims)))
        if node.role is Role.PLACEHOLDER:
            if node not in self._names:
                self._names[node] = unique_name(t.label, {*self.inputs, *self.outputs})
                self._declare(self._names[node], t)
            return Stored(self._names[node], order)
        array = self.ctx.get(t)
        if node.role is Role.DATA:
            name = self.builder.constant(array)
        else:
            name = self.builder.fresh("parameter")
            self.builder.constants.arrays[name] = np.array(array, node.precision.numpy).reshape(node.dims)
        self.builder.label(name, name_of(t))
        return Stored(name, order)

    def _symbols(self, code: Sequence[Comp], steps: dict[Sym, Grid]) -> None:
        """Static symbols are inputs without axes."""
        for item in code:
            for sym in static_symbols(item):
                if sym.kind is SymKind.STATIC and sym not in steps:
                    name = unique_name(sym.name, {*self.inputs, *self.outputs})
                    self.inputs[name] = (onnx.TensorProto.INT64, ())
                    steps[sym] = Grid(name, (), int64)

    def _states(self, tensors: Iterable[oc.Tensor], code: Iterable[Comp], values: dict[TNode, Stored]) -> None:
        written = {node for item in code for node in written_nodes(item)}
        for t in tensors:
            if t.node.role is Role.STATE and t.node in written:
                values[t.node] = self._missing(t, "a state that is updated in inference")

    def _missing(self, t: oc.Tensor, reason: str) -> Stored:
        value = self.builder.fresh("missing")
        self.missing[value] = MissingForm(name_of(t), reason)
        return Stored(value, tuple(range(len(t.dims))))

    # --- the message ---

    def _message(self, values: Mapping[TNode, Stored], opset: int) -> onnx.ModelProto:
        builder, results = self.builder, []
        for name, t in self.outputs.items():
            stored = values[t.node]
            value = transposed(builder, stored.name, stored.order, range(len(stored.order)))
            results.append((builder.nodes_of("Identity", [value], 1)[0], name, t))
        names = [value for value, _, _ in results]
        nodes = fold_layouts(builder, live_nodes(builder.nodes, names))
        nodes = recognize(builder, nodes)
        nodes = live_nodes(_without_identities(nodes, set(names), set(self.inputs), builder), names)
        used = used_names(nodes)
        if problems := list(dict.fromkeys(reason for value, reason in self.missing.items() if value in used)):
            lines = "\n".join(f"  {problem}" for problem in problems)
            raise UnsupportedModel(f"the model has operations that have no form in ONNX:\n{lines}", problems)
        renamed = {value: name for value, name, _ in results}
        for value, name in renamed.items():
            builder.labels[value] = name
        constants = [name for name in builder.constants.arrays if name in used]
        taken = {*self.inputs, *renamed.values()}
        unnamed = (value for value in (*constants, *all_values(nodes)) if value not in renamed)
        renamed |= unique_names(builder, unnamed, taken)
        rename(nodes, renamed)
        graph = graph_proto(
            next(iter(self.outputs)),
            nodes,
            [(name, *declared) for name, declared in self.inputs.items()],
            [(name, element_type_of(t.dtype), tuple(t.dims)) for _, name, t in results],
            {renamed[name]: builder.constants.arrays[name] for name in constants},
        )
        imports = [helper.make_opsetid("", opset)]
        version = helper.find_min_ir_version_for(imports, ignore_unknown=True)
        return helper.make_model(
            graph, opset_imports=imports, ir_version=version, producer_name="ocannl", producer_version=oc.__version__
        )


def _has_region(items: Iterable[Comp]) -> bool:
    return any(not isinstance(item, Assign) for item in items)


def _without_identities(
    nodes: list[Any], outputs: set[str], inputs: set[str], builder: OnnxBuilder
) -> list[Any]:
    """The nodes, with outputs computed in place: an output is a copy only of an input, a constant or another output."""
    by_output = {name: node for node in nodes for name in node.outputs}
    moved: dict[str, str] = {}
    kept = []
    for node in nodes:
        if node.operator == "Identity" and node.outputs[0] in outputs:
            source = node.inputs[0]
            if source in by_output and source not in moved and source not in outputs:
                moved[source] = node.outputs[0]
                continue
        kept.append(node)
    rename(kept, moved)
    return kept
