"""Replay of the pass pipeline with a check after each pass, which finds the passes that have a defect.

A pass that fails is replaced by its plain form: an optional pass is left out, and so is `schedule`; placement and
allocation keep all nodes and share no memory. The technique is that of LLVM's `opt-bisect-limit`, except that every
pass is checked, so that no search is necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ocannl.base.errors import OcannlError, VerifyError
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Proc
from ocannl.ir.tnode import TNode
from ocannl.opt.pipeline import optimize, passes
from ocannl.opt.schedule.schedule import MODEL_CHOICES, PlanChoices

REQUIRED_PASSES = frozenset({"decide_placement", "allocate_memory"})
Check = Callable[[str, Proc], None]
"""Raises `VerifyError` if the result of the pass of this name is ill-formed."""


@dataclass(frozen=True, slots=True)
class PassFailure:
    """A pass that raised an exception or returned an ill-formed program, and the program that it was applied to."""

    pass_name: str
    error: Exception
    before: Proc


@dataclass(frozen=True, slots=True)
class Replay:
    """An optimized program that satisfies the verifier, and the passes that run in their plain form."""

    proc: Proc
    plain: frozenset[str]
    failures: tuple[PassFailure, ...]


def is_defect(error: Exception) -> bool:
    """Whether an exception of a pass reports a defect of the compiler, not of its input or of the machine."""
    return isinstance(error, VerifyError) or not isinstance(error, OcannlError | MemoryError | OSError)


def replay(
    lowered: Proc,
    keep_reasons: Mapping[TNode, str],
    capabilities: Capabilities,
    check: Check,
    choices: PlanChoices = MODEL_CHOICES,
) -> Replay:
    """Runs the passes on a lowered program, with a check after each, and replaces passes that fail by their plain form.

    If a plain form fails as well, all passes run in their plain form. Raises the first error if that fails.
    """
    failures: list[PassFailure] = []
    proc = lowered
    try:
        for step in passes(keep_reasons, capabilities, lambda proc: choices):
            if not step.when:
                continue
            try:
                result = _checked(step.name, step.run, proc, check)
            except Exception as error:
                if not is_defect(error):
                    raise
                failures.append(PassFailure(step.name, error, proc))
                result = _checked(step.name, step.plain, proc, check)
            proc = result
        return Replay(proc, frozenset(failure.pass_name for failure in failures), tuple(failures))
    except Exception as error:
        if not failures or not is_defect(error):
            raise
    every_pass = frozenset(step.name for step in passes(keep_reasons, capabilities))
    try:
        proc = optimize(lowered, keep_reasons, capabilities, plain=every_pass)
        check("allocate_memory", proc)
    except Exception as error:
        if not is_defect(error):
            raise
        raise failures[0].error from None
    return Replay(proc, every_pass, tuple(failures))


def _checked(name: str, transform: Callable[[Proc], Proc], proc: Proc, check: Check) -> Proc:
    result = transform(proc)
    if result is not proc:
        check(name, result)
    return result


def plain_variants(capabilities: Capabilities) -> tuple[frozenset[str], ...]:
    """Returns sets of passes to replace when a backend fails on a program: those from `schedule` on, then all passes
    that are not required."""
    names = [step.name for step in passes({}, capabilities) if step.when]
    every_pass = [step.name for step in passes({}, capabilities)]
    late = every_pass[every_pass.index("schedule") :]
    variants = (frozenset(late).intersection(names) - REQUIRED_PASSES, frozenset(names) - REQUIRED_PASSES)
    return tuple(variant for variant in variants if variant)
