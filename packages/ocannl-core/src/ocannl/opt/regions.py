"""Applies passes to the regions of a program.

A region is the body of a sequential loop or of conditional code. Passes see programs of nests only: each maximal run of
statements without regions is a program of its own, in which the symbols of enclosing loops are constants.

    for i in 0..4: ...                 first program
    sequential for t in 0..100:
      for i in 0..4: ...               second program, with the symbol t
      for j in 0..8: ...
    for k in 0..2: ...                 third program
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ocannl.ir.affine import Sym
from ocannl.ir.loops import AccessMode, BindIndex, Body, Buf, For, MemorySpace, Proc, Stmt, region_body
from ocannl.opt.analysis.nests import accessed_buffers, bound_names
from ocannl.opt.analysis.privatizable_buffers import privatizable_buffers
from ocannl.opt.analysis.region_parts import region_parts
from ocannl.opt.analysis.substitution import with_buffers

Transform = Callable[[Proc], Proc]


def in_regions(transform: Transform) -> Transform:
    """Returns a transformation that applies `transform` to each program of nests."""

    def run(proc: Proc) -> Proc:
        if all(region_body(stmt) is None for stmt in proc.body):
            return transform(proc)
        return _Regions(proc, transform).run()

    return run


class _Regions:
    """Applies one transformation to the parts of one program."""

    def __init__(self, proc: Proc, transform: Transform) -> None:
        self.proc, self.transform = proc, transform
        self.names = set(bound_names(proc))
        self.bufs = dict.fromkeys(proc.bufs)
        self.parts_of: dict[Buf, int] = {}  # the number of parts that access a buffer
        for part, _ in region_parts(proc.body):
            for buf in dict.fromkeys(buf for stmt in part for bufs in accessed_buffers(stmt) for buf in bufs):
                self.parts_of[buf] = self.parts_of.get(buf, 0) + 1

    def run(self) -> Proc:
        body = self.body(self.proc.body, self.proc.syms, in_loop=False)
        return replace(self.proc, body=body, bufs=tuple(self.bufs))

    def body(self, body: Body, syms: tuple[Sym, ...], in_loop: bool) -> Body:
        out: list[Stmt] = []
        pending: list[Stmt] = []
        for stmt in body:
            inner = region_body(stmt)
            if inner is None:
                pending.append(stmt)
                continue
            assert isinstance(stmt, For | BindIndex)
            out += self.part(tuple(pending), syms, in_loop)
            pending.clear()
            if stmt.sym.extent:  # else the body is never executed
                stmt = replace(stmt, body=self.body(inner, (*syms, stmt.sym), in_loop or isinstance(stmt, For)))
            out.append(stmt)
        return (*out, *self.part(tuple(pending), syms, in_loop))

    def part(self, body: Body, syms: tuple[Sym, ...], in_loop: bool) -> Body:
        """Transforms statements without regions."""
        if not body:
            return ()
        accessed = {buf for stmt in body for bufs in accessed_buffers(stmt) for buf in bufs}
        bufs = [buf for buf in self.proc.bufs if buf in accessed]
        carried = accessed - privatizable_buffers(body) if in_loop else set()  # from earlier iterations
        visible = {
            buf: replace(buf, space=MemorySpace.GLOBAL, access=AccessMode.INOUT) for buf in bufs
            if buf.access in (AccessMode.TEMP, AccessMode.OUT) and (self.parts_of[buf] > 1 or buf in carried)
        }  # fmt: skip
        part = Proc(
            self.proc.name, tuple([visible.get(buf, buf) for buf in bufs]), syms, with_buffers(body, visible),
            self.proc.facts, reserved=tuple(self.names),
        )  # fmt: skip
        new = self.transform(part)
        if new is part:
            return body
        original = {twin: buf for buf, twin in visible.items()}
        after = {original.get(buf, buf) for buf in new.bufs}
        for buf in bufs:
            if buf not in after:
                self.parts_of[buf] -= 1
                if not self.parts_of[buf]:
                    del self.bufs[buf]
        self.bufs.update(dict.fromkeys(original.get(buf, buf) for buf in new.bufs))
        self.names.update(bound_names(new))
        return with_buffers(new.body, original)
