"""Deduplicates nests that are equal up to renaming (identical code folding)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ocannl.codegen.outlining import Nest
from ocannl.ir.alpha_equivalence import CanonicalText
from ocannl.ir.loops import Body, Stmt


def deduplicated(nests: Iterable[Nest]) -> list[list[Nest]]:
    """Groups alpha-equivalent nests, in order of first occurrence. `nests` must list callees before their callers."""
    classes_by_text: dict[str, list[Nest]] = {}
    class_names: dict[Nest, str] = {}
    for nest in nests:
        key = canonical_text(nest, class_names)
        members = classes_by_text.setdefault(key, [])
        members.append(nest)
        class_names[nest] = class_names[members[0]] if members[0] is not nest else f"call {len(classes_by_text)}"
    return list(classes_by_text.values())


def canonical_text(nest: Nest, class_names: Mapping[Nest, str] | None = None) -> str:
    """The canonical text of a nest. `class_names` names the equivalence classes of callees; if it is None, callees are
    expanded."""
    writer = _NestWriter(nest, class_names)
    unaliased = nest.unaliased_bufs
    for buf in nest.bufs:
        writer.add(f"{writer.buf(buf)}{'' if buf in unaliased else '?'}")
    for sym in nest.syms:
        writer.add(writer.sym(sym))
    writer.body(nest.body)
    return " ".join(writer.tokens)


class _NestWriter(CanonicalText):
    def __init__(self, nest: Nest, class_names: Mapping[Nest, str] | None) -> None:
        super().__init__()
        self.nest, self.class_names = nest, class_names

    def inner(self, stmt: Stmt, body: Body) -> None:
        if self.class_names is not None and self.nest.is_caller(stmt):
            self.calls(self.class_names)
        else:
            self.body(body)

    def calls(self, class_names: Mapping[Nest, str]) -> None:
        self.body(self.nest.shared_locals)
        for callee in self.nest.callees:
            self.add(class_names[callee])
            self.tokens += map(self.buf, callee.bufs)
            self.tokens += map(self.sym, callee.syms)
