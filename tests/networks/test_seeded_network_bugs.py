"""Defects put into passes on purpose: each drops a condition of legality or falsifies an index.

Random networks must find it, by wrong numbers or by the verifier.
Each names a network that finds it, which is tried first. Where a change of the generator or of a pass has made this
hint useless, others are tried, and what is printed says which one to write here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain
from random import Random

import pytest

from ocannl.runtime import reuse

from .compare import Expected, Way, Wrong, expected_by_torch, has_torch, judged
from .generate import generate
from .machines import MACHINES, PLANNING
from .mutants import Defect
from .program import Network
from .test_random_networks import usable

SEARCHED = range(400)  # networks, where the hint is useless
MAX_WORK = 100_000  # multiply-adds of those that are tried
MAX_LINES = 40

DEFECTS = {
    # epilogues and producers
    "epilogues_of_other_iterations": Defect("fuse", "_meet_only_here", "and other != ref", "and False", 514),
    "loops_of_other_lengths_are_matched": Defect(
        "fuse", "_matched", "(one.lo, one.hi) != (other.lo, other.hi) or ", "", 296
    ),
    "stored_values_are_forwarded_past_stores": Defect("fuse", "_forwarded", "known.pop(stmt.ref, None)", "pass", 200),
    "updates_do_not_end_forwarding": Defect("fuse", "joined", "known.pop(stmt.ref, None)", "pass", 200),
    "stores_with_readers_are_dead": Defect(
        "fuse", "_Fusion.swept", "return not self.places.is_read(stmt.ref.buf)", "return True", 10
    ),
    "updates_of_some_cells_absorb_fills": Defect(
        "join", "_whole", " or walked(nest.leaf.ref, nest.loops) != {loop.sym for loop in nest.loops}", "", 11
    ),
    "fills_are_joined_everywhere": Defect(
        "join", "_in_part", "When(there, value, first)", "When(replace(there, eq0=()), value, first)", 2234
    ),
    "producers_move_past_writes": Defect(
        "inline", "_sees_same", "if table.written_between(read.buf, at, reader_at):", "if False:", 203
    ),
    "partial_producers_are_inlined": Defect(
        "inline",
        "_may_move",
        "if not nest.cond.is_true or grid(leaf.ref, nest.loops) != {loop.sym for loop in nest.loops}:",
        "if not nest.cond.is_true:",
        23,
    ),
    "accumulations_are_inlined": Defect("inline", "_may_move", " or isinstance(leaf, Update)", "", 203),
    "merged_epilogues_are_not_noted": Defect("fuse", "_Fusion.absorb", "self.places.merge(gone, place)", "pass", 10),
    "sums_lose_what_was_there": Defect(
        "fuse", "_Fusion.__init__", "start.value if start is not None else None", "None", 6
    ),
    "partial_stores_are_remembered_as_fills": Defect(
        "start", "Starts.note", "if once and nest.cond.is_true", "if nest.cond.is_true", 137
    ),
    # moving statements
    "statements_move_past_writes_of_reads": Defect(
        "places", "Places.may_move", "self._read[at] | self._written[at]", "self._written[at]", 10
    ),
    "statements_move_past_readers": Defect("places", "Places.may_move", "return not any", "return True or any", 10),
    "arrays_with_other_users_are_contracted": Defect("places", "Places.only", "all(at", "any(at", 10),
    "accesses_of_moved_statements_are_forgotten": Defect(
        "places", "Places.merge", "mine[place] |= mine.pop(gone)", "mine.pop(gone)", 10
    ),
    # shared rows
    "one_pair_of_cells_decides_equal_loops": Defect(
        "row", "equal_loops", "{a: b for a, b in found.items() if same.get(a) is b}", "found | same", 376
    ),
    "loops_of_other_lengths_are_shared": Defect(
        "row", "equal_loops", "and (a.only_sym.lo, a.only_sym.hi) == (b.only_sym.lo, b.only_sym.hi)", "", 376
    ),
    "first_row_is_distributed": Defect("rows", "_Sharing.together", "len(first.members) > 1 and", "False and", 376),
    "arrays_of_later_statements_are_contracted": Defect(
        "rows", "_Sharing.built", "if not self.places.only(buf, at):", "if False:", 10
    ),
    "parts_of_rows_overlap": Defect(
        "rows", "_Sharing.built", "Affine(((turn.extent, part)", "Affine(((max(1, turn.extent - 1), part)", 178
    ),
    "members_are_reversed": Defect(
        "rows",
        "_Sharing.built",
        "each.stmt() for each in row.members)",
        "each.stmt() for each in row.members[::-1])",
        10,
    ),
    "carried_sums_move_before_dependences": Defect(
        "rows", "_Sharing.carry", "(at < place and are_dependent(other, row))", "False", 353
    ),
    "carried_sums_move_past_anything": Defect(
        "rows", "_Sharing.carry", "if not self.places.may_move(at, place):", "if False:", 19
    ),
    "fused_groups_are_swapped": Defect("rows", "_Sharing.together", "(*begin, *end)", "(*end, *begin)", 11),
    # fused and split reductions
    "carried_sums_read_totals_of_others": Defect(
        "carry", "carried", "if any(storage(ref.buf) in totals for ref in terms):", "if False:", 1769
    ),
    "last_part_is_not_added": Defect(
        "parts",
        "Room.added_up",
        "(total,) = self.group.sums",
        "(total,), part = self.group.sums, Sym(part.name, part.lo, max(part.lo, part.hi - 1))",
        224,
    ),
    "parts_begin_at_one": Defect("parts", "Room.start", "neutral(total.update.op, self.buf.precision)", "1", 23),
    "sums_in_parts_lose_their_start": Defect("parts", "Room.added_up", "Sum(total.start,", "Sum(self.start,", 23),
    "parts_of_sums_overlap": Defect(
        "parts", "_in_parts", "Affine(((size, part), (1, turn)))", "Affine(((max(1, size - 1), part), (1, turn)))", 11
    ),
    "carried_terms_forget_earlier_rows": Defect(
        "carry", "in_parts", "Sum(Load(update.ref), rest", "Sum(room.start, rest", 148
    ),
    # hoisted and merged parallel loops
    "statements_move_before_late_ones": Defect("division", "divided", "if late.meets(here):", "if False:", 11),
    "statements_stand_before_loops_they_read": Defect(
        "division", "divided", "elif shared.meets(here):", "elif False:", 11
    ),
    "only_new_writes_must_be_aligned": Defect(
        "division", "Touched.admits", "self.written | other.written", "other.written", 89
    ),
    "axes_of_any_access_are_shared": Defect("division", "Touched.common", "axes & along", "axes | along", 89),
    "loops_read_outside_are_contracted": Defect("phase", "_with_locals", "and users[key] == {at} ", "", 11),
    "members_of_phases_are_reversed": Defect(
        "phase", "_merged", "at in found.inside if", "at in found.inside[::-1] if", 11
    ),
    "contracted_arrays_keep_strides_of_others": Defect(
        "division", "without_axis", "for n in order])), strict", "for n in order[::-1]])), strict", 179
    ),
    "loops_with_dependences_run_in_parallel": Defect(
        "share", "_shared", " or not are_independent(touches(stmt.body), stmt.sym, (), sums=False)", "", 203
    ),
    "sums_run_in_parallel": Defect("share", "_shared", "sums=False", "sums=True", 203),
    "locals_lack_another_axis": Defect(
        "phase", "_at_locals", "(*ref.at[:axis], *ref.at[axis + 1 :])", "ref.at[1:] if axis else ref.at[:-1]", 11
    ),
    # equal and dead values
    "arrays_read_are_not_compared": Defect(
        "unite", "_Values.write", "read = tuple([self.of(ref.buf) for", "read = tuple([ref.buf.shape for", 19
    ),
    "what_arrays_held_is_not_compared": Defect(
        "unite", "_Values.write", "operation, extents, before, read", "operation, extents, read", 203
    ),
    "arrays_written_again_are_twins": Defect("unite", "unite", "table.writers[buf][-1] == at and ", "", 11),
    "partial_writes_kill_stores": Defect(
        "sweep", "sweep", "isinstance(nest.leaf, Store) and covers(nest)", "isinstance(nest.leaf, Store)", 137
    ),
    "cells_of_one_row_are_one": Defect(
        "number", "_Values.visit", "key = ref.buf, ref.at", "key = ref.buf, ref.at[:1]", 126
    ),
    # scatters and one-hot sums
    "first_window_misses_a_cell": Defect("invert", "_turned", "value - gone.lo,", "value - gone.lo - 1,", 178),
    "windows_miss_their_last_cell": Defect(
        "invert", "_turned", "Affine.of(gone.hi) - value)", "Affine.of(gone.hi - 1) - value)", 178
    ),
    "indices_are_not_in_range": Defect("gather", "_term", "inside(place, sym.extent) &", "", 246),
    # attention
    "scale_of_old_maximum_is_forgotten": Defect(
        "running", "Running.rescaled", "Apply(MUL, (Load(cell), scale))", "Load(cell)", 659
    ),
    "last_block_of_keys_is_not_cut": Defect(
        "running", "Running.inside", "Affine.of(extent - 1)", "Affine.of(extent)", 514
    ),
    "blocks_of_keys_overlap": Defect(
        "running", "Running.key", "Affine(((self.size, keys),)", "Affine(((max(1, self.size - 1), keys),)", 659
    ),
    "kept_weights_are_dropped": Defect("online", "_Online.taken", " or not places.only(buf, place)", "", 659),
    "recomputed_scores_lack_a_guard": Defect(
        "again", "_Again.built", "Affine.of(key.extent - 1)", "Affine.of(key.extent)", 604
    ),
    "recomputed_blocks_overlap": Defect(
        "again",
        "_Again.built",
        "known = {key: Affine(((self.keys, keys),)",
        "known = {key: Affine(((max(1, self.keys - 1), keys),)",
        1334,
    ),
    # memory
    "partial_results_are_filled": Defect(
        "layout",
        "_fills",
        "if len(writes) > 1 or not group.cond.is_true or any(ref.buf is buf for ref in group.reads):",
        "if len(writes) > 1:",
        146,
    ),
    "padded_rows_overlap": Defect("pad", "_padded", "end *= buf.shape[axis]", "end *= max(1, buf.shape[axis] - 1)", 11),
    "polled_stretches_overlap": Defect("poll", "_in_parts", "first + (many - 1)", "first + many", 11),
    "arrays_die_one_statement_early": Defect("memory", "_lives", ", at)", ", max(0, at - 1))", 10),
}


def way_of(seed: int) -> Way:
    kind = "float64" if seed % 4 == 3 else "float32"
    machine, planning = list(MACHINES)[seed % len(MACHINES)], list(PLANNING)[seed % len(PLANNING)]
    return Way(kind, threads=1 + seed // 2 % 2, machine=machine, planning=planning)


@cache
def network_of(seed: int) -> Network:
    return generate(Random(seed))


@cache
def expected(seed: int) -> Expected:
    return expected_by_torch(network_of(seed))


def verdict(seed: int) -> Wrong | None:
    reuse.forget()  # what was compiled with another defect, or with none
    wrong = judged(network_of(seed), way_of(seed), [expected(seed)])
    return wrong if wrong is not None and wrong.kind in ("disagreement", "VerifyError") else None


def is_cheap(seed: int) -> bool:
    network = network_of(seed)
    return network.work <= MAX_WORK and len(network.lines) <= MAX_LINES


@cache
def is_sound(seed: int) -> bool:
    """Whether nothing is wrong without a defect."""
    return verdict(seed) is None


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    """What was compiled with a defect is of no use to any other test."""
    yield
    reuse.forget()


def test_there_are_enough() -> None:
    assert len(DEFECTS) >= 40


@pytest.mark.skipif(not has_torch(), reason="PyTorch, which judges the networks, is not installed")
@pytest.mark.skipif(not usable("llvm"), reason="`llvm` is not usable here")
@pytest.mark.parametrize("name", DEFECTS)
def test_networks_find(name: str) -> None:
    defect = DEFECTS[name]
    with defect.planted():
        seed = next(filter(verdict, chain([defect.hint], filter(is_cheap, SEARCHED))), None)
    assert seed is not None, f"no network finds `{name}`"
    if seed != defect.hint:
        print(f"`{name}` is no longer found by network {defect.hint}: write {seed} as its hint")
    assert is_sound(seed), f"network {seed} fails without `{name}` as well"
