"""Host calls in the rules of an operation: Python functions on the NumPy arrays of slots.

    def forward(v, v1):
        v["=:"] = oc.host_call(np.linalg.inv, v1)

The arguments are the arrays of whole nodes, so no projection applies to them: the axes of every array are those of its
slot, in memory order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Index, Number, Origin, ParallelForm, Piece, Read, Value
from ocannl.ir.host_call import HostCall
from ocannl.ir.ops import Op
from ocannl.ir.precision import float64
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.symbolic_terms import (
    AxisIndex,
    Hole,
    ShiftedRead,
    Term,
    Tree,
    holes,
    instantiate,
    tree_of,
    with_constants_in,
)


class CompiledForm(Protocol):
    """Equivalent code of a host call, for sizes for which it is faster."""

    def parallel_form(self, call: HostCall, origin: Origin) -> ParallelForm | None:
        """Returns the call with a sequential form; None if the call is faster."""
        ...


class SlotHostCall:
    """A host call in the assignments of a rule. Its outputs are complete when the rule has ended."""

    __slots__ = ("compiled", "function", "inputs", "name", "outputs", "terms")

    def __init__(self, function: Callable[..., Any], name: str, terms: tuple[object, ...], count: int) -> None:
        self.function = function
        self.name = name
        self.terms = terms
        self.inputs: tuple[TNode | float, ...] | None = None
        self.outputs: list[TNode | None] = [None] * count
        self.compiled: CompiledForm | None = None

    def append_to(self, out: list[Any]) -> None:
        """Appends the call to the assignments, unless it is there."""
        if self.inputs is None:
            self.inputs = tuple(self._input(tree_of(term), number, out) for number, term in enumerate(self.terms, 1))
            out.append(self)

    def _input(self, tree: Tree, number: int, out: list[Any]) -> TNode | float:
        """The node or number that the function receives; any other formula is stored in a local node first."""
        if isinstance(tree, Hole) and not tree.merge:
            return tree.node
        if isinstance(tree, Number):
            return tree.value
        slots = {hole.slot: hole for hole in holes(tree)}
        if len(slots) != 1:
            raise CodeError(
                f"argument {number} of the host call `{self.name}` must be a slot, a number or a formula of one slot; "
                'assign other formulas to `oc.node("name", slot=...)` first'
            )
        (hole,) = slots.values()
        local = _node_like(hole.node, f"{self.name}.{number}")
        out.append(NodeUpdate(local, tree, None, True))
        return local

    def elaborate(self, origin: Origin) -> HostCall | ParallelForm:
        outputs = tuple(self.outputs)
        call = HostCall(self.name, self.function, self.inputs or (), outputs, origin.label, origin.where)
        return (self.compiled and self.compiled.parallel_form(call, origin)) or call


@dataclass(frozen=True, slots=True)
class NodeUpdate:
    """`target <- target accum tree`, cell by cell; all nodes of the tree have the axes of the target."""

    target: TNode
    tree: Tree
    accum: Op | None
    clear: bool

    def elaborate(self, origin: Origin) -> Assign:
        dims = self.target.dims
        loops = tuple(Sym(f"i{n}", 0, size - 1) for n, size in enumerate(dims) if size != 1)
        remaining = iter(loops)
        indices = tuple(Affine() if size == 1 else Affine.of(next(remaining)) for size in dims)

        def read(leaf: Hole | AxisIndex | ShiftedRead) -> Value:
            match leaf:
                case Hole(node, _, merge):
                    return Read(node, indices, None, merge)
                case AxisIndex(_, axis):
                    return Index(indices[axis])
                case ShiftedRead():
                    raise CodeError("arguments of host calls cannot read shifted cells")

        value = instantiate(self.tree, read)
        if self.target.precision is float64:
            value = with_constants_in(float64, value)
        return Assign(self.target, self.accum, self.clear, (Piece(loops, indices, value),), origin)


class HostResult:
    """A result of a host call, to be stored in a slot or accumulated there."""

    __slots__ = ("call", "number")
    __array_ufunc__ = None

    def __init__(self, call: SlotHostCall, number: int) -> None:
        self.call = call
        self.number = number

    def write(self, target: Hole, accum: Op | None, clear: bool, out: list[Any]) -> None:
        self.call.append_to(out)
        source = self.call.outputs[self.number]
        if source is None and accum is None:
            self.call.outputs[self.number] = target.node
            return
        if source is None:
            source = self.call.outputs[self.number] = _node_like(target.node, self.call.name)
        out.append(NodeUpdate(target.node, Hole(source, target.slot), accum, clear))

    def __repr__(self) -> str:
        return f"<result of the host call `{self.call.name}`>"


def host_call(function: Callable[..., Any], *inputs: object, outputs: int | None = None, name: str = "") -> Any:
    """The result of a Python function of NumPy arrays, in a rule of `oc.defop`.

        v["=:"] = oc.host_call(np.linalg.inv, v1)

    The arguments are slots, numbers, or formulas of one slot. The function receives the array of each slot, with the
    axes in memory order (batch, output, input), and must not modify or keep it. It returns an array of the shape of the
    slot that the result is assigned to; with `outputs=n` it returns n arrays, and the results are a tuple. Results that
    are assigned to nothing are discarded.

    Raises: CodeError when an argument is not available as an array.
    """
    if not callable(function):
        raise CodeError(f"the first argument of oc.host_call is a function of NumPy arrays, not {function!r}"[:200])
    if outputs is not None and (isinstance(outputs, bool) or not isinstance(outputs, int | np.integer) or outputs < 1):
        raise CodeError(f"oc.host_call: the number of `outputs` must be a positive integer, not {outputs!r}")
    title = name or getattr(function, "__name__", type(function).__name__).strip("<>_") or "function"
    call = SlotHostCall(function, title, inputs, outputs or 1)
    for number, value in enumerate(inputs, 1):
        if not isinstance(value, Term | int | float):
            problem = f"argument {number} of the host call `{title}` must be a slot or a number, not {value!r}"
            raise CodeError(f"{problem[:300]}; host calls belong in the rules of oc.defop")
    results = tuple(HostResult(call, number) for number in range(outputs or 1))
    return results[0] if outputs is None else results


def _node_like(node: TNode, name: str) -> TNode:
    label = f"{node.label}.{name}"
    return TNode(label, Role.RESULT, lambda: node.dims, lambda: node.precision, where=node.where)
