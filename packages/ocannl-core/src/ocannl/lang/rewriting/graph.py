"""Graphs: the operations of expressions by name, with operands and consumers, and edits that return new graphs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ocannl.base.errors import ArgumentError, CodeError
from ocannl.base.traceback_filtering import public_class
from ocannl.lang.core import graph as traversal
from ocannl.lang.core.context_vars import block_path
from ocannl.lang.core.leaf_constructors import embed, placeholder
from ocannl.lang.core.operation_call import operation_call
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.region_tensor import RegionResult
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import recorder
from ocannl.lang.rewriting.copies import Replacement, rewired, rewritten
from ocannl.lang.rewriting.nodes import is_hidden, leaf_kind, name_of, readers_of, sources_of, unique_name


@public_class()
class GraphNode:
    """A tensor of a graph: an input, a parameter, a state, or the result of an operation.

    `name` is unique in the graph: the path of the block whose result it is, otherwise its label after the path of the
    block that builds it. The operations inside a function such as `oc.softmax` are one node.
    """

    __slots__ = ("graph", "name", "tensor")

    def __init__(self, graph: Graph, name: str, tensor: Tensor) -> None:
        if not (isinstance(graph, Graph) and isinstance(name, str) and isinstance(tensor, Tensor)):
            raise ArgumentError(f"graph[name] is a node of a graph: {name!r} makes none"[:200])
        self.graph, self.name, self.tensor = graph, name, tensor

    @property
    def operation(self) -> str:
        """The name of the operation; of a leaf "parameter", "state", "input" or "constant"."""
        application = self.tensor.application
        if application is None:
            return leaf_kind(self.tensor)
        if isinstance(application, RegionResult):
            return application.operands[0].label
        return operation_call(application, self.tensor.provenance.text).name

    @property
    def settings(self) -> Mapping[str, Any]:
        """The arguments of the call that are not tensors, with defaults."""
        call = self.tensor.operation
        return {} if call is None or isinstance(self.tensor.application, RegionResult) else call.settings

    @property
    def operands(self) -> tuple[GraphNode, ...]:
        """The nodes that the operation reads, without numbers."""
        return self.graph._neighbors(self, self.graph._operands)

    @property
    def consumers(self) -> tuple[GraphNode, ...]:
        """The nodes that read this one."""
        return self.graph._neighbors(self, self.graph._consumers)

    @property
    def block(self) -> str:
        """The path of the block that builds the tensor, empty outside of blocks."""
        return self.tensor.scope

    def __repr__(self) -> str:
        operands = ", ".join(node.name for node in self.operands)
        return f"<{self.name}: {self.tensor.known_shape or 'scalar'} {self.operation}({operands})>"


@public_class()
class Graph(Mapping[str, GraphNode]):
    """The nodes that tensors depend on, by name, in the order in which they are computed.

    Graphs are immutable. An edit returns the graph of new output tensors, which share parameters, states and inputs
    with the original; shapes of what depends on the edited node are inferred again.
    """

    __slots__ = ("_by_tensor", "_consumers", "_names", "_operands", "outputs")

    def __init__(self, outputs: tuple[Tensor, ...]) -> None:
        if not (isinstance(outputs, tuple) and all(isinstance(t, Tensor) for t in outputs)):
            raise ArgumentError(f"oc.graph(*tensors) makes a graph, not oc.Graph({outputs!r})"[:200])
        self.outputs = outputs
        reached = traversal.everything(outputs)
        readers = readers_of(reached)
        visible = {t: None for t in reached if t in outputs or not is_hidden(t, readers[t])}
        self._operands = {t: sources_of(t, visible.keys()) for t in visible}
        self._consumers: dict[Tensor, list[Tensor]] = {t: [] for t in visible}
        for t in visible:
            for operand in self._operands[t]:
                self._consumers[operand].append(t)
        self._names: dict[str, GraphNode] = {}
        self._by_tensor: dict[Tensor, GraphNode] = {}
        taken: set[str] = set()
        for t in visible:
            node = GraphNode(self, unique_name(name_of(t), taken), t)
            self._names[node.name] = self._by_tensor[t] = node

    # --- queries ---

    def __getitem__(self, key: str | Tensor | GraphNode) -> GraphNode:
        """The node of a name, of the end of a name if no other ends so, of a block that returns it, or of a tensor."""
        if isinstance(key, GraphNode):
            key = key.tensor
        if isinstance(key, Tensor):
            if key not in self._by_tensor:
                raise CodeError(f"`{key.label}` is not in the graph of {_listed(t.label for t in self.outputs)}")
            return self._by_tensor[key]
        if not isinstance(key, str):
            raise ArgumentError(f"a node of a graph is named by a text, not by {key!r}"[:200])
        if key in self._names:
            return self._names[key]
        nodes = list(self._names.values())
        matching = [node for node in nodes if key in node.tensor.block_results]
        matching = matching or [node for node in nodes if node.name.endswith(f".{key}")]
        if len(matching) > 1:
            raise CodeError(f"several nodes are called {key!r}: {_listed(node.name for node in matching)}")
        if not matching:
            raise CodeError(f"the graph has no node {key!r}{_suggestion(key, self._names)}")
        return matching[0]

    def __contains__(self, key: object) -> bool:
        return key in self._by_tensor if isinstance(key, Tensor) else key in self._names

    def get(self, key: Any, default: Any = None) -> Any:
        """The node of a tensor or of a complete name, otherwise the default."""
        return self._by_tensor.get(key, default) if isinstance(key, Tensor) else self._names.get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def find(self, pattern: str = "*", *, operation: str | None = None) -> tuple[GraphNode, ...]:
        """The nodes whose name matches a pattern with `*`, `?` and `[...]`, and whose operation has a name."""
        if not isinstance(pattern, str) or not isinstance(operation, str | None):
            raise ArgumentError(f"a graph is searched by texts, not by {pattern!r} and {operation!r}"[:200])
        nodes = (node for node in self._names.values() if fnmatchcase(node.name, pattern))
        return tuple(node for node in nodes if operation is None or node.operation == operation)

    @property
    def inputs(self) -> tuple[GraphNode, ...]:
        """The leaves that are set from outside."""
        return tuple(node for node in self._names.values() if node.operation == "input")

    @property
    def params(self) -> Mapping[str, Tensor]:
        """All parameters by path."""
        return traversal.parameters(*self.outputs)

    @property
    def states(self) -> Mapping[str, Tensor]:
        """All states of blocks by path."""
        return traversal.states(*self.outputs)

    # --- edits ---

    def replace(self, key: str | Tensor | GraphNode, by: Tensor | float | Callable[..., Tensor]) -> Graph:
        """The graph in which all consumers of a node read `by`: a tensor, or a function of the operands of the node."""
        node = self[key]
        return self._with({node.tensor: self._of_operands(node, by) if callable(by) else _checked_result(by)})

    def insert(self, after: str | Tensor | GraphNode, function: Callable[[Tensor], Tensor]) -> Graph:
        """The graph in which all consumers of a node read a function of it."""
        node = self[after]
        if not callable(function):
            raise ArgumentError(f"a function of the node is inserted, not {function!r}"[:200])
        return self._with({node.tensor: _built(function, [node.tensor], node.block)})

    def remove(self, *keys: str | Tensor | GraphNode) -> Graph:
        """The graph in which consumers of the nodes read their only operand, parameters not counted, instead."""
        return self._with({node.tensor: self._bypass(node) for node in map(self.__getitem__, keys)})

    def rewire(self, consumer: str | Tensor | GraphNode, operand: str | Tensor | GraphNode, to: Tensor) -> Graph:
        """The graph in which one consumer reads another tensor in place of an operand."""
        node, source = self[consumer], self[operand]
        if source not in node.operands:
            operands = _listed(o.name for o in node.operands)
            raise CodeError(f"`{node.name}` does not read `{source.name}`, but {operands}")
        copy = rewired(node.tensor, self._inside(node.tensor), source.tensor, _checked_result(to))
        return self._with({node.tensor: copy})

    def freeze(self, *patterns: str) -> Graph:
        """The graph in which the parameters that match a pattern, all by default, have no gradient."""
        frozen = {t for pattern in patterns or ("*",) for t in self._parameters_like(pattern)}
        return self._with({t: _built(_without_gradient, [t], t.scope) for t in self._by_tensor if t in frozen})

    def feed(self, values: Mapping[Any, object]) -> Graph:
        """The graph whose given nodes are tensors, or, where a value is None, by inputs of the same shape and type."""
        nodes = {self[key]: value for key, value in values.items()}
        return self._with({n.tensor: _input_like(n) if v is None else _checked_result(v) for n, v in nodes.items()})

    def part(self, *outputs: str | Tensor | GraphNode) -> Graph:
        """The graph of other outputs: nodes of this one."""
        return Graph(tuple(self[key].tensor for key in outputs))

    def __repr__(self) -> str:
        return f"<graph of {_listed(t.label for t in self.outputs)}: {len(self)} nodes>"

    def __str__(self) -> str:
        operands = {node: ", ".join(operand.name for operand in node.operands) for node in self.values()}
        rows = [(node.name, node.tensor.known_shape, node.operation, operands[node]) for node in self.values()]
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
        return "\n".join(
            "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3]]).rstrip()
            for row in rows
        )

    # --- implementation ---

    def _neighbors(self, node: GraphNode, edges: Mapping[Tensor, Sequence[Tensor]]) -> tuple[GraphNode, ...]:
        return tuple(self._by_tensor[t] for t in edges[node.tensor])

    def _inside(self, t: Tensor) -> list[Tensor]:
        """The hidden tensors between a node and its operands, in topological order."""
        inside = traversal.ancestors([t], lambda operand: operand not in self._by_tensor, traversal.all_operands)
        return [hidden for hidden in inside if hidden is not t and hidden.application is not None]

    def _parameters_like(self, pattern: str) -> list[Tensor]:
        params = self.params
        if not isinstance(pattern, str):
            raise ArgumentError(f"parameters are selected by a pattern such as 'encoder.*', not by {pattern!r}"[:200])
        matching = [t for path, t in params.items() if fnmatchcase(path, pattern)]
        if not matching:
            raise CodeError(f"no parameter matches {pattern!r}{_suggestion(pattern, params)}")
        return matching

    def _of_operands(self, node: GraphNode, function: Callable[..., Tensor]) -> Replacement:
        operands = [o.tensor for o in node.operands]
        if not operands:
            raise CodeError(f"`{node.name}` is a leaf: replace it by a tensor, not by a function of its operands")

        def build(current: Callable[[Tensor], Tensor]) -> Tensor:
            result = _built(function, list(map(current, operands)), node.block)
            if result not in operands:
                result.block_results = (*result.block_results, *node.tensor.block_results)
            return result

        return build

    def _bypass(self, node: GraphNode) -> Replacement:
        operands = [o.tensor for o in node.operands if o.operation not in ("parameter", "state")]
        if len(operands) != 1:
            names = _listed(o.label for o in operands)
            raise CodeError(
                f"`{node.name}` reads {names}: to remove an operation it must have one operand; use replace(...)"
            )
        return lambda current: current(operands[0])

    def _with(self, replacements: Mapping[Tensor, Replacement]) -> Graph:
        if recorder.get() is not None:
            raise CodeError("graphs are edited outside of oc.cd")
        return Graph(rewritten(self.outputs, replacements))


def graph(*outputs: Tensor) -> Graph:
    """The graph that tensors depend on: all operations, with their operands and consumers, by name.

        g = oc.graph(loss)
        g["encoder.layer_2"].consumers
        loss = g.remove(*g.find(operation="dropout")).outputs[0]

    Raises: ArgumentError for anything but tensors.
    """
    if not outputs:
        raise ArgumentError("oc.graph takes the tensors that are the outputs of the graph")
    for t in outputs:
        if not isinstance(t, Tensor):
            raise ArgumentError(f"oc.graph takes tensors, not {t!r}"[:200])
    return Graph(outputs)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def _suggestion(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 3, 0.4)
    return f"; similar names: {_listed(close)}" if close else ""


# --- replacements -----------------------------------------------------------------------------------------------------


def _checked_result(value: object) -> Tensor:
    if not isinstance(value, Tensor | int | float):
        raise CodeError(f"a node is replaced by a tensor or a number, not by {value!r}"[:200])
    return embed(value)


def _built(function: Callable[..., Any], operands: Sequence[Tensor], block: str) -> Tensor:
    """The result of a function of tensors, named as part of a block."""
    token = block_path.set(block)
    try:
        return _checked_result(function(*operands))
    finally:
        block_path.reset(token)


def _without_gradient(t: Tensor) -> Tensor:
    result: Tensor = REGISTRY["stop_gradient"](t)
    return result.with_label(t.label)


def _input_like(node: GraphNode) -> Tensor:
    """An input in place of a node."""
    t = node.tensor
    batch, input, output = ([axis.size for axis in row] for row in (t.shape.batch, t.shape.input, t.shape.output))
    return placeholder(node.name, batch=batch, input=input, output=output, dtype=t.dtype)
