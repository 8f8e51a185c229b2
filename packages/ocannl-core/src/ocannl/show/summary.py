"""Summaries of models: blocks as a tree, with shapes, parameters, memory and operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod

from ocannl.base.errors import ArgumentError
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.assign import Assign, Comp, Conditional, LabeledBlock, Loop, Seq
from ocannl.ir.host_call import HostCall
from ocannl.lang.core import graph
from ocannl.lang.core.region_tensor import RegionResult, RegionTensor
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.rewriting.graph import Graph

COLUMNS = ("block", "result", "parameters", "parameter bytes", "result bytes", "operations")


@public_class(exclude=("__init__",))
@dataclass(frozen=True, slots=True)
class BlockSummary:
    """One block with all blocks inside. `results` are the shapes of what it returns, in the order of its applications;
    `parameters` counts cells; `result_bytes` is the size of all that its operations compute, before the compiler fuses
    them; `operations` counts the terms that are evaluated, so that a matrix product has one for each multiply-add."""

    path: str
    depth: int
    results: tuple[str, ...]
    parameters: int
    parameter_bytes: int
    result_bytes: int
    operations: int

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2] if self.depth else self.path or "total"

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of a table, without the name."""
        numbers = (self.parameters, self.parameter_bytes, self.result_bytes, self.operations)
        return (", ".join(self.results), *(f"{n:,}" for n in numbers))


@public_class(exclude=("__init__",))
@dataclass(frozen=True, slots=True)
class Summary:
    """The blocks of a model in the order of their first operation, each after the block that contains it; the last row
    is the total. Its text is a table."""

    blocks: tuple[BlockSummary, ...]

    def __str__(self) -> str:
        rows = [COLUMNS, *(("  " * block.depth + block.name, *block.cells) for block in self.blocks)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
        aligned = [str.ljust, str.ljust, *[str.rjust] * 4]
        lines = ("  ".join(map(lambda align, cell, n: align(cell, n), aligned, row, widths)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)


def summary(*outputs: Tensor | Graph) -> Summary:
    """The blocks that tensors are computed by, with shapes, parameters, memory and operations, in inference.

        print(oc.summary(model(x)))

    Finishes inference of everything connected. Raises: ArgumentError for anything but tensors and graphs.
    """
    roots = [t for output in outputs for t in (output.outputs if isinstance(output, Graph) else (output,))]
    if not roots or not all(isinstance(t, Tensor) for t in roots):
        raise ArgumentError("oc.summary takes the outputs of a model: tensors, or a graph")
    tensors = graph.in_execution_order(roots)
    reached = frozenset(tensors)
    operations = {t: _operations(t, reached) for t in tensors if t.application is not None}
    return Summary(tuple(_block(path, tensors, operations) for path in (*_block_paths(tensors), "")))


def _block_paths(tensors: Sequence[Tensor]) -> list[str]:
    """The paths of all blocks, each after the block that contains it."""
    computed = [t.scope for t in tensors if t.application is not None]
    owners = [t.path.rpartition(".")[0] for t in tensors if t.application is None and t.path]
    rank: dict[str, int] = {}
    for scope in (*computed, *owners):
        for path in _prefixes(scope):
            rank.setdefault(path, len(rank))
    return sorted(rank, key=lambda path: [rank[prefix] for prefix in _prefixes(path)])


def _prefixes(path: str) -> Iterator[str]:
    """The path of a block and of all blocks around it, outer blocks first."""
    parts = path.split(".") if path else []
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _block(path: str, tensors: Sequence[Tensor], operations: Mapping[Tensor, int]) -> BlockSummary:
    """The summary of the block at a path; that of everything for the empty path."""
    inside = [t for t in tensors if not path or _is_within(t.path if t.application is None else t.scope, path)]
    params = [t for t in inside if t.is_parameter]
    computed = [t for t in inside if t.application is not None]
    stored = [t for t in computed if not isinstance(t, RegionTensor) and t.state_access is None]
    results = [t.known_shape or "scalar" for t in tensors if path in t.block_results]
    return BlockSummary(
        path,
        path.count(".") if path else 0,
        tuple(results),
        sum(prod(t.dims) for t in params),
        sum(prod(t.dims) * t.dtype.nbytes for t in params),
        sum(prod(t.dims) * t.dtype.nbytes for t in stored),
        sum(operations[t] for t in computed),
    )


def _is_within(scope: str | None, path: str) -> bool:
    return scope is not None and (scope == path or scope.startswith(f"{path}."))


def _operations(t: Tensor, reached: Set[Tensor]) -> int:
    """The number of terms that the code of a tensor evaluates; that of results of loops belongs to the loop."""
    return 0 if isinstance(t.application, RegionResult) else sum(map(_terms, t.value_step(reached)()))


def _terms(code: Comp) -> int:
    """The number of terms that code evaluates; a conditional counts as if it were executed."""
    match code:
        case Seq(items):
            return sum(map(_terms, items))
        case LabeledBlock(_, body) | Conditional(_, body):
            return _terms(body)
        case Loop(sym, body):
            return sym.extent * _terms(body)
        case Assign(pieces=pieces):
            return sum(prod(loop.extent for loop in piece.loops) for piece in pieces)
        case HostCall():
            return 0
    raise AssertionError(type(code))
