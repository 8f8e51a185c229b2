"""A size that is asked for, or constrained, beside the operations: what a label or a row variable turns out to be."""

from __future__ import annotations

from collections.abc import Callable

from ocannl.infer.arithmetic import Product, attach
from ocannl.infer.explain import refuse
from ocannl.infer.finish import attempt, finish_all
from ocannl.infer.mismatch import Mismatch, rows_differ
from ocannl.infer.relation import Relation
from ocannl.infer.solve import propagate
from ocannl.infer.spec import print_row_var
from ocannl.infer.terms import Dim, Fact, Owner, Provenance, Row, find
from ocannl.infer.totals import Total
from ocannl.infer.trail import Trail
from ocannl.infer.unify import join, set_size


class Claim:
    """What a user says about captured sizes, as the cause of what follows from it."""

    __slots__ = ("provenance",)

    def __init__(self, provenance: Provenance) -> None:
        self.provenance = provenance

    def rows_differ(self, slot: int, said: Row, actual: Row, reason: str) -> Mismatch:
        return rows_differ(None, slot, said, actual, reason)


class Capture:
    """A number that inference finds: the size of an axis, or of a row variable, the product of its axes.

    peers       captures that it was equated or scaled to
    relations   operations whose specs mention it
    """

    __slots__ = ("cell", "name", "peers", "relations", "where")

    def __init__(self, name: str = "a captured size", where: str = "") -> None:
        self.name = name
        self.where = where
        self.cell = Dim()
        self.peers: list[Capture] = []
        self.relations: list[Relation] = []

    @property
    def known(self) -> int | None:
        """The number, if it is known already."""
        return find(self.cell).size

    @property
    def is_bound(self) -> bool:
        return bool(self.relations)

    @property
    def value(self) -> int:
        """The number; finishes the inference of everything it depends on."""
        if self.known is None:
            finish_all(self.owners())
        if self.known is None:
            who = Provenance(f"{self.name} = oc.Dim()", where=self.where)
            raise refuse(f"nothing says what `{self.name}` is", who, "capture it from a spec, or set it")
        return self.known

    def set(self, size: int, where: str = "") -> None:
        """It is this number."""
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            who = Provenance(f"{self.name}.set({size!r})", where=where)
            raise refuse(f"`{self.name}` cannot be {size!r}: it is a size", who, "set it to a number from 0")
        at = f", set at {where}," if where else ""

        def act(trail: Trail) -> None:
            set_size(trail, self.cell, size, Fact(text=f"`{self.name}`{at}"))
            propagate(trail)

        self.claim(f"set({size})", where, act)

    def equal(self, other: Capture, where: str = "") -> None:
        """Both are the same number."""

        def act(trail: Trail) -> None:
            join(trail, self.cell, other.cell)
            self.meet(trail, other)

        self.claim(f"equal({other.name})", where, act, other)

    def scale(self, other: Capture, factor: int, where: str = "") -> None:
        """It is `factor` times the other."""
        if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:
            who = Provenance(f"{self.name}.scale({other.name}, {factor!r})", where=where)
            problem = f"`{self.name}` cannot be {factor!r} times `{other.name}`: the factor is a number from 1"
            raise refuse(problem, who, "scale by another factor")

        def act(trail: Trail) -> None:
            text = f"{self.name} = {factor}*{other.name}"
            attach(trail, Product(self.cell, (other.cell,), factor=factor, text=text, cause=trail.cause))
            self.meet(trail, other)

        self.claim(f"scale({other.name}, {factor})", where, act, other)

    def claim(self, what: str, where: str, act: Callable[[Trail], None], *others: Capture) -> None:
        """Learn what the user says; a contradiction names the operations that the sizes were captured from."""
        claim = Claim(Provenance(f"{self.name}.{what}", where=where))

        def learn(trail: Trail) -> None:
            try:
                act(trail)
            except Mismatch as mismatch:
                specs = [relation for capture in (self, *others) for relation in capture.relations[:1]]
                mismatch.causes = (claim, *mismatch.causes, *specs)
                raise

        attempt(claim, learn)

    def meet(self, trail: Trail, other: Capture) -> None:
        trail.push(self.peers, other)
        trail.push(other.peers, self)
        propagate(trail)

    def bind(self, trail: Trail, relation: Relation, name: str) -> None:
        """It stands for a name of the operation's spec."""
        trail.push(self.relations, relation)
        trail.set(relation, "captures", (*relation.captures, self))
        if name in relation.labels:
            join(trail, relation.labels[name], self.cell)
        elif name in relation.row_vars:
            text = f"`{print_row_var(name)}`"
            trail.queue.append(Total(self.cell, (relation.row_vars[name],), text=text, cause=relation))

    def owners(self) -> list[Owner]:
        """The shapes that deciding it may concern."""
        seen: dict[Capture, None] = {}
        todo = [self]
        found: dict[Owner, None] = {}
        while todo:
            capture = todo.pop()
            if capture in seen:
                continue
            seen[capture] = None
            todo.extend(capture.peers)
            for relation in capture.relations:
                found.update(dict.fromkeys(relation.owners))
        return list(found)
