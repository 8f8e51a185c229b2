"""Defects put into optimization and code generation on purpose: programs in the user's language must detect each.

Each defect carries the seed of a program that is known to detect it, which is tried first. Where a change of the
generator or of a pass has invalidated it, other programs are searched, and the seed should be renewed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from random import Random
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.codegen.c_family import dialect, expressions
from ocannl.codegen.c_family import function as c_function
from ocannl.codegen.outlining import ParallelLoop
from ocannl.ir.affine import Affine, Cond
from ocannl.ir.loops import Proc, Ref, Store
from ocannl.ir.ops import Op
from ocannl.ir.precision import Precision
from ocannl.opt import pipeline
from ocannl.opt.fusion import inline_producers
from ocannl.opt.memory import allocate_memory
from ocannl.opt.parallel.parallelize import parallelize
from ocannl.runtime import compile_cache
from ocannl.testing.oracles import OracleCase, case_by_evaluation, compare_backend, oracle_case
from ocannl.testing.program import Built
from ocannl.testing.random_expressions import generate

Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.slow
BUGS: dict[str, tuple[str, int, Callable[[Patch], None]]] = {}
BATCH = 5  # programs compiled together
SEARCHED = 200  # programs


def usable(name: str) -> bool:
    module = f"ocannl_backend_{name}"
    return find_spec(module) is not None and import_module(module).ocannl_backend().probe() is None


USABLE = {name: usable(name) for name in ("llvm", "c")}
if USABLE["llvm"]:
    from ocannl_backend_llvm import arithmetic, function, indices, scalar


WITH_POWERS = -1  # the seed of a program that is written by hand: random ones have no constant exponents above 3


def bug(backend: str, hint: int) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def added(seed: Callable[[Patch], None]) -> Callable[[Patch], None]:
        BUGS[f"{backend}-{seed.__name__}"] = backend, hint, seed
        return seed

    return added


def wrap(patch: Patch, owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replaces a function by `around(original, *args)`."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **kw: around(original, *args, **kw))


def one_less(f: Any, *args: Any) -> Any:
    out = f(*args)
    return out - 1 if isinstance(out, int) and out > 1 else out


def without_constants(ref: Ref) -> Ref:
    return replace(ref, indices=tuple(Affine(index.terms) for index in ref.indices))


# --- optimization, seen on LLVM --------------------------------------------------------------------------------------


@bug("llvm", 0)
def memory_lives_too_short(patch: Patch) -> None:
    def too_short(f: Any, *args: Any) -> Any:
        return {buf: (first, first) for buf, (first, _) in f(*args).items()}

    wrap(patch, allocate_memory, "_live_ranges", too_short)


@bug("llvm", 33)
def values_move_past_what_changes_them(patch: Patch) -> None:
    patch.setattr(inline_producers, "_reads_same_values", lambda *args: True)


@bug("llvm", 0)
def inlined_at_the_wrong_cell(patch: Patch) -> None:
    def around(f: Any, written: Ref, read: Ref) -> Any:
        result = f(written, read)
        return dict(zip(result, reversed(result.values()), strict=True))

    wrap(patch, inline_producers, "match_indices", around)


@bug("llvm", 0)
def last_claim_lost(patch: Patch) -> None:
    wrap(patch, pipeline, "parallelize", lambda f, proc: parallelize(proc, 1, 1))
    original = ParallelLoop.num_chunks.fget  # type: ignore[attr-defined]
    patch.setattr(ParallelLoop, "num_chunks", property(lambda loop: max(1, original(loop) - 1)))


@bug("llvm", 172)
def symbols_in_another_order(patch: Patch) -> None:
    backend = type(import_module("ocannl_backend_llvm").ocannl_backend().load())

    def around(f: Any, self: Any, procs: list[Proc], *more: Any) -> Any:
        return f(self, [replace(proc, syms=proc.syms[::-1]) for proc in procs], *more)

    wrap(patch, backend, "compile", around)


# --- LLVM ------------------------------------------------------------------------------------------------------------


@bug("llvm", 2)
def outside_everywhere(patch: Patch) -> None:
    wrap(patch, scalar.ScalarCode, "when", lambda f, self, cond, then, orelse: self.value(orelse))


@bug("llvm", 21)
def less_taken_for_at_most(patch: Patch) -> None:
    wrap(patch, scalar, "compare", lambda f, b, name, *rest: f(b, {"lt": "le"}.get(name, name), *rest))


@bug("llvm", 43)
def sign_of_a_fused_product_lost(patch: Patch) -> None:
    wrap(patch, scalar, "_strip_negation", lambda f, expr: (False, f(expr)[1]))


@bug("llvm", 1)
def operands_swapped(patch: Patch) -> None:
    wrap(patch, arithmetic, "_apply_float", lambda f, b, op, precision, args: f(b, op, precision, args[::-1]))


@bug("llvm", 0)
def last_iteration_lost(patch: Patch) -> None:
    wrap(patch, indices.Indices, "limit", one_less)


@bug("llvm", 2)
def constant_of_an_index_lost(patch: Patch) -> None:
    wrap(patch, indices.Indices, "element_offset", lambda f, self, ref: f(self, without_constants(ref)))


@bug("llvm", 11)
def locals_not_filled(patch: Patch) -> None:
    wrap(patch, function.FunctionEmitter, "local", lambda f, self, buf, fill: f(self, buf, None if fill is None else 1))


@bug("llvm", 2)
def numbers_of_three_digits(patch: Patch) -> None:
    wrap(patch, scalar, "constant", lambda f, value, kind: f(float(f"{value:.3g}") if kind.is_float else value, kind))


@bug("llvm", WITH_POWERS)
def powers_one_too_high(patch: Patch) -> None:
    wrap(patch, scalar, "power", lambda f, b, precision, x, exponent: f(b, precision, x, exponent + 1))


@bug("llvm", 2)
def store_instead_of_update(patch: Patch) -> None:
    wrap(patch, scalar.ScalarCode, "update", lambda f, self, s: self.store(Store(s.ref, s.value, s.origin)))


@bug("llvm", 2)
def equalities_of_a_condition_dropped(patch: Patch) -> None:
    wrap(patch, indices.Indices, "condition", lambda f, self, cond: f(self, Cond((), cond.eq0)))


# --- C ---------------------------------------------------------------------------------------------------------------


@bug("c", 2)
def constant_of_a_place_lost(patch: Patch) -> None:
    wrap(patch, expressions.ScalarExpressions, "cell", lambda f, self, ref: f(self, without_constants(ref)))


@bug("c", 0)
def last_round_lost(patch: Patch) -> None:
    wrap(patch, expressions.ScalarExpressions, "limit", one_less)


@bug("c", 3)
def facts_of_a_condition_dropped(patch: Patch) -> None:
    wrap(patch, expressions.ScalarExpressions, "condition", lambda f, self, cond: f(self, Cond(cond.ge0[:1])))


@bug("c", 2)
def operands_reversed(patch: Patch) -> None:
    def around(f: Any, self: Any, op: Op, precision: Precision, args: list[Any]) -> Any:
        return f(self, op, precision, args[::-1] if op.name in ("sub", "div", "lt", "where") else args)

    wrap(patch, expressions.ScalarExpressions, "compute", around)


@bug("c", 11)
def accumulators_start_at_one(patch: Patch) -> None:
    def local(f: Any, self: Any, buf: Any, fill: Any) -> Any:
        return f(self, buf, None if fill is None else 1)

    wrap(patch, c_function._FunctionPrinter, "local", local)


@bug("c", 0)
def updates_forget(patch: Patch) -> None:
    def update(f: Any, self: Any, stmt: Any) -> Any:
        return self.statement(Store(stmt.ref, stmt.value, stmt.origin))

    wrap(patch, c_function._FunctionPrinter, "update", update)


@bug("c", 43)
def sign_lost(patch: Patch) -> None:
    wrap(patch, expressions, "_strip_negation", lambda f, expr: (False, f(expr)[1]))


@bug("c", 2)
def numbers_cut(patch: Patch) -> None:
    def around(f: Any, self: Any, value: Any, precision: Precision) -> Any:
        return f(self, float(f"{value:.3g}") if precision.is_float else value, precision)

    wrap(patch, dialect.Dialect, "literal", around)


@bug("c", WITH_POWERS)
def powers_too_high(patch: Patch) -> None:
    def power(f: Any, self: Any, x: Any, exponent: Any, work: Any) -> Any:
        return f(self, x, exponent + 1, work)

    wrap(patch, expressions.ScalarExpressions, "_power", power)


@bug("c", 0)
def blocks_share_memory(patch: Patch) -> None:
    last_only = lambda f, *args: {buf: (last, last) for buf, (_, last) in f(*args).items()}  # noqa: E731
    wrap(patch, allocate_memory, "_live_ranges", last_only)


# --- the verdict -----------------------------------------------------------------------------------------------------


@cache
def case(seed: int) -> OracleCase:
    if seed == WITH_POWERS:
        with oc.settings(precision="float64"):
            x = oc.param("x", [0.5, -1.5])
            built = Built({"x": x, "loss": (x**5).sum()}, {x.node: np.array([0.5, -1.5])}, {}, None)
            return case_by_evaluation(built, "float64", [{}], ())
    return oracle_case(generate(Random(seed)), ("float64", "float32")[seed % 2])


def first_difference(backend: str, seeds: range) -> str:
    cases = [case(seed) for seed in seeds]
    for seed, wrong in zip(seeds, compare_backend(cases, backend, verify="off"), strict=True):
        if wrong is not None:
            return f"program {seed}: {wrong}"
    return ""


def batches(count: int) -> list[range]:
    return [range(first, first + BATCH) for first in range(0, count, BATCH)]


@pytest.fixture
def forgetful() -> Iterator[None]:
    """What was compiled with a bug is of no use to anyone else."""
    compile_cache.clear()
    yield
    compile_cache.clear()


def test_there_are_enough() -> None:
    assert len(BUGS) >= 25


@pytest.mark.parametrize("name", BUGS)
def test_generated_programs_catch(name: str, monkeypatch: Patch, forgetful: None) -> None:
    backend, hint, seed = BUGS[name]
    if not USABLE[backend]:
        pytest.skip(f"`{backend}` is not usable here")
    seed(monkeypatch)
    tried = [range(hint, hint + 1), *batches(SEARCHED)]
    assert any(first_difference(backend, seeds) for seeds in tried), f"no program tells `{name}` from correct code"


@pytest.mark.parametrize("backend", USABLE)
def test_without_a_bug_there_is_nothing_to_catch(backend: str, forgetful: None) -> None:
    if not USABLE[backend]:
        pytest.skip(f"`{backend}` is not usable here")
    hints = sorted({hint for backend_of_bug, hint, _ in BUGS.values() if backend_of_bug == backend})
    tried = [*(range(hint, hint + 1) for hint in hints), *batches(20)]
    assert not any(first_difference(backend, seeds) for seeds in tried)
