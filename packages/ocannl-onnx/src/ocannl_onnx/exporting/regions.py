"""Computations as operators: statements in order, loops as Loop, conditional code as If."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from ocannl.ir import assign as comp
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Comp, Conditional, LabeledBlock, Loop, Read, Seq, statements, written_nodes
from ocannl.ir.host_call import HostCall
from ocannl.ir.precision import int64
from ocannl.ir.tnode import TNode
from ocannl.lang.core.region_tensor import exposed
from ocannl_onnx.element_types import element_type_of
from ocannl_onnx.exporting.graph_builder import Body, OnnxBuilder
from ocannl_onnx.exporting.grids import Grid, NoForm, transposed
from ocannl_onnx.exporting.loads import Stored
from ocannl_onnx.exporting.statements import Statements

HostFunction = Callable[[HostCall, Statements], None]
Declaration = tuple[str, int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class MissingForm:
    """A statement that has no form in ONNX: the label of its tensor, and the reason."""

    label: str
    reason: str

    def __str__(self) -> str:
        return f"`{self.label}`: {self.reason}"


class RegionWriter:
    """Writes the graph of one computation. Results of statements without a form are values that no node computes, with
    the reasons in `missing`."""

    def __init__(
        self,
        builder: OnnxBuilder,
        values: dict[TNode, Stored],
        steps: Mapping[Sym, Grid],
        host_function: HostFunction,
        missing: dict[str, MissingForm],
    ) -> None:
        self.builder = builder
        self.statements = Statements(builder, values, steps)
        self.values = values
        self.missing = missing
        self._host_function = host_function

    def run(self, code: Iterable[Comp], live: Iterable[TNode] = ()) -> None:
        """Translates code. `live` are the nodes whose values are read afterwards."""
        self.run_with(code, (), live)

    def run_with(self, code: Iterable[Comp], later: Sequence[Comp], live: Iterable[TNode]) -> None:
        """Translates code before `later` code."""
        items, live = flat(code), set(live)
        for number, item in enumerate(items):
            try:
                self._run(item, [*items[number + 1 :], *later], live)
            except NoForm as reason:
                self._give_up(item, str(reason))

    def _run(self, item: Comp, following: Sequence[Comp], live: set[TNode]) -> None:
        match item:
            case Assign():
                self.statements.assign(item)
            case HostCall():
                self._host_function(item, self.statements)
            case Loop(sym, body) if sym.extent == 1:
                once = self._body(self.builder, self.values, {sym: self._number(sym.lo)})
                once.run([body], exposed(following) | live)
            case Loop():
                self._loop(item, exposed(following) | live)
            case Conditional():
                self._conditional(item, exposed(following) | live)

    def _give_up(self, item: Comp, reason: str) -> None:
        nodes = list(dict.fromkeys(written_nodes(item)))
        label = item.origin.label if isinstance(item, Assign) else nodes[0].label if nodes else "code"
        for node in nodes:
            value = self.builder.fresh("missing")
            self.missing[value] = MissingForm(label or node.label, reason)
            self.values[node] = _in_order(value, node)

    def _number(self, value: int) -> Grid:
        return self.statements.grids.constant(np.array(value), (), int64)

    def _zeros(self, node: TNode) -> Stored:
        zeros = self.statements.stores.full(node.dims, 0, node.precision)
        return _in_order(self.statements.grids.to_storage(Grid(zeros.name, (), node.precision)), node)

    def _body(self, builder: OnnxBuilder, values: dict[TNode, Stored], steps: Mapping[Sym, Grid]) -> RegionWriter:
        return RegionWriter(builder, values, {**self.statements.steps, **steps}, self._host_function, self.missing)

    def _current(self, node: TNode) -> str:
        """The value of a node with its axes in order; zeros if it has none."""
        stored = self.values[node] if node in self.values else self._zeros(node)
        return transposed(self.builder, stored.name, stored.order, range(len(stored.order)))

    # --- conditional code ---

    def _conditional(self, code: Conditional, live: set[TNode]) -> None:
        results = [node for node in dict.fromkeys(written_nodes(code.body)) if node in live]
        condition = self.statements.scalar(code.condition).name
        old = {node: self._current(node) for node in results}
        true_branch, false_branch = OnnxBuilder(self.builder), OnnxBuilder(self.builder)
        region = self._body(true_branch, dict(self.values), {})
        region.run([code.body], results)
        new = [true_branch.nodes_of("Identity", [region._current(node)], 1)[0] for node in results]
        kept = [false_branch.nodes_of("Identity", [old[node]], 1)[0] for node in results]
        branches = {
            "then_branch": Body("then", true_branch.nodes, (), _declared(new, results)),
            "else_branch": Body("else", false_branch.nodes, (), _declared(kept, results)),
        }
        names = self.builder.nodes_of("If", [condition], len(results), **branches) if results else []
        self.values.update((node, _in_order(name, node)) for node, name in zip(results, names, strict=True))

    # --- loops ---

    def _loop(self, code: Loop, live: set[TNode]) -> None:
        items = flat([code.body])
        condition: comp.Value | None = None
        if len(items) == 1 and isinstance(items[0], Conditional) and isinstance(items[0].condition, Read):
            condition, items = items[0].condition, flat([items[0].body])
        used = _read_nodes(items) | live | ({condition.node} if isinstance(condition, Read) else set())
        items = [item for item in items if not (isinstance(item, Assign) and item.lhs not in used)]
        stacked = {} if condition is not None else _stacked_nodes(items, code.sym)
        items = [item for item in items if not (isinstance(item, Assign) and item.lhs in stacked)]
        read = exposed(items)
        carried = [
            node
            for node in dict.fromkeys(node for item in items for node in written_nodes(item))
            if node in read or node in live or (isinstance(condition, Read) and node is condition.node)
        ]
        body = OnnxBuilder(self.builder)
        step, is_running = body.fresh("step"), body.fresh("running")
        inputs = [body.fresh("carried") for _ in carried]
        position = Grid(step, (), int64)
        region = self._body(body, dict(self.values), {code.sym: self._offset(body, position, code.sym)})
        region.values.update((node, _in_order(name, node)) for node, name in zip(carried, inputs, strict=True))
        region.run(items, [*carried, *(row.source for row in stacked.values())])
        after = is_running if condition is None else region.statements.scalar(condition).name
        results = [body.nodes_of("Identity", [name], 1)[0] for name in (after, *map(region._current, carried))]
        rows = [row.source for row in stacked.values()]
        results += [body.nodes_of("Identity", [region._current(row)], 1)[0] for row in rows]
        count = self.builder.constant(np.array(code.sym.extent, np.int64))
        start = self.builder.constant(np.array(True)) if condition is None else self.statements.scalar(condition).name
        graph = Body(
            "loop",
            body.nodes,
            [(step, TensorProto.INT64, ()), (is_running, TensorProto.BOOL, ()), *_declared(inputs, carried)],
            [(results[0], TensorProto.BOOL, ()), *_declared(results[1:], [*carried, *rows])],
        )
        before = [count, start, *map(self._current, carried)]
        names = self.builder.nodes_of("Loop", before, len(carried) + len(rows), body=graph)
        self.values.update((node, _in_order(name, node)) for node, name in zip(carried, names, strict=False))
        for (node, row), name in zip(stacked.items(), names[len(carried) :], strict=True):
            # the reference evaluator of ONNX concatenates what it should stack
            inner_axes = [axis for axis in range(len(node.dims)) if axis != row.axis]
            dims = [node.dims[axis] for axis in (row.axis, *inner_axes)]
            name = self.builder.node("Reshape", name, self.builder.integers(*dims))
            if row.is_reversed:
                name = self.builder.node("Slice", name, *(self.builder.integers(n) for n in (-1, -(1 << 31), 0, -1)))
            self.values[node] = Stored(name, (row.axis, *inner_axes))

    def _offset(self, body: OnnxBuilder, step: Grid, sym: Sym) -> Grid:
        if sym.lo == 0:
            return step
        return Grid(body.node("Add", step.name, body.constant(np.array(sym.lo, np.int64))), (), int64)


@dataclass(frozen=True, slots=True)
class _Row:
    """The node that is stored in each step, and the axis of steps of the node that consists of all of them."""

    source: TNode
    axis: int
    is_reversed: bool


def _read_nodes(items: Sequence[Comp]) -> set[TNode]:
    """The nodes that occur in values, conditions and arguments of host calls."""
    nodes: set[TNode] = set()
    for statement in (statement for item in items for statement in statements(item)):
        match statement:
            case Assign(lhs, accum, pieces=pieces):
                nodes.update(read.node for piece in pieces for read in piece.reads)
                nodes.update([lhs] if accum is not None else [])
            case Conditional(condition):
                nodes.update(read.node for read in comp.reads(condition))
            case HostCall():
                nodes.update(statement.read)
    return nodes


def _stacked_nodes(items: Sequence[Comp], sym: Sym) -> dict[TNode, _Row]:
    """The nodes of which each step of a loop stores one part, a node as a whole, along one axis."""
    read = _read_nodes(items)
    writes: dict[TNode, list[Comp]] = {}
    for item in items:
        for node in written_nodes(item):
            writes.setdefault(node, []).append(item)
    stacked = {}
    for number, item in enumerate(items):
        if isinstance(item, Assign) and len(writes[item.lhs]) == 1 and item.lhs not in read:
            row = _row_of(item, sym)
            if row is not None and all(row.source not in written_nodes(later) for later in items[number + 1 :]):
                stacked[item.lhs] = row
    return stacked


def _row_of(item: Assign, sym: Sym) -> _Row | None:
    if item.accum is not None or len(item.pieces) != 1 or item.clear:
        return None
    (piece,) = item.pieces
    axes = [axis for axis, index in enumerate(piece.indices) if sym in index.syms]
    if len(axes) != 1 or not isinstance(piece.value, Read) or piece.value.node.precision is not item.lhs.precision:
        return None
    (axis,) = axes
    forward, backward = Affine.of(sym), Affine.of(sym.hi) - sym
    inner_axes = (*piece.indices[:axis], *piece.indices[axis + 1 :])
    is_complete = piece.value.indices == inner_axes == tuple(map(Affine.of, piece.loops)) and piece.when.is_true
    dims = (*item.lhs.dims[:axis], *item.lhs.dims[axis + 1 :])
    if not is_complete or piece.indices[axis] not in (forward, backward) or item.lhs.dims[axis] != sym.extent or sym.lo:
        return None
    return _Row(piece.value.node, axis, piece.indices[axis] == backward) if dims == piece.value.node.dims else None


def _declared(names: Sequence[str], nodes: Sequence[TNode]) -> list[Declaration]:
    return [(name, element_type_of(node.precision), node.dims) for name, node in zip(names, nodes, strict=True)]


def _in_order(name: str, node: TNode) -> Stored:
    return Stored(name, tuple(range(len(node.dims))))


def flat(code: Iterable[Comp]) -> list[Comp]:
    """The statements of code, without sequences and headings."""
    items: list[Comp] = []
    stack = list(code)[::-1]
    while stack:
        match stack.pop():
            case Seq(inner):
                stack.extend(reversed(inner))
            case LabeledBlock(_, body):
                stack.append(body)
            case item:
                items.append(item)
    return items


