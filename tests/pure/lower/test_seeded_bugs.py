"""Defects put into lowering on purpose: generated programs must tell each from the real thing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ocannl.base.errors import DtypeError
from ocannl.ir import assign as comp
from ocannl.ir.affine import TRUE, Affine, Bound, Cond
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode, Apply, Cast, Comment, Load, Ref, Store, Update, When
from ocannl.ir.ops import ADD, AND, BY_NAME, ID, MAX, MIN, MUL, OR, Domain
from ocannl.ir.precision import Family, int32
from ocannl.lower import coverage, types
from ocannl.lower import lower as lowering
from ocannl.testing.random_programs import difference

Patch = pytest.MonkeyPatch
BUGS: dict[str, Callable[[Patch], None]] = {}
TRIES = 1500  # programs at most; the laws say that none of them tells on correct lowering


def bug(seed: Callable[[Patch], None]) -> Callable[[Patch], None]:
    BUGS[seed.__name__] = seed
    return seed


def wrap(patch: Patch, owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replaces a function by `around(original, *args)`."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **kw: around(original, *args, **kw))


# --- clearing ---


@bug
def skipped_clear(patch: Patch) -> None:
    patch.setattr(lowering._Lowerer, "_fill", lambda self, buf, value, origin: Comment("cleared"))


@bug
def wrong_neutral(patch: Patch) -> None:
    wrap(patch, lowering, "neutral_element", lambda original, op, kind: 0)


@bug
def finite_neutral(patch: Patch) -> None:
    wrap(patch, lowering, "neutral_element", lambda f, op, kind: max(min(f(op, kind), 1), -1))


@bug
def cleared_without_request(patch: Patch) -> None:
    wrap(patch, lowering._Lowerer, "assign", lambda f, self, a: f(
        self, a if a.accum is None or a.accum.neutral is None else replace(a, clear=True)))  # fmt: skip


@bug
def everything_is_covered(patch: Patch) -> None:
    patch.setattr(lowering, "is_surjective", lambda pieces, dims: True)


@bug
def nothing_overlaps(patch: Patch) -> None:
    patch.setattr(lowering, "is_injective", lambda pieces: True)


@bug
def pieces_never_overlap(patch: Patch) -> None:
    patch.setattr(coverage, "are_disjoint", lambda pieces: True)


@bug
def reductions_ignored_by_coverage(patch: Patch) -> None:
    wrap(patch, coverage, "indices_are_injective", lambda f, at, syms: f(
        at, [s for s in syms if any(a.coef(s) for a in at)]
    ))  # fmt: skip


@bug
def digits_may_touch(patch: Patch) -> None:
    wrap(patch, coverage, "indices_are_injective", lambda f, at, syms: all(any(a.coef(s) for a in at) for s in syms))


@bug
def masks_ignored_by_coverage(patch: Patch) -> None:
    wrap(patch, lowering, "is_surjective", lambda f, pieces, dims: f([replace(p, when=TRUE) for p in pieces], dims))


@bug
def first_logic_value_not_normalized(patch: Patch) -> None:
    patch.setattr(lowering, "TRUE_NEUTRAL", (ADD, MUL, MAX, MIN, AND, OR))


# --- loops and indices ---


@bug
def last_iteration_lost(patch: Patch) -> None:
    wrap(patch, lowering, "loop", lambda f, sym, *more: replace(f(sym, *more), hi=Bound.upper(sym.hi)))


@bug
def first_iteration_lost(patch: Patch) -> None:
    wrap(patch, lowering, "loop", lambda f, sym, *more: replace(f(sym, *more), lo=Bound.lower(sym.lo + 1)))


@bug
def extra_iteration(patch: Patch) -> None:
    wrap(patch, lowering, "loop", lambda f, sym, *more: replace(f(sym, *more), hi=Bound.upper(sym.hi + 2)))


@bug
def loops_swapped_where_order_matters(patch: Patch) -> None:
    wrap(patch, lowering, "_order", lambda f, piece, sequential: tuple(reversed(f(piece, sequential))))


@bug
def only_the_first_piece(patch: Patch) -> None:
    wrap(patch, lowering._Lowerer, "assign", lambda f, self, a: f(self, replace(a, pieces=a.pieces[:1])))


@bug
def pieces_in_reverse(patch: Patch) -> None:
    wrap(patch, lowering._Lowerer, "assign", lambda f, self, a: f(self, replace(a, pieces=a.pieces[::-1])))


@bug
def offset_lost(patch: Patch) -> None:
    wrap(patch, lowering._RenamedLoops, "index", lambda f, self, index: Affine(f(self, index).terms))


@bug
def stride_of_an_index_lost(patch: Patch) -> None:
    def around(f: Any, self: Any, index: Affine) -> Affine:
        out = f(self, index)
        return Affine(tuple((max(min(c, 1), -1), s) for c, s in out.terms), out.const)

    wrap(patch, lowering._RenamedLoops, "index", around)


@bug
def sign_of_an_index_lost(patch: Patch) -> None:
    def around(f: Any, self: Any, index: Affine) -> Affine:
        out = f(self, index)
        return Affine(tuple((abs(c), s) for c, s in out.terms), out.const)

    wrap(patch, lowering._RenamedLoops, "index", around)


@bug
def wrong_strides(patch: Patch) -> None:
    wrap(patch, lowering, "row_major", lambda f, shape: f(shape[::-1])[::-1])


@bug
def statements_in_reverse(patch: Patch) -> None:
    def around(f: Any, code: comp.Comp, name: str) -> Any:
        return f(comp.Seq(tuple(reversed(list(comp.assigns(code))))), name)

    wrap(patch, lowering, "lower", around)


@bug
def static_symbol_replaced_by_lower_bound(patch: Patch) -> None:
    def around(f: Any, self: Any, index: Affine) -> Affine:
        return f(self, index).substitute({s: Affine.of(s.lo) for s in index.syms if s.kind.value == "static"})

    wrap(patch, lowering._RenamedLoops, "index", around)


# --- statements ---


@bug
def store_instead_of_update(patch: Patch) -> None:
    def around(f: Any, *args: Any, **kw: Any) -> Any:
        out = f(*args, **kw)
        return Store(out.ref, out.value, out.origin) if isinstance(out, Update) else out

    wrap(patch, lowering, "_accumulate", around)


@bug
def update_instead_of_store(patch: Patch) -> None:
    wrap(patch, lowering, "_accumulate", lambda f, *args, is_first: f(*args, is_first=False))


@bug
def subtraction_adds(patch: Patch) -> None:
    patch.setattr(lowering, "NEG", ID)


@bug
def operands_of_accumulation_swapped(patch: Patch) -> None:
    def around(f: Any, *args: Any, **kw: Any) -> Any:
        out = f(*args, **kw)
        match out:
            case Store(ref, Apply(op, (a, b)), origin) if isinstance(a, Load):
                return Store(ref, Apply(op, (b, a)), origin)
        return out

    wrap(patch, lowering, "_accumulate", around)


@bug
def alias_not_copied(patch: Patch) -> None:
    patch.setattr(lowering, "_reads_overwritten_cells", lambda assign, early: False)


@bug
def alias_copied_only_when_indices_differ(patch: Patch) -> None:
    wrap(patch, lowering, "_reads_overwritten_cells", lambda f, assign, early: f(assign, False))


@bug
def mask_dropped(patch: Patch) -> None:
    patch.setattr(lowering._RenamedLoops, "cond", lambda self, cond: TRUE)


@bug
def equality_of_a_mask_dropped(patch: Patch) -> None:
    wrap(patch, lowering._RenamedLoops, "cond", lambda f, self, cond: Cond(f(self, cond).ge0))


@bug
def merge_buffer_not_used(patch: Patch) -> None:
    def around(f: Any, self: Any, node: Any) -> Any:
        return self._node_bufs.get(node) or f(self, node)

    wrap(patch, lowering._Lowerer, "_merge_buf", around)


@bug
def sums_do_not_start_from_the_old_value(patch: Patch) -> None:
    def around(f: Any, self: Any, target: Any, source: Any, origin: Any) -> Any:
        if target.access is AccessMode.TEMP and target.name.endswith("_sum"):
            return self._fill(target, 0, origin)
        return f(self, target, source, origin)

    wrap(patch, lowering._Lowerer, "_copy_converted", around)


@bug
def sums_not_stored(patch: Patch) -> None:
    def around(f: Any, self: Any, target: Any, source: Any, origin: Any) -> Any:
        out = f(self, target, source, origin)
        return Comment("not stored") if source.name.endswith("_sum") else out

    wrap(patch, lowering._Lowerer, "_copy_converted", around)


@bug
def sums_in_the_narrow_type(patch: Patch) -> None:
    patch.setattr(lowering, "_needs_wide_accumulator", lambda storage_type, compute_type: False)


# --- values and types ---


@bug
def outside_reads_zero(patch: Patch) -> None:
    wrap(patch, types, "guarded_load", lambda f, load, cond, outside: f(load, cond, 0))


@bug
def outside_reads_the_nearest_neighbour(patch: Patch) -> None:
    def around(f: Any, load: Load, cond: Cond, outside: float) -> Any:
        out = f(load, cond, outside)
        if not isinstance(out, When) or 0 in load.ref.buf.shape:
            return out
        return When(out.cond, out.on_true, out.on_true)

    wrap(patch, types, "guarded_load", around)


@bug
def upper_edge_of_windows_forgotten(patch: Patch) -> None:
    wrap(patch, lowering, "bounds_condition", lambda f, index, size: f(index, 10**6))


@bug
def lower_edge_of_windows_forgotten(patch: Patch) -> None:
    wrap(patch, lowering, "bounds_condition", lambda f, index, size: f(index + 10**6, size + 10**6))


@bug
def narrow_floats_compute_in_storage_type(patch: Patch) -> None:
    wrap(patch, types, "compute_type", lambda f, op, kind: kind if kind.is_float else f(op, kind))


@bug
def integers_divide_as_integers(patch: Patch) -> None:
    wrap(patch, types, "compute_type", lambda f, op, kind: kind if op.domain is Domain.FLOAT else f(op, kind))


@bug
def truth_values_do_not_count(patch: Patch) -> None:
    wrap(patch, types, "compute_type", lambda f, op, kind: kind if op is ADD or op is MUL else f(op, kind))


@bug
def promotion_takes_the_first(patch: Patch) -> None:
    patch.setattr(types, "promote", lambda left, right: left)


@bug
def weak_fractions_become_integers(patch: Patch) -> None:
    patch.setattr(types, "fits", lambda weak, precision: True)


@bug
def conversion_skipped(patch: Patch) -> None:
    def around(f: Any, self: Any, value: Any, *more: Any) -> Any:
        return f(self, value.value if isinstance(value, comp.Convert) else value, *more)

    wrap(patch, lowering._Lowerer, "_value", around)


@bug
def truth_by_truncation(patch: Patch) -> None:
    def around(f: Any, operand: Any, kind: Any) -> Any:
        out = f(operand, kind)
        return Cast(Cast(out.value, int32), kind) if isinstance(out, Cast) and kind.family is Family.BOOL else out

    wrap(patch, types, "cast", around)


@bug
def condition_truncated(patch: Patch) -> None:
    patch.setattr(types, "condition", lambda operand, kind: types.cast(operand, kind))


@bug
def condition_decides_the_type(patch: Patch) -> None:
    def around(f: Any, op: Any, operands: Any) -> Any:
        if op.name == "where":
            kind = types.common(op, operands)
            return types.cast(f(op, [operands[0], *(types.cast(o, kind) for o in operands[1:])]), int32)
        return f(op, operands)

    wrap(patch, types, "apply", around)


@bug
def operands_swapped(patch: Patch) -> None:
    wrap(patch, types, "apply", lambda f, op, operands: f(op, operands[::-1]))


@bug
def swapped_branches(patch: Patch) -> None:
    wrap(patch, types, "apply", lambda f, op, operands: f(BY_NAME["fst"] if op.name == "snd" else op, operands))


@bug
def reads_transposed(patch: Patch) -> None:
    def around(f: Any, load: Load, cond: Cond, outside: float) -> Any:
        buf = load.ref.buf
        if len(buf.shape) == 2 and buf.shape[0] == buf.shape[1]:
            load = Load(Ref(buf, load.ref.indices[::-1]))
        return f(load, cond, outside)

    wrap(patch, types, "guarded_load", around)


# --- the verdict ---


def first_difference(judged: Any) -> str:
    for seed in range(TRIES):
        program, want = judged.program(seed)
        try:
            got = interpret(lowering.lower(program.code, "routine"), program.arrays, program.symbols, program.merged)
        except (IndexError, DtypeError) as refused:
            return f"program {seed}: {refused}"
        wrong = difference(want, got, program.tolerance)
        if wrong:
            return f"program {seed}: {wrong}"
    return ""


def test_number_of_mutations() -> None:
    assert len(BUGS) >= 40


@pytest.mark.parametrize("name", BUGS)
def test_the_oracle_catches(name: str, judged: Any, monkeypatch: Patch) -> None:
    BUGS[name](monkeypatch)
    assert first_difference(judged), f"no generated program tells `{name}` from correct lowering"
