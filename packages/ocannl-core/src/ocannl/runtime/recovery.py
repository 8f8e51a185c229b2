"""Recovery from defects of the compiler: a routine is compiled without the pass that has failed, with a warning.

    optimize --fails--> replay with a check after each pass --> the program without the failing passes
    backend  --fails--> the same program with a simple schedule --> without a schedule --> the program as lowered

A backend that fails on a program of a single store as well is broken, and its error is raised.

With the setting `on_defect` = `raise`, or `verify` = `every`, the first failure raises an error instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ocannl.backend.api import Backend, CompiledCode
from ocannl.backend.discovery import core_version
from ocannl.backend.returned_values import compile_code
from ocannl.base.config import ON_DEFECT, TRACEBACK, VERIFY
from ocannl.base.errors import CompileError, DefectWarning, VerifyError
from ocannl.base.log import logger
from ocannl.base.plugins import exception_summary
from ocannl.base.traceback_filtering import warn_user
from ocannl.ir.loops import AccessMode, Buf, Const, MemorySpace, Proc, Ref, Store
from ocannl.ir.precision import float32
from ocannl.ir.tnode import TNode
from ocannl.opt.pass_bisection import REQUIRED_PASSES, Check, PassFailure, Replay, is_defect, plain_variants, replay
from ocannl.opt.pipeline import optimize
from ocannl.opt.schedule.schedule import PlanChoices
from ocannl.runtime import reproducer

_log = logger("runtime.recovery")
_reported: dict[str, object] = {}  # by name of the pass, and the warning; `setdefault` is atomic


@dataclass(frozen=True, slots=True)
class FailedCompilation:
    """The input of a compilation that has run into a defect."""

    lowered: Proc
    keep_reasons: Mapping[TNode, str]
    backend: Backend
    check: Check
    choices: PlanChoices
    is_autotuned: bool = False


def must_raise() -> bool:
    return ON_DEFECT.get() == "raise" or VERIFY.get() == "every"


def is_backend_defect(error: Exception) -> bool:
    """Whether an exception of `Backend.compile` may come from the program, so that a plainer one may compile."""
    return isinstance(error, CompileError) or is_defect(error)


def recover_passes(failed: FailedCompilation, error: Exception) -> Replay:
    """Returns the program without the passes that fail, after `optimize` or a check of its result raised `error`.

    The replay uses the plans of the cost model, since plans for a different program may not fit. If no pass fails in
    it, the defect is one of autotuning.
    """
    capabilities = failed.backend.capabilities
    result = replay(failed.lowered, failed.keep_reasons, capabilities, failed.check)
    cause = "autotuning" if failed.is_autotuned else "optimization"
    failure = result.failures[0] if result.failures else PassFailure(cause, error, failed.lowered)
    part = f"the compiler pass `{failure.pass_name}`" if result.failures else cause
    if must_raise():
        _raise(part, _listed([failed.lowered.name]), failure.error, VerifyError)
    names = [failure.pass_name for failure in result.failures]
    simple = [name for name in names if name == "schedule" and f"simple {name}" not in result.plain]
    required = [name for name in names if name in REQUIRED_PASSES or (name == "schedule" and name not in simple)]
    without = _listed([name for name in names if name not in (*required, *simple)])
    remedies = [f"without {without}"] if without else []
    remedies += [f"with the simple form of {_listed(simple)}"] if simple else []
    remedies += [f"with the plain form of {_listed(required)}"] if required else []
    if not result.is_optimized:
        remedies = ["without optimization"]
    _report(failed, part, failure, " and ".join(remedies) or "with the plans of the cost model")
    return result


def report_tuning(failed: FailedCompilation, error: Exception) -> None:
    """Handles an error in the selection of code variants, which can be left out."""
    if must_raise():
        _raise("autotuning", _listed([failed.lowered.name]), error, VerifyError)
    failure = PassFailure("autotuning", error, failed.lowered)
    _report(failed, "autotuning", failure, "with the default variants of the backend")


def raise_backend_error(backend: Backend, routines: Sequence[str], error: Exception) -> None:
    """Raises `CompileError` for an error of a backend, if the settings demand it."""
    if must_raise():
        if isinstance(error, CompileError):
            raise error
        _raise(f"the backend `{backend.name}`", _listed(routines), error, CompileError)


def recover_backend(
    failed: FailedCompilation,
    error: Exception,
    plain: frozenset[str],
    compiled: Callable[[Proc, frozenset[str]], CompiledCode],
) -> tuple[Proc, frozenset[str], CompiledCode]:
    """Returns a plainer program that the backend compiles, its replaced forms, and its code.

    `compiled` returns the code of a program with the given forms replaced. Raises `error` if all fail.
    """
    name = failed.backend.name
    if _is_broken(failed.backend):
        raise error
    for proc, variant in _plainer_programs(failed, plain):
        try:
            code = compiled(proc, variant)
        except Exception as next_error:  # a defect raises any class; errors of other causes are raised again
            if not is_backend_defect(next_error):
                raise
        else:
            remedy = (
                "without optimization" if "simplify" in variant
                else "with the plain schedule" if "simple schedule" in variant
                else "with a simple schedule"
            )  # fmt: skip
            _report(failed, f"the backend `{name}`", PassFailure("backend", error, proc), remedy)
            return proc, variant, code
    raise error


def _is_broken(backend: Backend) -> bool:
    """Whether the backend fails on any program, since it fails on the simplest one."""
    cell = Buf("cell", float32, (), (), MemorySpace.GLOBAL, AccessMode.OUT)
    try:
        compile_code(backend, [Proc("probe", (cell,), (), (Store(Ref(cell, ()), Const(0.0, float32)),))])
    except Exception:  # any error of a backend, which may be a plugin
        return True
    return False


def _plainer_programs(failed: FailedCompilation, plain: frozenset[str]) -> Iterator[tuple[Proc, frozenset[str]]]:
    capabilities = failed.backend.capabilities
    for variant in plain_variants(capabilities):
        if not variant <= plain:
            try:
                proc = optimize(failed.lowered, failed.keep_reasons, capabilities, plain=variant | plain)
                failed.check("allocate_memory", proc)
            except Exception as error:  # as above
                if not is_defect(error):
                    raise
            else:
                yield proc, variant | plain


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _raise(part: str, routines: str, error: Exception, kind: type[Exception]) -> None:
    """Raises an error for a defect, without frames of the framework unless the setting `traceback` asks for them."""
    text = str(error) if isinstance(error, VerifyError) else exception_summary(error)
    last = list(reproducer.internal_frames(error))[-1:]
    at = f" ({last[0]})" if last and not isinstance(error, VerifyError) else ""
    message = f"{part} of ocannl {core_version()} failed on {routines}{at}: {text}"
    raise kind(message) from (error if TRACEBACK.get() == "full" else None)


def _report(failed: FailedCompilation, part: str, failure: PassFailure, remedy: str) -> None:
    """Writes a reproducer, once per process for each pass, and issues one warning per process."""
    routine, summary, token = failed.lowered.name, exception_summary(failure.error), object()
    if _reported.setdefault(failure.pass_name, token) is not token:
        _log.info("%s failed on `%s`, which is compiled %s: %s", part, routine, remedy, summary)
        return
    file = _write_reproducer(failed, failure)
    message = (
        f"{part} failed on routine `{routine}`: {summary}\n"
        f"This is a defect of ocannl {core_version()}, not of your program. `{routine}` is compiled {remedy}: its"
        f" results are correct, but it may be slower. Please report the defect{file}"
    )
    if _reported.setdefault("warning", token) is token:
        warn_user(DefectWarning(message))
    else:
        _log.info("%s", message)


def _write_reproducer(failed: FailedCompilation, failure: PassFailure) -> str:
    """Writes a reproducer; returns the end of a sentence that says where it is, or why there is none."""
    is_backend = failure.pass_name == "backend"
    try:
        path = reproducer.write(
            reproducer.content(
                failure.pass_name, failure.error, None if is_backend else failure.before, failed.lowered,
                failed.keep_reasons, failed.backend, failed.choices,
            )
        )  # fmt: skip
    except Exception as error:  # a defect must not become a failure
        return f"; the file that reproduces it could not be written: {exception_summary(error)}"
    return (
        f" with the file {path}, which reproduces it: `ocannl replay FILE`. The file holds the program, with names and"
        " constants but no values of tensors."
    )
