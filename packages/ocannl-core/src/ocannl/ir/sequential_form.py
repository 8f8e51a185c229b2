"""The choice between the parallel and the sequential form of code."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.assign import Comp, Conditional, LabeledBlock, Loop, ParallelForm, Seq


def sequential_form(code: Comp) -> Comp:
    """Replaces each `ParallelForm` by its sequential form."""
    match code:
        case ParallelForm(sequential=sequential):
            return sequential
        case Seq(items):
            return Seq(tuple([sequential_form(item) for item in items]))
        case LabeledBlock(_, body) | Loop(_, body) | Conditional(_, body):
            return replace(code, body=sequential_form(body))
        case _:
            return code
