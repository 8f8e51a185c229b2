"""Captured sizes: labels or row variables of specs whose sizes are queried or constrained by the user."""

from __future__ import annotations

from collections.abc import Callable

from ocannl.infer.cell_count import CellCount
from ocannl.infer.explain import refuse
from ocannl.infer.mismatch import Mismatch, rows_differ
from ocannl.infer.operation_node import Relation
from ocannl.infer.size_equations import Product, attach
from ocannl.infer.solve import propagate
from ocannl.infer.spec import print_row_var
from ocannl.infer.tensor_description import Provenance
from ocannl.infer.terms import DimVar, Evidence, Owner, Row, Trail, find
from ocannl.infer.transaction import finish_all, transaction
from ocannl.infer.unify import join, set_size


class CaptureConstraint:
    """Cause of constraints that the user states on captured sizes."""

    __slots__ = ("provenance",)

    def __init__(self, provenance: Provenance) -> None:
        self.provenance = provenance

    def rows_differ(self, slot: int, expected: Row, actual: Row, reason: str) -> Exception:
        return rows_differ(None, slot, expected, actual, reason)


class Capture:
    """Inferred number: the size of an axis, or the product of the axes of a row variable.

    peers       captures it was equated or scaled to
    relations   operations whose specs contain it
    """

    __slots__ = ("cell", "name", "peers", "relations", "where")

    def __init__(self, name: str = "a captured size", where: str = "") -> None:
        self.name = name
        self.where = where
        self.cell = DimVar()
        self.peers: list[Capture] = []
        self.relations: list[Relation] = []

    @property
    def known(self) -> int | None:
        """The number if inferred already, else None."""
        return find(self.cell).size

    @property
    def is_bound(self) -> bool:
        return bool(self.relations)

    @property
    def value(self) -> int:
        """The number; finishes the inference of all tensors it depends on."""
        if self.known is None:
            finish_all(self.owners())
        if self.known is None:
            provenance = Provenance(f"{self.name} = oc.Dim()", where=self.where)
            raise refuse(f"nothing says what `{self.name}` is", provenance, "capture it from a spec, or set it")
        return self.known

    def set(self, size: int, where: str = "") -> None:
        """Constrains the capture to a number."""
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            provenance = Provenance(f"{self.name}.set({size!r})", where=where)
            raise refuse(f"`{self.name}` cannot be {size!r}: it is a size", provenance, "set it to a number from 0")
        location = f", set at {where}," if where else ""

        def action(trail: Trail) -> None:
            set_size(trail, self.cell, size, Evidence(text=f"`{self.name}`{location}"))
            propagate(trail)

        self.constrain(f"set({size})", where, action)

    def equal(self, peer: Capture, where: str = "") -> None:
        """Constrains two captures to be equal."""

        def action(trail: Trail) -> None:
            join(trail, self.cell, peer.cell)
            self.link_peers(trail, peer)

        self.constrain(f"equal({peer.name})", where, action, peer)

    def scale(self, peer: Capture, factor: int, where: str = "") -> None:
        """Constrains the capture to `factor` times `peer`."""
        if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:
            provenance = Provenance(f"{self.name}.scale({peer.name}, {factor!r})", where=where)
            problem = f"`{self.name}` cannot be {factor!r} times `{peer.name}`: the factor is a number from 1"
            raise refuse(problem, provenance, "scale by another factor")

        def action(trail: Trail) -> None:
            text = f"{self.name} = {factor}*{peer.name}"
            attach(trail, Product(self.cell, (peer.cell,), factor=factor, text=text, cause=trail.cause))
            self.link_peers(trail, peer)

        self.constrain(f"scale({peer.name}, {factor})", where, action, peer)

    def constrain(self, call: str, where: str, action: Callable[[Trail], None], *peers: Capture) -> None:
        """Adds a user constraint; a contradiction names the operations that the sizes were captured from."""
        constraint = CaptureConstraint(Provenance(f"{self.name}.{call}", where=where))

        def learn(trail: Trail) -> None:
            try:
                action(trail)
            except Mismatch as mismatch:
                specs = [relation for capture in (self, *peers) for relation in capture.relations[:1]]
                mismatch.causes = (constraint, *mismatch.causes, *specs)
                raise

        transaction(constraint, learn)

    def link_peers(self, trail: Trail, peer: Capture) -> None:
        trail.push(self.peers, peer)
        trail.push(peer.peers, self)
        propagate(trail)

    def bind(self, trail: Trail, relation: Relation, name: str) -> None:
        """Binds the capture to a name of the operation's spec."""
        trail.push(self.relations, relation)
        trail.set(relation, "captures", (*relation.captures, self))
        if name in relation.labels:
            join(trail, relation.labels[name], self.cell)
        elif name in relation.row_vars:
            text = f"`{print_row_var(name)}`"
            trail.queue.append(CellCount(self.cell, (relation.row_vars[name],), text=text, cause=relation))

    def owners(self) -> list[Owner]:
        """Shapes of all operations connected to the capture through peers."""
        seen: dict[Capture, None] = {}
        todo = [self]
        shapes: dict[Owner, None] = {}
        while todo:
            capture = todo.pop()
            if capture in seen:
                continue
            seen[capture] = None
            todo.extend(capture.peers)
            for relation in capture.relations:
                shapes.update(dict.fromkeys(relation.owners))
        return list(shapes)
