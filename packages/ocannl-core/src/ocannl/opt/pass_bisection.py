"""Replay of the pass pipeline with a check after each pass, which finds the passes that have a defect.

A pass that fails is replaced by its simple form, if there is one, or by its plain form: an optional pass is left out;
`schedule` uses fixed tiles and, if that fails, is left out; placement and allocation keep all nodes and share no
memory. The technique is that of LLVM's `opt-bisect-limit`, except that every pass is checked, so that no search is
necessary.
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

REQUIRED_PASSES = frozenset({"decide_placement", "compose_operations", "allocate_memory"})
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
    """An optimized program that satisfies the verifier, and the names of the forms of passes that are replaced."""

    proc: Proc
    plain: frozenset[str]
    failures: tuple[PassFailure, ...]
    is_optimized: bool = True  # False if all forms are replaced


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
    """Runs the passes on a lowered program, with a check after each, and replaces forms that fail by plainer ones.

    If a plain form fails as well, all passes run in their plain form. Raises the first error if that fails.
    """
    failures: list[PassFailure] = []
    plain: list[str] = []
    proc = lowered
    try:
        for step in passes(keep_reasons, capabilities, lambda proc: choices):
            if not step.when:
                continue
            for name, run in step.replaceable_forms.items():
                try:
                    result = _checked(step.name, run, proc, check)
                except Exception as error:  # whatever a pass raises, unless it reports an error of the user
                    if not is_defect(error):
                        raise
                    plain.append(name)
                    if name == step.name:
                        failures.append(PassFailure(name, error, proc))
                else:
                    break
            else:
                result = _checked(step.name, step.plain, proc, check)
            proc = result
        return Replay(proc, frozenset(plain), tuple(failures))
    except Exception as error:  # of a plain form
        if not failures or not is_defect(error):
            raise
    every_pass = frozenset(name for step in passes(keep_reasons, capabilities) for name in step.replaceable_forms)
    try:
        proc = optimize(lowered, keep_reasons, capabilities, plain=every_pass)
        check("allocate_memory", proc)
    except Exception as error:  # as above
        if not is_defect(error):
            raise
        raise failures[0].error from None
    return Replay(proc, every_pass, tuple(failures), is_optimized=False)


def _checked(name: str, transform: Callable[[Proc], Proc], proc: Proc, check: Check) -> Proc:
    result = transform(proc)
    if result is not proc:
        check(name, result)
    return result


def plain_variants(capabilities: Capabilities) -> tuple[frozenset[str], ...]:
    """Returns sets of forms to replace when a backend fails on a program: those from `schedule` on, first with its
    simple form and then without it, finally those of all passes that are not required."""
    pipeline = passes({}, capabilities)
    first = [step.name for step in pipeline].index("schedule")
    late = [step for step in pipeline[first:] if step.when and step.name not in REQUIRED_PASSES]
    early = [step for step in pipeline[:first] if step.when and step.name not in REQUIRED_PASSES]
    with_simple_forms = [step.name for step in late]
    without_late = [name for step in late for name in step.replaceable_forms]
    without_all = [name for step in (*early, *late) for name in step.replaceable_forms]
    variants = dict.fromkeys(map(frozenset, (with_simple_forms, without_late, without_all)))
    return tuple(variant for variant in variants if variant)
