"""Interface of the kernel emitter, for the modules that emit single kinds of loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ocannl.ir.affine import Cond, Sym
from ocannl.ir.loops import Body, Expr
from ocannl_backend_triton.addressing import MemoryEmitter
from ocannl_backend_triton.barriers import Hazards
from ocannl_backend_triton.loop_mapping import BlockAxis, BlockLayout
from ocannl_backend_triton.scope import Guard, IndexText, Scope
from ocannl_backend_triton.values import BlockValue, OperationPrinter


@dataclass(frozen=True, slots=True)
class DotOperand:
    """An operand of `tl.dot`: `sym` is the reduction symbol and `index` its text along this operand's axis; the operand
    does not depend on `independent_sym`."""

    value: Expr
    sym: Sym
    index: IndexText
    size: str
    boundary: tuple[Guard, ...]
    independent_sym: Sym
    is_narrow: bool


class StatementEmitter(Protocol):
    """State of the kernel being emitted, and the recursion into statements and values."""

    layout: BlockLayout
    operations: OperationPrinter
    input_precision: str
    scope: Scope
    hazards: Hazards
    memory: MemoryEmitter
    block_numbers: dict[Sym, str]
    dot_operands: tuple[DotOperand, ...]
    dot_conditions: list[Cond]

    def line(self, text: str) -> None: ...
    def statements(self, body: Body) -> None: ...
    def value(self, expr: Expr) -> BlockValue: ...
    def boundary_guards(self, axis: BlockAxis, position: int | None = None) -> tuple[Guard, ...]: ...
    def block_loop_header(self, axis: BlockAxis, size: str) -> str: ...
