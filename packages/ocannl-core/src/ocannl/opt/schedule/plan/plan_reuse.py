"""Reuse of plans for groups that differ only in names, such as those of the layers of a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.alpha_equivalence import CanonicalText
from ocannl.ir.loops import Buf, Ref
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.schedule.plan.register_tiles import TilePlan
from ocannl.opt.schedule.plan.scalar_plans import ReductionPlan, ScalarPlan

Plan = ScalarPlan | TilePlan


class PlanReuse:
    """Calls `choose` once for each class of groups that are equal up to renaming."""

    def __init__(self, choose: Callable[[FusionGroup, bool], Plan]) -> None:
        self._choose = choose
        self._plans: dict[tuple[bool, str], tuple[Plan, list[object]]] = {}

    def plan(self, group: FusionGroup, is_parallel: bool) -> Plan:
        text = _text(group)
        key = is_parallel, " ".join(text.tokens)
        if key not in self._plans:
            self._plans[key] = self._choose(group, is_parallel), list(text.names)
        plan, entities = self._plans[key]
        renamed: Plan = _renamed(plan, dict(zip(entities, text.names, strict=True)))
        return renamed


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
