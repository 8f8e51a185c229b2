"""Seeded defects in passes: each drops a legality condition or makes an index wrong, and random networks detect it.

A defect is detected by wrong results or by the verifier. Its hint is the seed of a network that detects it, which is
tried first. If a change of the generator or of a pass has invalidated the hint, the test searches for another network
and prints its seed as the new hint.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from random import Random

import pytest

from ocannl.backend.registry import open_backend
from ocannl.base.config import settings
from ocannl.base.errors import DefectWarning
from ocannl.cli.replay import failures_of
from ocannl.runtime import compile_cache, recovery, reproducer

from .compare import Expected, Failure, RunConfig, check_network, expected_by_torch, has_torch
from .generate import generate
from .machine_configs import MACHINES, PLANNING, planned_for
from .mutants import Defect
from .program import Network
from .test_random_networks import usable

pytestmark = pytest.mark.slow

SEARCHED_SEEDS = range(400)  # tried if the hint is invalid
MAX_WORK = 100_000  # multiply-adds of a network that is tried
MAX_LINES = 40

DEFECTS = {
    # epilogues and producers
    "epilogues_of_other_iterations": Defect(
        "fusion.fuse_epilogues", "_has_only_zero_distance_dependences", "and access != write", "and False", 514
    ),
    "loops_of_other_lengths_are_matched": Defect(
        "fusion.fuse_epilogues",
        "_match_loops",
        "if (first_sym.lo, first_sym.hi) != (second_sym.lo, second_sym.hi):",
        "if False:",
        296,
    ),
    "stored_values_are_forwarded_past_stores": Defect(
        "fusion.fuse_epilogues", "_forward_stores", "stored.pop(stmt.ref, None)", "pass", 200
    ),
    "updates_do_not_end_forwarding": Defect(
        "fusion.fuse_epilogues", "fused_groups", "stored.pop(stmt.ref, None)", "pass", 200
    ),
    "stores_with_readers_are_dead": Defect(
        "fusion.fuse_epilogues",
        "_EpilogueFusion.without_dead_stores",
        "return not self.accesses.is_read(stmt.ref.buf)",
        "return True",
        10,
    ),
    "updates_of_some_cells_absorb_initial_stores": Defect(
        "fusion.merge_initialization",
        "_merge_full_update",
        " or covering_loops(nest.leaf.ref, nest.loops) != {loop.sym for loop in nest.loops}",
        "",
        11,
    ),
    "partial_writes_are_merged_into_all_cells": Defect(
        "fusion.merge_initialization",
        "_merge_partial_write",
        "When(in_range, value, first)",
        "When(replace(in_range, eq0=()), value, first)",
        2234,
    ),
    "producers_move_past_writes": Defect(
        "fusion.inline_producers",
        "_reads_same_values",
        "if table.written_between(read.buf, at, reader_at):",
        "if False:",
        203,
    ),
    "partial_producers_are_inlined": Defect(
        "fusion.inline_producers",
        "_can_inline",
        "is_unit = unit_covering_loops(leaf.ref, nest.loops) == {loop.sym for loop in nest.loops}",
        "is_unit = True",
        23,
    ),
    "accumulations_are_inlined": Defect(
        "fusion.inline_producers", "_can_inline", " or isinstance(leaf, Update)", "", 203
    ),
    "accesses_of_fused_epilogues_are_not_merged": Defect(
        "fusion.fuse_epilogues", "_EpilogueFusion.try_fuse", "self.accesses.merge(absorbed, position)", "pass", 10
    ),
    "reductions_lose_their_initial_value": Defect(
        "fusion.fuse_epilogues",
        "_EpilogueFusion.__init__",
        "initial.value if initial is not None else None",
        "None",
        6,
    ),
    "partial_stores_are_recorded_as_initial": Defect(
        "analysis.initial_stores",
        "InitialStores.record",
        "if stores_once and nest.cond.is_true",
        "if nest.cond.is_true",
        137,
    ),
    # moving statements
    "statements_move_past_writes_of_reads": Defect(
        "analysis.dependences",
        "AccessIndex.can_move_next_to",
        "self._read[source] | self._written[source]",
        "self._written[source]",
        10,
    ),
    "statements_move_past_readers": Defect(
        "analysis.dependences", "AccessIndex.can_move_next_to", "return not any", "return True or any", 10
    ),
    "arrays_with_several_accessors_are_contracted": Defect(
        "analysis.dependences", "AccessIndex.is_sole_accessor", "all(at", "any(at", 10
    ),
    "accesses_of_moved_statements_are_forgotten": Defect(
        "analysis.dependences", "AccessIndex.merge", "keys[target] |= keys.pop(source)", "keys.pop(source)", 10
    ),
    # fused outer loops
    "one_pair_of_cells_decides_equal_loops": Defect(
        "fusion.fused_nest",
        "equal_loops",
        "{a: b for a, b in equal.items() if pairs.get(a) is b}",
        "equal | pairs",
        376,
    ),
    "loops_of_other_lengths_are_fused": Defect(
        "fusion.fused_nest", "equal_loops", " and (a.lo, a.hi) == (b.lo, b.hi)", "", 376
    ),
    "first_nest_is_distributed": Defect(
        "fusion.fuse_outer_loops", "_OuterLoopFusion.fused", "len(first.members) > 1 and", "False and", 376
    ),
    "arrays_of_later_statements_are_contracted": Defect(
        "fusion.fuse_outer_loops",
        "_OuterLoopFusion.build_nest",
        "if not self.accesses.is_sole_accessor(buf, position):",
        "if False:",
        10,
    ),
    "parts_of_rows_overlap": Defect(
        "fusion.fuse_outer_loops",
        "_OuterLoopFusion.build_nest",
        "Affine(((inner_sym.extent, part)",
        "Affine(((max(1, inner_sym.extent - 1), part)",
        178,
    ),
    "members_are_reversed": Defect(
        "fusion.fuse_outer_loops",
        "_OuterLoopFusion.build_nest",
        "group.stmt() for group in nest.members)",
        "group.stmt() for group in nest.members[::-1])",
        10,
    ),
    "row_reductions_move_before_dependences": Defect(
        "fusion.fuse_outer_loops",
        "_OuterLoopFusion.fuse_row_reduction",
        "(source < position and are_dependent(target, nest))",
        "False",
        353,
    ),
    "row_reductions_move_past_anything": Defect(
        "fusion.fuse_outer_loops",
        "_OuterLoopFusion.fuse_row_reduction",
        "if not self.accesses.can_move_next_to(source, position):",
        "if False:",
        19,
    ),
    "fused_groups_are_swapped": Defect(
        "fusion.fuse_outer_loops",
        "_OuterLoopFusion.fused",
        "(*first_groups, *second_groups)",
        "(*second_groups, *first_groups)",
        11,
    ),
    # fused and split reductions
    "row_reductions_read_totals_of_previous_ones": Defect(
        "fusion.row_reductions",
        "fused_row_reduction",
        "if any(alias_class(ref.buf) in totals for ref in terms):",
        "if False:",
        1769,
    ),
    "last_part_is_not_added": Defect(
        "parallel.split_reductions",
        "PartialSums.final_reduction",
        "(reduction,) = self.group.reductions",
        "(reduction,), part = self.group.reductions, Sym(part.name, part.lo, max(part.lo, part.hi - 1))",
        224,
    ),
    "partial_sums_start_at_one": Defect(
        "parallel.split_reductions",
        "PartialSums.init",
        "neutral_element(reduction.update.op, self.buf.precision)",
        "1",
        23,
    ),
    "split_reductions_lose_their_initial_value": Defect(
        "parallel.split_reductions",
        "PartialSums.final_reduction",
        "Reduction(reduction.init,",
        "Reduction(self.init,",
        952,
    ),
    "parts_of_reductions_overlap": Defect(
        "parallel.split_reductions",
        "split_group",
        "Affine(((part_size, part), (1, inner)))",
        "Affine(((max(1, part_size - 1), part), (1, inner)))",
        11,
    ),
    "partial_sums_forget_earlier_rows": Defect(
        "fusion.row_reductions",
        "with_partial_sums",
        "Reduction(Load(update.ref), inner_loops",
        "Reduction(buffer.init, inner_loops",
        148,
    ),
    # hoisted and fused parallel loops
    "statements_move_before_later_ones": Defect(
        "analysis.loop_distribution",
        "partition_for_shared_loop",
        "if later.conflicts_with(accesses):",
        "if False:",
        11,
    ),
    "statements_stand_before_loops_they_read": Defect(
        "analysis.loop_distribution",
        "partition_for_shared_loop",
        "elif shared.conflicts_with(accesses):",
        "elif False:",
        11,
    ),
    "only_new_writes_must_be_aligned": Defect(
        "analysis.loop_distribution",
        "AccessSummary.can_share_loop_with",
        "self.written | summary.written",
        "summary.written",
        89,
    ),
    "axes_of_any_access_are_shared": Defect(
        "analysis.loop_distribution", "AccessSummary.common_axes", "axes & indexed", "axes | indexed", 89
    ),
    "arrays_accessed_outside_the_loop_are_contracted": Defect(
        "fusion.fuse_parallel_loops", "_contract_arrays", " and users[key] == {position}", "", 11
    ),
    "members_of_parallel_loops_are_reversed": Defect(
        "fusion.fuse_parallel_loops",
        "_merge_loops",
        "position in partition.inside if",
        "position in partition.inside[::-1] if",
        11,
    ),
    "contracted_arrays_have_permuted_strides": Defect(
        "analysis.loop_distribution",
        "strides_without_axis",
        "for n in order])), strict",
        "for n in order[::-1]])), strict",
        179,
    ),
    "loops_with_dependences_run_in_parallel": Defect(
        "parallel.parallelize",
        "_parallelize_loop",
        " or not has_no_loop_carried_dependence(memory_accesses((stmt,)), stmt.sym, (), sums=False)",
        "",
        203,
    ),
    "reductions_run_in_parallel": Defect("parallel.parallelize", "_parallelize_loop", "sums=False", "sums=True", 203),
    "contracted_arrays_lack_another_axis": Defect(
        "fusion.fuse_parallel_loops",
        "_redirect_accesses",
        "(*ref.indices[:axis], *ref.indices[axis + 1 :])",
        "ref.indices[1:] if axis else ref.indices[:-1]",
        11,
    ),
    # equal and dead values
    "operands_of_equal_arrays_are_not_compared": Defect(
        "simplify.eliminate_equal_arrays",
        "_ArrayValues.write",
        "operands = tuple([self.number_of(ref.buf) for",
        "operands = tuple([ref.buf.shape for",
        19,
    ),
    "previous_values_of_arrays_are_not_compared": Defect(
        "simplify.eliminate_equal_arrays",
        "_ArrayValues.write",
        "operation, extents, old_number, operands",
        "operation, extents, operands",
        203,
    ),
    "overwritten_arrays_are_replaced": Defect(
        "simplify.eliminate_equal_arrays", "eliminate_equal_arrays", "table.writers[buf][-1] == position and ", "", 11
    ),
    "partial_writes_kill_stores": Defect(
        "simplify.eliminate_dead_code",
        "eliminate_dead_code",
        "isinstance(nest.leaf, Store) and covers_buffer(nest)",
        "isinstance(nest.leaf, Store)",
        137,
    ),
    "cells_of_one_row_are_one": Defect(
        "simplify.eliminate_common_subexpressions",
        "_ValueNumbering.visit",
        "key = ref.buf, ref.indices",
        "key = ref.buf, ref.indices[:1]",
        126,
    ),
    # scatters and one-hot sums
    "first_window_misses_a_cell": Defect(
        "idioms.scatter_to_gather", "_invert_axis", "value - eliminated.lo,", "value - eliminated.lo - 1,", 178
    ),
    "windows_miss_their_last_cell": Defect(
        "idioms.scatter_to_gather",
        "_invert_axis",
        "Affine.of(eliminated.hi) - value)",
        "Affine.of(eliminated.hi - 1) - value)",
        178,
    ),
    "indices_are_not_in_range": Defect(
        "idioms.one_hot_to_gather", "_selected_term", "bounds_condition(index, sym.extent) &", "", 246
    ),
    # attention
    "running_sums_are_not_rescaled": Defect(
        "idioms.attention.online_nest",
        "OnlineSoftmaxNest.rescale_and_add",
        "Apply(MUL, (Load(cell), cast_to(scale, self.sum_precision)))",
        "Load(cell)",
        659,
    ),
    "last_block_of_keys_is_too_long": Defect(
        "idioms.attention.online_nest",
        "OnlineSoftmaxNest.in_range",
        "Affine.of(extent - 1)",
        "Affine.of(extent)",
        724,
    ),
    "blocks_of_keys_overlap": Defect(
        "idioms.attention.online_nest",
        "OnlineSoftmaxNest.key_substitution",
        "Affine(((self.key_block, block_sym),)",
        "Affine(((max(1, self.key_block - 1), block_sym),)",
        659,
    ),
    "weights_read_elsewhere_are_dropped": Defect(
        "idioms.attention.online_softmax",
        "_OnlineSoftmax.replace_softmax",
        " or not accesses.is_sole_accessor(buf, target)",
        "",
        659,
    ),
    "recomputed_scores_lack_a_guard": Defect(
        "idioms.attention.recompute_nest",
        "RecomputeNest.__init__",
        "Affine.of(self.key.extent - 1)",
        "Affine.of(self.key.extent)",
        604,
    ),
    "recomputed_blocks_overlap": Defect(
        "idioms.attention.recompute_nest",
        "RecomputeNest.__init__",
        "self.key_value = Affine(((key_block, self.block_sym),)",
        "self.key_value = Affine(((max(1, key_block - 1), self.block_sym),)",
        1334,
    ),
    # memory
    "partial_results_are_copied_back": Defect(
        "memory.choose_layouts",
        "_overwrites",
        "if len(writes) > 1 or not group.cond.is_true or any(ref.buf is buf for ref in group.reads):",
        "if len(writes) > 1:",
        146,
    ),
    "padded_rows_overlap": Defect(
        "memory.pad_rows", "_padded_strides", "stride *= buf.shape[axis]", "stride *= max(1, buf.shape[axis] - 1)", 11
    ),
    "strips_between_polls_overlap": Defect(
        "parallel.insert_polls", "_divide_loop", "first + (strip_size - 1)", "first + strip_size", 11
    ),
    "arrays_die_one_statement_early": Defect(
        "memory.allocate_memory", "_live_ranges", ", position)", ", max(0, position - 1))", 10
    ),
}


def run_config_of(seed: int) -> RunConfig:
    kind = "float64" if seed % 4 == 3 else "float32"
    machine, planning = list(MACHINES)[seed % len(MACHINES)], list(PLANNING)[seed % len(PLANNING)]
    return RunConfig(kind, threads=1 + seed // 2 % 2, machine=machine, planning=planning)


@cache
def network_of(seed: int) -> Network:
    return generate(Random(seed))


@cache
def expected(seed: int) -> Expected:
    return expected_by_torch(network_of(seed))


def verdict(seed: int) -> Failure | None:
    """Returns the disagreement or the verifier error of the network, if there is one."""
    compile_cache.clear()  # it may hold code compiled without this defect
    wrong = check_network(network_of(seed), run_config_of(seed), [expected(seed)])
    return wrong if wrong is not None and wrong.kind in ("disagreement", "VerifyError") else None


def is_cheap(seed: int) -> bool:
    network = network_of(seed)
    return network.work <= MAX_WORK and len(network.lines) <= MAX_LINES


@cache
def is_correct(seed: int) -> bool:
    """Whether the network is correct without a defect."""
    return verdict(seed) is None


def is_ill_formed(seed: int) -> bool:
    """Whether the verifier detects a defect in the program of the network."""
    wrong = verdict(seed)
    return wrong is not None and wrong.kind == "VerifyError"


@pytest.fixture(autouse=True)
def clear_cache() -> Iterator[None]:
    """Removes code compiled with a defect after each test."""
    yield
    compile_cache.clear()


def test_number_of_defects() -> None:
    assert len(DEFECTS) >= 40


@pytest.mark.skipif(not has_torch(), reason="PyTorch, the reference for the networks, is not installed")
@pytest.mark.skipif(not usable("llvm"), reason="`llvm` is not usable here")
@pytest.mark.parametrize("name", DEFECTS)
def test_networks_detect(name: str) -> None:
    defect = DEFECTS[name]
    with defect.planted():
        seed = next(filter(verdict, chain([defect.hint], filter(is_cheap, SEARCHED_SEEDS))), None)
    assert seed is not None, f"no network detects `{name}`"
    if seed != defect.hint:
        print(f"network {defect.hint} no longer detects `{name}`: the new hint is {seed}")
    assert is_correct(seed), f"network {seed} fails without `{name}` as well"


@pytest.mark.skipif(not has_torch(), reason="PyTorch, the reference for the networks, is not installed")
@pytest.mark.skipif(not usable("llvm"), reason="`llvm` is not usable here")
@pytest.mark.sample(30)
@pytest.mark.parametrize("name", DEFECTS)
def test_networks_are_correct_without_the_failing_pass(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defects that make a program ill-formed cost the optimization of a pass, and nothing else."""
    defect, run_config = DEFECTS[name], run_config_of(DEFECTS[name].hint)
    monkeypatch.setattr(recovery, "_reported", {})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with defect.planted(), settings(cache_dir=str(tmp_path)):
        if not is_ill_formed(defect.hint):
            pytest.skip("its network is well-formed, but wrong")
        compile_cache.clear()
        with settings(on_defect="recover"), pytest.warns(DefectWarning, match="failed on routine"):
            recovered = check_network(network_of(defect.hint), run_config, [expected(defect.hint)])
        (path,) = tmp_path.rglob("ocannl-defect-*.json")
        case = reproducer.read(path)
        with planned_for(run_config.machine, open_backend(run_config.backend), run_config.planning):
            assert case.failed in [failure.pass_name for failure in failures_of(case)]
    assert recovered is None
    with planned_for(run_config.machine, open_backend(run_config.backend), run_config.planning):
        assert failures_of(case) == ()


@pytest.mark.skipif(not has_torch(), reason="PyTorch, the reference for the networks, is not installed")
@pytest.mark.skipif(not usable("llvm"), reason="`llvm` is not usable here")
def test_peeled_blocks_of_sums_are_not_unrolled() -> None:
    """The sum of network 226 over images of a batch has four blocks. The first and the last one are peeled, and the
    bounds of a loop over one block are no constants."""
    assert is_correct(226)
