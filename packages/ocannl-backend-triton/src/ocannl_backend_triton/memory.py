"""Where numbers lie, as a kernel addresses them: in arrays that it shares with others, in registers, and in arrays that
each program has for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ocannl.ir.loops import Buf, Ref
from ocannl.ir.ops import Op
from ocannl.ir.touch import is_there
from ocannl_backend_triton.axes import Layout
from ocannl_backend_triton.hazards import Hazards
from ocannl_backend_triton.nests import address
from ocannl_backend_triton.scope import Guard, Index, Scope
from ocannl_backend_triton.values import Axes, Operations, Value, bare, neutral


@dataclass(frozen=True, slots=True)
class Register:
    """A local number, or a row of them, of which there is one in each place along the axes; where it was made, `depth`
    guards hold."""

    name: str
    axes: Axes
    depth: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """A local array, of which each program has one in each place along the axes, in memory that nobody else sees; its
    cells are `stride` apart."""

    base: Index
    stride: int


class Memory:
    def __init__(
        self, scope: Scope, operations: Operations, hazards: Hazards, parameters: Mapping[Buf, str], layout: Layout
    ) -> None:
        self.scope, self.operations, self.hazards, self.parameters = scope, operations, hazards, parameters
        self.layout = layout
        self.locals: dict[Buf, Register | Scratch] = {}
        self.scratch: list[tuple[str, Buf, int]] = []  # parameter, array, how many of it

    def local(self, buf: Buf, start: Value, filled: bool = True) -> None:
        scope, axes = self.scope, frozenset(self.scope.active)
        if not buf.shape:
            name = scope.let(buf.name, scope.spread(self.operations.typed(start), axes).text)
            self.locals[buf] = Register(name, axes, len(scope.guards))
            return
        if buf in self.layout.rows:
            self.row(buf, start, axes)
            return
        name, width = scope.new(buf.name), scope.width(axes)
        self.scratch.append((name, buf, width * self.layout.programs))
        parts, step = [name], 1
        if self.layout.programs > 1:
            parts.append(f"tl.program_id(0) * {width * buf.size}")
        for axis in sorted(axes, reverse=True):
            part = scope.arange(scope.active[axis], axis)
            parts.append(f"{part} * {step}" if step > 1 else part)
            step *= scope.constants[scope.active[axis]]
        base = scope.let(f"{buf.name}_base", " + ".join(parts))
        self.locals[buf] = Scratch(Index(base, axes), width)
        if filled and buf.size:
            cell = scope.new("cell")
            self.hazards.writes(buf)
            self.scope.line(f"for {cell} in range({buf.size}):")
            with scope.deeper():
                self.scope.line(f"tl.store({base} + {cell} * {width}, {scope.spread(start, axes).text})")

    def row(self, buf: Buf, start: Value, axes: Axes) -> None:
        row = self.layout.rows[buf]
        if row.block == 1:
            name = self.scope.let(buf.name, self.scope.spread(start, axes).text)
        else:
            axes |= {row.place}
            with self.scope.along(row.place, self.scope.constant(f"BLOCK_{buf.name}", row.block)):
                name = self.scope.let(buf.name, self.scope.spread(start, axes).text)
        self.locals[buf] = Register(name, axes, len(self.scope.guards))

    def pointer(self, ref: Ref, guards: Sequence[Guard]) -> tuple[str, Axes, str]:
        """The address, the axes it varies along, and `mask=...` as far as there is one."""
        place = self.scope.index(address(ref))
        local = self.locals.get(ref.buf)
        if isinstance(local, Scratch):
            stride = f"({place.text}) * {local.stride}" if local.stride > 1 else place.text
            text, axes = f"{local.base.text} + {stride}", local.base.axes | place.axes
        else:
            name = self.parameters[ref.buf]
            text, axes = name if place.text == "0" else f"{name} + {place.text}", place.axes
        mask = self.scope.mask(guards)
        if mask is None:
            return text, axes, ""
        if not mask.axes <= axes:
            axes |= mask.axes
            text = f"tl.broadcast_to({text}, {self.scope.shape(axes)})"
        return text, axes, f", mask={mask.text}"

    def load(self, ref: Ref) -> Value:
        local = self.locals.get(ref.buf)
        if isinstance(local, Register):
            return Value(local.name, ref.buf.precision, local.axes)
        self.hazards.reads(ref.buf)
        syms = {s for at in ref.at for s in at.syms}
        guards = [g for g in self.scope.guards if not g.axes or g.syms & syms]
        if is_there(ref):  # whatever else is asked for: no reason to load it in more places
            own = self.scope.axes_of(*ref.at)
            guards = [g for g in guards if g.is_edge or g.axes <= own]
        text, axes, mask = self.pointer(ref, guards)
        return Value(f"tl.load({text}{mask}, other=0)" if mask else f"tl.load({text})", ref.buf.precision, axes)

    def store(self, ref: Ref, value: Value) -> None:
        value = self.operations.typed(value)
        local = self.locals.get(ref.buf)
        if isinstance(local, Register):
            mask = self.scope.mask([guard for guard in self.scope.guards[local.depth :] if not guard.is_edge])
            kept = self.scope.spread(value, local.axes).text
            text = kept if mask is None else f"tl.where({mask.text}, {value.text}, {local.name})"
            self.scope.line(f"{local.name} = {bare(text)}")
            return
        self.hazards.writes(ref.buf)
        text, _, mask_text = self.pointer(ref, self.scope.guards)
        self.scope.line(f"tl.store({text}, {bare(value.text)}{mask_text})")

    def update(self, ref: Ref, op: Op, value: Value) -> None:
        scope = self.scope
        local = self.locals.get(ref.buf)
        if isinstance(local, Register):
            guards, axes = scope.guards[local.depth :], local.axes
        else:
            guards, axes = scope.guards, self.pointer(ref, ())[1]
        folded = frozenset(scope.active) - axes
        if folded:
            value = self.folded(op, value, guards, folded)
            guards = [g for g in guards if not g.axes & folded]
        if isinstance(local, Register):
            new = self.operations.apply(op, (self.load(ref), value))
            mask = scope.mask(guards)
            text = bare(new.text) if mask is None else f"tl.where({mask.text}, {new.text}, {local.name})"
            self.scope.line(f"{local.name} = {text}")
            return
        self.hazards.reads(ref.buf)
        self.hazards.writes(ref.buf)
        text, axes, mask_text = self.pointer(ref, guards)
        at = scope.let("at", text)
        old = Value(f"tl.load({at}{mask_text}{', other=0' if mask_text else ''})", ref.buf.precision, axes)
        self.scope.line(f"tl.store({at}, {bare(self.operations.apply(op, (old, value)).text)}{mask_text})")

    def folded(self, op: Op, value: Value, guards: Sequence[Guard], axes: Axes) -> Value:
        """What a block comes to along some axes; what is not meant counts as neutral."""
        mask = self.scope.mask([guard for guard in guards if guard.axes & axes])
        if mask is not None:
            nothing = self.operations.typed(self.operations.number(neutral(op, value.precision), value.precision))
            text = f"tl.where({mask.text}, {self.operations.typed(value).text}, {nothing.text})"
            value = Value(text, value.precision, value.axes | mask.axes)
        value = self.scope.spread(value, axes)
        function = self.operations.combine(op, value.precision)
        text = value.text
        if value.axes == axes:  # all of it
            if self.scope.rank > 1:
                text = f"tl.reshape({text}, [{' * '.join(self.scope.active[n] for n in sorted(axes))}])"
            return Value(f"tl.reduce({text}, 0, {function})", value.precision)
        for axis in sorted(axes):
            text = f"tl.reduce({text}, {axis}, {function}, keep_dims=True)"
        return Value(text, value.precision, value.axes - axes)
