"""Tensors that own code with several results: loops and conditional expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set

from ocannl.infer.logic import pointwise
from ocannl.infer.shape import Shape
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Comp, Conditional, Piece, Read, Seq, Value, assigns
from ocannl.ir.loops import AccessMode
from ocannl.ir.tnode import TNode
from ocannl.lang.core.applied_operation import Application
from ocannl.lang.core.operation import Operation, Rule
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.training_mode import in_current_mode
from ocannl.lower.access_modes import accesses


class RegionTensor(Tensor):
    """A tensor without a value of its own that owns code. The results of the code are tensors with it as operand."""

    __slots__ = ()

    def zero_gradient(self) -> Iterable[Assign]:
        return ()

    def value_code(self) -> Iterable[Comp]:
        return self.forward_code(())

    def value_step(self, reached: Set[Tensor]) -> Callable[[], Iterable[Comp]]:
        results = reached_results(self, reached)
        return in_current_mode(lambda: list(self.forward_code(results)))

    def gradient_step(self, reached: Set[Tensor]) -> Callable[[], Iterable[Comp]]:
        results = reached_results(self, reached)
        return in_current_mode(lambda: list(self.backward_code(results)))

    def forward_code(self, results: Sequence[Tensor]) -> Iterable[Comp]:
        """The code that computes the given results."""
        raise NotImplementedError

    def backward_code(self, results: Sequence[Tensor]) -> Iterable[Comp]:
        """The code that accumulates gradients of the operands from the gradients of the given results."""
        raise NotImplementedError


class RegionResult(Application[Tensor]):
    """Result `number` of a region."""

    __slots__ = ("_emit", "number")

    def __init__(self, region: RegionTensor, number: int, emit: Callable[[Tensor], Shape]) -> None:
        super().__init__(_RESULT, (region,), {})
        self.number = number
        self._emit = emit

    @property
    def source(self) -> Application[Tensor]:
        application = self.operands[0].application
        assert application is not None
        return application

    def emit_constraints(self, result: Tensor) -> Shape:  # type: ignore[override]
        return self._emit(result)

    def code(self, result: object, rule: Rule) -> Iterable[Comp]:
        return ()


def no_code(_: object) -> None:
    """The rule of an operation whose code another tensor owns."""


_RESULT = Operation("result", pointwise(1), no_code, no_code)


def reached_results(region: RegionTensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The results of a region among tensors, by number."""
    results = [t for t in tensors if isinstance(t.application, RegionResult) and t.application.operands[0] is region]
    return tuple(sorted(results, key=number_of))


def number_of(result: Tensor) -> int:
    assert isinstance(result.application, RegionResult)
    return result.application.number


# --- code -------------------------------------------------------------------------------------------------------------


def cells(node: TNode) -> tuple[tuple[Sym, ...], tuple[Affine, ...]]:
    """Loops over all cells of a node, and the indices of a cell."""
    loops = tuple(Sym(f"i{n}", 0, size - 1) for n, size in enumerate(node.dims))
    return loops, tuple(map(Affine.of, loops))


def copy(target: TNode, source: TNode) -> Assign:
    loops, indices = cells(target)
    return Assign(target, None, True, (Piece(loops, indices, Read(source, indices)),))


def exposed(code: Iterable[Comp]) -> set[TNode]:
    """The nodes that code reads before it overwrites them."""
    return {node for node, mode in accesses(Seq(tuple(code))).items() if mode is not AccessMode.OUT}


def conditional(condition: Value, code: Sequence[Comp]) -> Conditional:
    """Conditional code; nodes that it overwrites before it reads them are private."""
    read = exposed(code)
    private = tuple(node for node in written(code) if node not in read)
    return Conditional(condition, Seq(tuple(code)), private)


def written(code: Iterable[Comp]) -> tuple[TNode, ...]:
    """The nodes that code writes, in order."""
    return tuple(dict.fromkeys(assign.lhs for assign in assigns(Seq(tuple(code)))))
