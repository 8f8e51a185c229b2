"""Reuse of plans and loops for groups that differ only in names, such as those of the layers of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.alpha_equivalence import CanonicalText
from ocannl.ir.assign import NOWHERE, Origin
from ocannl.ir.loops import Buf, Let, Ref, Stmt
from ocannl.ir.name_mangling import Namer
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.renaming import Renaming
from ocannl.opt.schedule.loop_generation import build_loops
from ocannl.opt.schedule.plan import Plan
from ocannl.opt.schedule.plan.register_tiles import TilePlan
from ocannl.opt.schedule.plan.scalar_plans import ReductionPlan, ScalarPlan


class GroupReuse:
    """Calls `choose`, and builds the loops of a plan, once for each class of groups that are equal up to renaming."""

    def __init__(self, choose: Callable[[FusionGroup, bool], Plan]) -> None:
        self._choose = choose
        self._classes: dict[str, _GroupClass] = {}
        self._members: dict[int, tuple[_Member, _GroupClass]] = {}  # by the identity of the group, which is kept alive

    def plan(self, group: FusionGroup, is_parallel: bool) -> Plan:
        member, group_class = self._member(group)
        if is_parallel not in group_class.plans:
            group_class.plans[is_parallel] = self._choose(group, is_parallel), member
        plan, planned = group_class.plans[is_parallel]
        return plan if planned is member else _renamed(plan, planned.replacements(member))

    def loops(self, group: FusionGroup, plan: Plan, names: Namer) -> Stmt:
        """Returns the loops that `build_loops` returns."""
        member, group_class = self._member(group)
        for built in group_class.built:
            origins = built.member.replaced_origins(member)
            if origins is not None and _renamed(built.plan, built.member.replacements(member)) == plan:
                return built.renamed(member, origins, names)
        recorded = _RecordingNamer(names)
        stmt = build_loops(group, plan, recorded)
        group_class.built.append(_BuiltLoops(member, plan, stmt, recorded.requests))
        return stmt

    def _member(self, group: FusionGroup) -> tuple[_Member, _GroupClass]:
        if id(group) not in self._members:
            text = _text(group)
            group_class = self._classes.setdefault(" ".join(text.tokens), _GroupClass())
            self._members[id(group)] = _Member(group, tuple(text.names)), group_class
        return self._members[id(group)]


@dataclass(frozen=True, slots=True, eq=False)
class _GroupClass:
    plans: dict[bool, tuple[Plan, _Member]] = field(default_factory=dict)  # with the member that each is for
    built: list[_BuiltLoops] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Member:
    """A group of a class. `entities` are its symbols, arrays and names of values, in the order of all members."""

    group: FusionGroup
    entities: tuple[object, ...]

    def replacements(self, member: _Member) -> dict[object, Any]:
        """Maps the entities of this group to those of another member."""
        return dict(zip(self.entities, member.entities, strict=True))

    def replaced_origins(self, member: _Member) -> dict[Origin, Origin] | None:
        """Maps the origins of this group to those of another member; None if equal ones correspond to different ones.
        """
        replaced = {NOWHERE: NOWHERE}  # also of loops that the plan introduces
        for old, new in zip(_origins(self.group), _origins(member.group), strict=True):
            if replaced.setdefault(old, new) != new:
                return None
        return replaced


@dataclass(frozen=True, slots=True)
class _BuiltLoops:
    """The loops of a member, and the names that `build_loops` has requested for what they bind: text and name."""

    member: _Member
    plan: Plan
    stmt: Stmt
    requests: list[tuple[str, str]]

    def renamed(self, member: _Member, origins: Mapping[Origin, Origin], names: Namer) -> Stmt:
        """Returns the loops of another member, with the names that `build_loops` would request for them."""
        replacements = self.member.replacements(member)
        new_names = {_name(old): _name(new) for old, new in replacements.items()}  # names are unique in a program
        translations = dict(new_names)
        for text, name in self.requests:
            new_names[name] = names(_translated(text, translations))
            if name != text:  # `acc` may be the first local array of this name, or stand for itself
                translations[name] = new_names[name]
        syms = {old: new for old, new in replacements.items() if isinstance(old, Sym)}
        bufs = {old: new for old, new in replacements.items() if isinstance(old, Buf)}
        return Renaming(syms, bufs, origins, new_names.__getitem__).stmt(self.stmt)


def _translated(text: str, translations: Mapping[str, str]) -> str:
    """Translates a requested name: that of an entity, such as `w`, one derived from it, such as `w_panel`, or a text
    that all members have in common, such as `acc`."""
    stem, _, suffix = text.rpartition("_")
    if text not in translations and stem in translations:
        return f"{translations[stem]}_{suffix}"
    return translations.get(text, text)


class _RecordingNamer(Namer):
    """Passes requests on and records them."""

    __slots__ = ("_names", "requests")

    def __init__(self, names: Namer) -> None:
        super().__init__()
        self._names = names
        self.requests: list[tuple[str, str]] = []

    def __call__(self, text: str, fallback: str = "n") -> str:
        name = self._names(text, fallback)
        self.requests.append((text, name))
        return name


def _name(entity: object) -> str:
    return entity.name if isinstance(entity, Sym | Buf) else str(entity)


def _origins(group: FusionGroup) -> Iterator[Origin]:
    for loop in group.loops:
        yield loop.origin
    for reduction in group.reductions:
        yield from (loop.origin for loop in reduction.loops)
        yield reduction.update.origin
    yield from (stmt.origin for stmt in group.epilogue if not isinstance(stmt, Let))


def _text(group: FusionGroup) -> CanonicalText:
    text = CanonicalText()
    text.body(group.loops)
    text.cond(group.cond)
    for reduction in group.reductions:
        text.expr(reduction.init)
        text.body(reduction.loops)
        text.cond(reduction.cond)
        text.stmt(reduction.update)
    text.body(group.epilogue)
    arrays = [entity for entity in text.names if isinstance(entity, Buf)]
    storage = [alias_class(buf) for buf in arrays]  # plans do not pack what the group writes
    text.tokens += [str(storage.index(kind)) for kind in storage]
    return text


def _renamed(part: Any, entities: Mapping[object, Any]) -> Any:
    """Replaces the symbols and arrays in a part of a plan."""
    match part:
        case Sym() | Buf():
            return entities[part]
        case Affine(terms, const):
            return Affine.sum([(coef, entities[sym]) for coef, sym in terms], const)
        case tuple():
            return tuple([_renamed(element, entities) for element in part])
        case Ref() | ScalarPlan() | ReductionPlan() | TilePlan():
            return type(part)(*[_renamed(getattr(part, field.name), entities) for field in fields(part)])
        case _:
            return part
