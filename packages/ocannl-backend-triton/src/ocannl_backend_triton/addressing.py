"""Addressing of arrays: global memory behind pointer parameters, registers, and scratch memory of each program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ocannl.ir.accesses import always_in_bounds
from ocannl.ir.loops import Buf, Ref
from ocannl.ir.ops import Op, neutral_element
from ocannl_backend_triton.barriers import Hazards
from ocannl_backend_triton.loop_mapping import BlockLayout
from ocannl_backend_triton.scope import Guard, IndexText, Scope
from ocannl_backend_triton.values import Axes, BlockValue, OperationPrinter, strip_parentheses


@dataclass(frozen=True, slots=True)
class Register:
    """A local scalar or row in registers, one per position along the axes, declared under the first `guard_depth`
    guards."""

    name: str
    axes: Axes
    guard_depth: int


@dataclass(frozen=True, slots=True)
class ScratchArray:
    """A local array in scratch memory, one per program and position along the axes; consecutive elements are `stride`
    apart."""

    base: IndexText
    stride: int


class MemoryEmitter:
    """Emits declarations, loads, stores and updates of arrays."""

    def __init__(
        self, scope: Scope, operations: OperationPrinter, hazards: Hazards, parameters: Mapping[Buf, str],
        layout: BlockLayout,
    ) -> None:  # fmt: skip
        self.scope, self.operations, self.hazards, self.parameters = scope, operations, hazards, parameters
        self.layout = layout
        self.locals: dict[Buf, Register | ScratchArray] = {}
        self.scratch_arrays: list[tuple[str, Buf, int]] = []  # parameter, array, number of copies

    def declare_local(self, buf: Buf, start: BlockValue, filled: bool = True) -> None:
        scope, axes = self.scope, frozenset(self.scope.active_axes)
        if not buf.shape:
            name = scope.let(buf.name, scope.broadcast(self.operations.with_type(start), axes).text)
            self.locals[buf] = Register(name, axes, len(scope.guards))
            return
        if buf in self.layout.register_rows:
            self.declare_row(buf, start, axes)
            return
        name, width = scope.fresh_name(buf.name), scope.block_elements(axes)
        self.scratch_arrays.append((name, buf, width * self.layout.num_programs))
        parts, step = [name], 1
        if self.layout.num_programs > 1:
            parts.append(f"tl.program_id(0) * {width * buf.size}")
        for axis in sorted(axes, reverse=True):
            part = scope.arange(scope.active_axes[axis], axis)
            parts.append(f"{part} * {step}" if step > 1 else part)
            step *= scope.constants[scope.active_axes[axis]]
        base = scope.let(f"{buf.name}_base", " + ".join(parts))
        self.locals[buf] = ScratchArray(IndexText(base, axes), width)
        if filled and buf.size:
            cell = scope.fresh_name("cell")
            self.hazards.on_write(buf)
            self.scope.line(f"for {cell} in range({buf.size}):")
            with scope.indented():
                self.scope.line(f"tl.store({base} + {cell} * {width}, {scope.broadcast(start, axes).text})")

    def declare_row(self, buf: Buf, start: BlockValue, axes: Axes) -> None:
        row = self.layout.register_rows[buf]
        if row.block_size == 1:
            name = self.scope.let(buf.name, self.scope.broadcast(start, axes).text)
        else:
            axes |= {row.position}
            with self.scope.along_axis(row.position, self.scope.constant(f"BLOCK_{buf.name}", row.block_size)):
                name = self.scope.let(buf.name, self.scope.broadcast(start, axes).text)
        self.locals[buf] = Register(name, axes, len(self.scope.guards))

    def pointer(self, ref: Ref, guards: Sequence[Guard]) -> tuple[str, Axes, str]:
        """The address, the axes it varies along, and the `mask=` argument, if any."""
        offset = self.scope.index(ref.address)
        local = self.locals.get(ref.buf)
        if isinstance(local, ScratchArray):
            offset_text = f"({offset.text}) * {local.stride}" if local.stride > 1 else offset.text
            text, axes = f"{local.base.text} + {offset_text}", local.base.axes | offset.axes
        else:
            name = self.parameters[ref.buf]
            text, axes = name if offset.text == "0" else f"{name} + {offset.text}", offset.axes
        mask = self.scope.mask(guards)
        if mask is None:
            return text, axes, ""
        if not mask.axes <= axes:
            axes |= mask.axes
            text = f"tl.broadcast_to({text}, {self.scope.shape(axes)})"
        return text, axes, f", mask={mask.text}"

    def load(self, ref: Ref) -> BlockValue:
        local = self.locals.get(ref.buf)
        if isinstance(local, Register):
            return BlockValue(local.name, ref.buf.precision, local.axes)
        self.hazards.on_read(ref.buf)
        syms = set(ref.syms)
        guards = [g for g in self.scope.guards if not g.axes or g.syms & syms]
        if always_in_bounds(ref):  # also in inactive iterations: guards along other axes would only widen the load
            index_axes = self.scope.axes_of(*ref.indices)
            guards = [g for g in guards if g.is_boundary or g.axes <= index_axes]
        text, axes, mask = self.pointer(ref, guards)
        return BlockValue(f"tl.load({text}{mask}, other=0)" if mask else f"tl.load({text})", ref.buf.precision, axes)

    def store(self, ref: Ref, value: BlockValue) -> None:
        value = self.operations.with_type(value)
        local = self.locals.get(ref.buf)
        if isinstance(local, Register):
            mask = self.scope.mask([guard for guard in self.scope.guards[local.guard_depth :] if not guard.is_boundary])
            stored = self.scope.broadcast(value, local.axes).text
            text = stored if mask is None else f"tl.where({mask.text}, {value.text}, {local.name})"
            self.scope.line(f"{local.name} = {strip_parentheses(text)}")
            return
        self.hazards.on_write(ref.buf)
        text, _, mask_text = self.pointer(ref, self.scope.guards)
        self.scope.line(f"tl.store({text}, {strip_parentheses(value.text)}{mask_text})")

    def update(self, ref: Ref, op: Op, value: BlockValue) -> None:
        scope = self.scope
        local = self.locals.get(ref.buf)
        if isinstance(local, Register):
            guards, axes = scope.guards[local.guard_depth :], local.axes
        else:
            guards, axes = scope.guards, self.pointer(ref, ())[1]
        reduced_axes = frozenset(scope.active_axes) - axes
        if reduced_axes:
            value = self.reduce(op, value, guards, reduced_axes)
            guards = [g for g in guards if not g.axes & reduced_axes]
        if isinstance(local, Register):
            result = self.operations.apply(op, (self.load(ref), value))
            mask = scope.mask(guards)
            text = strip_parentheses(result.text)
            if mask is not None:
                text = f"tl.where({mask.text}, {result.text}, {local.name})"
            self.scope.line(f"{local.name} = {text}")
            return
        self.hazards.on_read(ref.buf)
        self.hazards.on_write(ref.buf)
        text, axes, mask_text = self.pointer(ref, guards)
        pointer_name = scope.let("pointer", text)
        default = ", other=0" if mask_text else ""
        old = BlockValue(f"tl.load({pointer_name}{mask_text}{default})", ref.buf.precision, axes)
        result = self.operations.apply(op, (old, value))
        self.scope.line(f"tl.store({pointer_name}, {strip_parentheses(result.text)}{mask_text})")

    def reduce(self, op: Op, value: BlockValue, guards: Sequence[Guard], axes: Axes) -> BlockValue:
        """Reduces a block along some axes; inactive elements count as the neutral element."""
        mask = self.scope.mask([guard for guard in guards if guard.axes & axes])
        if mask is not None:
            identity = self.operations.number(neutral_element(op, value.precision), value.precision)
            identity = self.operations.with_type(identity)
            text = f"tl.where({mask.text}, {self.operations.with_type(value).text}, {identity.text})"
            value = BlockValue(text, value.precision, value.axes | mask.axes)
        value = self.scope.broadcast(value, axes)
        function = self.operations.combine_function(op, value.precision)
        text = value.text
        if value.axes == axes:  # a full reduction
            if self.scope.rank > 1:
                text = f"tl.reshape({text}, [{' * '.join(self.scope.active_axes[n] for n in sorted(axes))}])"
            return BlockValue(f"tl.reduce({text}, 0, {function})", value.precision)
        for axis in sorted(axes):
            text = f"tl.reduce({text}, {axis}, {function}, keep_dims=True)"
        return BlockValue(text, value.precision, value.axes - axes)
