"""The pass pipeline of the optimizer. Start reading here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Proc, region_body
from ocannl.ir.private_scope import MAX_PRIVATE_BYTES
from ocannl.ir.tnode import TNode
from ocannl.ir.verify import Stage
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.weights import copied_weights
from ocannl.opt.fusion.flatten_fused_loops import flatten_fused_loops
from ocannl.opt.fusion.fuse_epilogues import fuse_epilogues
from ocannl.opt.fusion.fuse_outer_loops import fuse_outer_loops
from ocannl.opt.fusion.fuse_parallel_loops import fuse_parallel_loops
from ocannl.opt.fusion.hoist_parallel_loop import hoist_parallel_loop
from ocannl.opt.fusion.inline_casts import inline_casts
from ocannl.opt.fusion.inline_producers import inline_producers
from ocannl.opt.fusion.merge_initialization import merge_initialization
from ocannl.opt.idioms.attention.online_softmax import online_softmax
from ocannl.opt.idioms.attention.recompute_attention import recompute_attention
from ocannl.opt.idioms.attention.skip_masked_keys import skip_masked_keys
from ocannl.opt.idioms.form_pair_dots import form_pair_dots
from ocannl.opt.idioms.matrix_tiles.tensorize_products import tensorize_products
from ocannl.opt.idioms.merge_gather_initialization import merge_gather_initialization
from ocannl.opt.idioms.one_hot_to_gather import one_hot_to_gather
from ocannl.opt.idioms.precompute_indices import precompute_indices
from ocannl.opt.idioms.scatter_to_gather import scatter_to_gather
from ocannl.opt.idioms.widen_scatter_accumulators import widen_scatter_accumulators
from ocannl.opt.memory.allocate_memory import allocate_memory, allocate_separately
from ocannl.opt.memory.choose_layouts import choose_layouts
from ocannl.opt.memory.decide_placement import decide_placement, keep_all_nodes
from ocannl.opt.memory.hoist_invariant_nests import hoist_invariant_nests
from ocannl.opt.memory.pad_operands import pad_operands
from ocannl.opt.memory.pad_rows import pad_rows
from ocannl.opt.memory.precompute_weight_arrays import (
    precompute_packed_weights,
    precompute_weight_arrays,
    writes_precomputed_arrays,
)
from ocannl.opt.memory.prefetch import prefetch
from ocannl.opt.memory.prefetch_streams import prefetch_streams
from ocannl.opt.memory.split_streams import split_streams
from ocannl.opt.memory.use_nontemporal_stores import use_nontemporal_stores
from ocannl.opt.parallel.distribute_sequential_loops import distribute_sequential_loops
from ocannl.opt.parallel.insert_polls import insert_polls
from ocannl.opt.parallel.parallelize import parallelize
from ocannl.opt.parallel.privatize_copies import privatize_copies
from ocannl.opt.parallel.privatize_reductions import privatize_reductions
from ocannl.opt.parallel.split_reductions import split_reductions
from ocannl.opt.regions import in_regions
from ocannl.opt.schedule.schedule import MODEL_CHOICES, PlanChoices, schedule, schedule_simply
from ocannl.opt.simplify.compose_operations import COMPOSITIONS, compose_operations
from ocannl.opt.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from ocannl.opt.simplify.eliminate_dead_code import eliminate_dead_code
from ocannl.opt.simplify.eliminate_equal_arrays import eliminate_equal_arrays
from ocannl.opt.simplify.simplify import simplify
from ocannl.opt.simplify.split_live_ranges import split_live_ranges


@dataclass(frozen=True, slots=True)
class Pass:
    """A transformation of programs; `when` is false if the target does not need it.

    `simple`, if there is one, is applied instead of `run` after the pass has failed, and `plain` if that fails as well.
    It changes nothing if a program needs no such pass.
    """

    name: str
    run: Callable[[Proc], Proc]
    when: bool = True
    plain: Callable[[Proc], Proc] = lambda proc: proc
    simple: Callable[[Proc], Proc] | None = None

    @property
    def replaceable_forms(self) -> dict[str, Callable[[Proc], Proc]]:
        """The forms that are tried before `plain`, by name."""
        return {self.name: self.run, **({f"simple {self.name}": self.simple} if self.simple is not None else {})}

    def form(self, replaced: frozenset[str]) -> Callable[[Proc], Proc]:
        """Returns the first form that is not replaced."""
        return next((run for name, run in self.replaceable_forms.items() if name not in replaced), self.plain)

    def in_regions(self) -> Pass:
        """Returns the pass that transforms each region separately."""
        simple = None if self.simple is None else in_regions(self.simple)
        return replace(self, run=in_regions(self.run), plain=in_regions(self.plain), simple=simple)


WHOLE_PROGRAM_PASSES = frozenset({
    "decide_placement", "split_live_ranges", "inline_casts", "distribute_sequential_loops", "pad_rows",
    "hoist_invariant_nests", "precompute_weight_arrays", "schedule", "precompute_packed_weights", "parallelize",
    "privatize_copies", "insert_polls", "allocate_memory",
})  # fmt: skip
"""Passes that see a whole program; others see regions."""

PlanSelector = Callable[[Proc], PlanChoices]
"""Chooses plans for the groups of a program that is about to be scheduled."""


def use_cost_model(proc: Proc) -> PlanChoices:
    """Selects the cost model's plan for every group."""
    return MODEL_CHOICES


def passes(
    keep_reasons: Mapping[TNode, str], capabilities: Capabilities, choose: PlanSelector = use_cost_model
) -> tuple[Pass, ...]:
    """Returns the passes for a target, in order. Results are the same without any of them, but a program can only be
    compiled after placement and allocation, which have plain forms."""
    c, threshold = capabilities, capabilities.cpu.streaming_threshold_bytes
    private_bytes = min(c.cpu.l2.size_bytes // machine.OPERAND_CACHE_DIVISOR, MAX_PRIVATE_BYTES)
    min_prefetched_bytes = round(machine.PREFETCHED_L2_RATIO * c.cpu.l2.size_bytes)
    fuses = c.wants_schedule or c.wants_fusion_groups
    splits = c.wants_schedule or c.grid_threads > 0
    precomputes = c.wants_schedule and c.wants_precomputed_weights
    steps = (
        Pass(  # only temporaries can be removed
            "decide_placement", lambda proc: decide_placement(proc, keep_reasons), plain=keep_all_nodes
        ),
        Pass("split_live_ranges", split_live_ranges),  # first: passes remove what only one region uses
        Pass("simplify", simplify),
        Pass("merge_initialization", merge_initialization),  # before inlining, which takes single stores
        Pass("inline_casts", inline_casts, when=fuses),  # before `inline_producers`, which sees the casts in the loops
        Pass("inline_producers", lambda proc: inline_producers(proc, fuses)),  # `simplify` makes costs accurate
        Pass(  # after inlining, which brings one-hot masks to their reductions
            "one_hot_to_gather", lambda proc: one_hot_to_gather(proc, fuses)
        ),
        Pass("eliminate_equal_arrays", eliminate_equal_arrays),  # after inlining, which leaves fewer arrays
        Pass("eliminate_dead_code", eliminate_dead_code),  # after the passes that leave dead nests behind
        Pass("distribute_sequential_loops", distribute_sequential_loops),  # after inlining, which leaves fewer nests
        Pass("scatter_to_gather", scatter_to_gather, when=fuses),  # after `one_hot_to_gather`, which matches scatters
        Pass(  # after `one_hot_to_gather`
            "widen_scatter_accumulators",
            lambda proc: widen_scatter_accumulators(proc, is_serial=c.wants_schedule),
            when=fuses,
        ),
        Pass("fuse_epilogues", fuse_epilogues, when=fuses),  # after dead code is gone
        Pass("pad_operands", pad_operands, when=c.wants_schedule),  # before `choose_layouts`, which sees the copies
        Pass(  # of arrays left after fusion
            "choose_layouts", lambda proc: choose_layouts(proc, c, precomputes), when=fuses
        ),
        Pass(  # before nests are fused with others
            "precompute_weight_arrays", precompute_weight_arrays, when=precomputes
        ),
        Pass("hoist_parallel_loop", lambda proc: hoist_parallel_loop(proc, c), when=c.wants_schedule),
        Pass("privatize_reductions", privatize_reductions, when=c.wants_schedule),  # first stages join hoisted loops
        Pass("pad_rows", pad_rows, when=c.wants_schedule),  # after `hoist_parallel_loop`, which changes layouts
        Pass("recompute_attention", recompute_attention, when=c.wants_online_softmax),  # before weights are consumed
        Pass("online_softmax", online_softmax, when=c.wants_online_softmax),  # before loop fusion does
        Pass(  # `online_softmax` skips blocks itself
            "skip_masked_keys", skip_masked_keys, when=c.wants_schedule and not c.wants_online_softmax
        ),
        Pass("fuse_outer_loops", lambda proc: fuse_outer_loops(proc, c), when=fuses),  # strides are final
        Pass("flatten_fused_loops", flatten_fused_loops, when=c.wants_schedule),  # scheduled as one group
        Pass(  # after fusion, which knows initial stores and updates
            "merge_gather_initialization", merge_gather_initialization, when=c.wants_schedule
        ),
        Pass("precompute_indices", precompute_indices, when=c.wants_schedule),  # before loops are vectorized
        Pass("split_reductions", lambda proc: split_reductions(proc, grid_threads=c.grid_threads), when=splits),
        Pass(  # before tiles are chosen, which read both streams
            "split_streams", lambda proc: split_streams(proc, c.cpu.l2.size_bytes), when=c.wants_schedule
        ),
        Pass(
            "tensorize_products",
            lambda proc: tensorize_products(proc, c),
            when=c.wants_schedule and c.bfloat16_tiles is not None,
        ),
        Pass(  # products without tiles
            "form_pair_dots",
            lambda proc: form_pair_dots(proc, c),
            when=c.wants_schedule and (c.bfloat16_dots or c.int16_dots),
        ),
        Pass(
            "schedule", lambda proc: schedule_regions(proc, c, choose), when=c.wants_schedule,
            simple=in_regions(lambda proc: schedule_simply(proc, c)),
        ),
        Pass("hoist_invariant_nests", hoist_invariant_nests, when=c.wants_schedule),  # packing copies, for example
        Pass("precompute_packed_weights", precompute_packed_weights, when=precomputes),
        Pass("eliminate_common_subexpressions", eliminate_common_subexpressions, when=fuses),  # of scheduled statements
        Pass(  # vectors are chosen
            "prefetch",
            lambda proc: prefetch(proc, threshold, min_prefetched_bytes),
            when=c.wants_schedule,
        ),
        Pass(  # after `prefetch`, which prefetches rows that are read in several loops
            "prefetch_streams", lambda proc: prefetch_streams(proc, c.cpu), when=c.wants_schedule
        ),
        Pass("use_nontemporal_stores", lambda proc: use_nontemporal_stores(proc, threshold), when=c.wants_schedule),
        Pass("fuse_parallel_loops", fuse_parallel_loops, when=c.wants_schedule),  # last to see single nests
        Pass("parallelize", parallelize, when=c.wants_schedule),  # before `insert_polls`, which splits loops
        Pass(
            "privatize_copies", lambda proc: privatize_copies(proc, private_bytes),
            when=c.wants_schedule and c.private_arrays,
        ),
        Pass("insert_polls", insert_polls, when=c.wants_schedule),
        Pass(  # after all passes that introduce operations
            "compose_operations",
            lambda proc: compose_operations(proc, c),
            when=not c.operations >= COMPOSITIONS.keys(),
            plain=lambda proc: compose_operations(proc, c),
        ),
        Pass(  # last: lifetimes are final
            "allocate_memory",
            lambda proc: allocate_memory(proc, c.alignment_bytes),
            plain=lambda proc: allocate_separately(proc, c.alignment_bytes),
        ),
    )
    return tuple([step if step.name in WHOLE_PROGRAM_PASSES else step.in_regions() for step in steps])


def schedule_regions(proc: Proc, capabilities: Capabilities, choose: PlanSelector) -> Proc:
    """Schedules each region, with selected plans if the program consists of one, besides that of its weights."""
    sources = copied_weights(proc) if capabilities.wants_precomputed_weights else None
    regions = [stmt for stmt in proc.body if region_body(stmt) is not None]
    selects = all(writes_precomputed_arrays(stmt) for stmt in regions)

    def run(part: Proc) -> Proc:
        is_selected = selects and not any(map(writes_precomputed_arrays, part.body))
        return schedule(part, capabilities, choose(part) if is_selected else MODEL_CHOICES, sources)

    return in_regions(run)(proc)


def stage_after(pass_name: str) -> Stage:
    """Returns the stage of the verifier that a program has reached after a pass."""
    return "placed" if pass_name == "allocate_memory" else "optimized"


def optimize(
    proc: Proc,
    keep_reasons: Mapping[TNode, str],
    capabilities: Capabilities,
    on_stage: Callable[[str, Proc], None] | None = None,
    without: frozenset[str] = frozenset(),
    choose: PlanSelector = use_cost_model,
    plain: frozenset[str] = frozenset(),
) -> Proc:
    """Runs the passes on a lowered program. Kept nodes get the same values, up to rounding.

    `keep_reasons` maps every node that is read after the program to the reason why it is kept; `on_stage` receives the
    program after each pass; passes named in `without` are skipped, those in `plain` run in the simple form if there is
    one that `plain` does not name as well, otherwise in their plain form; `choose` may override plans of the cost
    model.

    Raises ValueError if `without` or `plain` names an unknown pass.
    """
    pipeline = passes(keep_reasons, capabilities, choose)
    names = [name for step in pipeline for name in step.replaceable_forms]
    unknown = sorted((without | plain).difference(names))
    if unknown:
        raise ValueError(f"unknown pass {', '.join(unknown)}; there are {', '.join(names)}")
    for step in pipeline:
        if step.when and step.name not in without:
            proc = step.form(plain)(proc)
            if on_stage is not None:
                on_stage(step.name, proc)
    return proc


def schedule_and_finish(proc: Proc, capabilities: Capabilities, choices: PlanChoices) -> Proc:
    """Runs `schedule` with the given plans, and all passes after it. Weights are packed in each call."""
    pipeline = passes({}, replace(capabilities, wants_precomputed_weights=False), lambda proc: choices)
    first = [step.name for step in pipeline].index("schedule")
    for step in pipeline[first:]:
        if step.when:
            proc = step.run(proc)
    return proc
