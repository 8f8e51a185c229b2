"""Faults inside passes, in programs that the passes change: the routine is correct, and a file reproduces the fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.cli.replay import failures_of
from ocannl.ir.affine import Sym
from ocannl.ir.loops import Buf, Comment, Ref
from ocannl.opt.idioms import (
    blocked_scatter,
    frequent_cells,
    merge_gather_initialization,
    precompute_indices,
    widen_scatter_accumulators,
)
from ocannl.opt.parallel import distribute_sequential_loops
from ocannl.opt.schedule.loop_generation import blocking, panels, tiled_loops
from ocannl.opt.simplify import split_live_ranges
from ocannl.runtime import reproducer

from .corruptions import drop_stores
from .programs import reproducer_of, seed, usable

pytestmark = pytest.mark.skipif(not usable("llvm"), reason="`llvm` is not usable here")
Case = tuple[Any, list[oc.Tensor]]
"""Code, and the tensors that it computes."""
Program = Callable[[np.random.Generator], Case]


def product(random: np.random.Generator) -> Case:
    a, b = (oc.tensor(random.normal(size=size).astype("float32")) for size in ((514, 3000), (3000, 517)))
    y = oc.einsum("i, k; k, j => i, j", a, b)
    return y.forward, [y]


def _step(loss: oc.Tensor) -> Case:
    return oc.seq(train.grad_update(loss), train.sgd(loss, 0.1)), [loss, *loss.params.values()]


def embedding(random: np.random.Generator) -> Case:
    table = oc.param("table", random.normal(size=(500, 8)), o=[500, 8])
    return _step((table.take(oc.tensor(random.integers(-3, 503, 300).astype("int32"), batch_axes=1)) ** 2).sum())


def small_table(random: np.random.Generator) -> Case:
    table = oc.param("table", random.normal(size=(16, 4)).astype("float32"), o=[16, 4])
    return _step((table.take(oc.tensor(random.integers(0, 16, 100_000).astype("int32"), batch_axes=1)) ** 2).mean())


def counts(random: np.random.Generator) -> Case:
    x = oc.tensor(random.uniform(0, 99, 6000).astype("float32"))
    y = oc.histogram(oc.sin(x), 50, (-1.0, 1.0))
    return y.forward, [y]


def recurrence(random: np.random.Generator) -> Case:
    xs = oc.tensor(random.normal(size=(12, 4, 9)).astype("float32"), batch_axes=2)
    w, u = oc.param("w", random.normal(size=(7, 9))), oc.param("u", random.normal(size=(7, 7)) / 4)

    def step(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        h = oc.tanh(oc.einsum("o,i; ...|i => ...|o", w, x) + oc.einsum("o,i; ...|i => ...|o", u, h))
        return h, h

    return _step((oc.scan(step, oc.full(0.0, b=[4], o=[7]), xs)[1] ** 2).mean())


def _segments(random: np.random.Generator, count: int, width: int) -> Case:
    """Sums of a few long segments among many short ones."""
    ids = np.where(np.arange(3000) % 2, 7, random.integers(0, count, 3000)).astype("int32")
    y = oc.segment_sum(oc.tensor(random.normal(size=(3000, width)).astype("float32")), oc.tensor(ids), count)
    return y.forward, [y]


def segments(random: np.random.Generator) -> Case:
    return _segments(random, 5000, 3)


def sketched_segments(random: np.random.Generator) -> Case:
    return _segments(random, 70_000, 2)


def long_segments(random: np.random.Generator) -> Case:
    return _segments(random, 9, 300)


@dataclass(frozen=True)
class Fault:
    """A function of a pass that computes something else."""

    pass_name: str
    program: Program
    owner: Any
    name: str
    changed: Callable[[Callable[..., Any]], Callable[..., Any]]


def _shifted(ref: Ref, axis: int) -> Ref:
    return Ref(ref.buf, tuple([index + (n == axis) for n, index in enumerate(ref.indices)]))


def _shortened(sym: Sym) -> Sym:
    return Sym(sym.name, sym.lo, sym.hi - 1)


def _smaller(local_buffer: Callable[..., Any]) -> Callable[..., Any]:
    return lambda name, kind, shape: local_buffer(name, kind, (max(1, shape[0] - 1), *shape[1:]))


def _with_smaller_buckets(buckets: Buf, *arguments: Any) -> tuple[Any, ...]:
    """The table of a sketch that is shorter than its references."""
    return (replace(buckets, shape=(buckets.shape[0] - 1,)), *arguments)


def _without_filling(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Leaves out the initial values of one kind of temporary of a scatter."""
    return lambda filled: lambda names, buf, *arguments: (
        Comment("nothing") if buf.name.endswith(f"_{name}") else filled(names, buf, *arguments)
    )


def _failing(*arguments: Any) -> Any:
    raise KeyError("seeded")


FAULTS = {
    "panels are read one term late": Fault(
        "schedule", product, panels.Panel, "cell",
        lambda cell: lambda panel, *arguments: _shifted(cell(panel, *arguments), len(panel.counters)),
    ),
    "panels are too small": Fault("schedule", product, panels, "local_buffer", _smaller),
    "panels are not filled": Fault("schedule", product, tiled_loops._TileBuilder, "fill", lambda fill: lambda *_: ()),
    "copies have no plan": Fault("schedule", product, tiled_loops, "copy_plan", lambda plan: _failing),
    "partial sums are stored elsewhere": Fault(
        "schedule", product, blocking, "_partial_sums",
        lambda sums: lambda *arguments: (_shifted((result := sums(*arguments))[0], 0), result[1]),
    ),
    "initial values are stored beyond the table": Fault(
        "merge_gather_initialization", embedding, merge_gather_initialization, "loop",
        lambda loop: lambda sym, *arguments: loop(Sym(sym.name, sym.lo, sym.hi + 1), *arguments),
    ),
    "initial values are not stored": Fault(
        "merge_gather_initialization", embedding, merge_gather_initialization._GatherStores, "filled",
        lambda filled: lambda *_: (),
    ),
    "there are too few indices": Fault("precompute_indices", counts, precompute_indices, "local_buffer", _smaller),
    "indices are not stored": Fault(
        "precompute_indices", counts, precompute_indices, "Store", lambda store: lambda *_: Comment("nothing")
    ),
    "terms of a scatter are not converted": Fault(
        "widen_scatter_accumulators", small_table, widen_scatter_accumulators, "_widened",
        lambda widened: lambda update, wide: replace(update, ref=Ref(wide, update.ref.indices)),
    ),
    "terms are counted without initial counts": Fault(
        "widen_scatter_accumulators", segments, frequent_cells, "filled", _without_filling("counts")
    ),
    "there are more slots than accumulators": Fault(
        "widen_scatter_accumulators", segments, frequent_cells._Builder, "slot_symbol",
        lambda symbol: lambda *arguments: Sym((sym := symbol(*arguments)).name, sym.lo, sym.hi + 1, sym.kind),
    ),
    "ranks of terms are read elsewhere": Fault(
        "widen_scatter_accumulators", segments, frequent_cells._Builder, "rank",
        lambda rank: property(lambda builder: _shifted(rank.fget(builder), 0)),
    ),
    "hashes exceed the buckets": Fault(
        "widen_scatter_accumulators", sketched_segments, frequent_cells._Builder, "sketch",
        lambda sketch: lambda builder: _with_smaller_buckets(*sketch(builder)),
    ),
    "the rows of slots are not initialized": Fault(
        "widen_scatter_accumulators", sketched_segments, frequent_cells, "filled", _without_filling("rows")
    ),
    "blocks of a scatter are not initialized": Fault(
        "widen_scatter_accumulators", long_segments, blocked_scatter, "filled", _without_filling("block")
    ),
    "terms are counted elsewhere": Fault(
        "widen_scatter_accumulators", long_segments, blocked_scatter.RowScatter, "key",
        lambda key: lambda *arguments: key(*arguments) + 1,
    ),
    "arrays of steps are too short": Fault(
        "distribute_sequential_loops", recurrence, distribute_sequential_loops, "_expand",
        lambda expand: lambda buf, sym: expand(buf, _shortened(sym)),
    ),
    "parts of arrays count as overwritten": Fault(
        "split_live_ranges", recurrence, split_live_ranges, "privatizable_buffers",
        lambda _: lambda stmts: {
            buf for stmt in stmts for bufs in split_live_ranges.accessed_buffers(stmt) for buf in bufs
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("pass_name", ["simplify", "merge_initialization", "eliminate_equal_arrays", "fuse_epilogues"])
def test_a_result_that_is_lost_is_noticed_although_later_passes_drop_its_array(
    pass_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _values("numpy", counts)
    seed(monkeypatch, pass_name, drop_stores)
    with pytest.warns(oc.DefectWarning, match=f"the compiler pass `{pass_name}` failed"):
        values = _values("llvm", counts)
    np.testing.assert_array_equal(values[0], expected[0])


def _values(backend: str, program: Program) -> list[np.ndarray[Any, Any]]:
    code, results = program(np.random.default_rng(0))
    with oc.Context(backend, threads=2) as ctx:
        ctx.init(results[0])
        ctx.compile(code, keep=results)()
        return [ctx[t] for t in results]


@pytest.mark.parametrize("title", FAULTS)
def test_routine_is_correct_and_fault_is_reproduced(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[title]
    expected = _values("numpy", fault.program)
    with monkeypatch.context() as patch:
        patch.setattr(fault.owner, fault.name, fault.changed(getattr(fault.owner, fault.name)))
        with pytest.warns(oc.DefectWarning, match=f"the compiler pass `{fault.pass_name}` failed") as caught:
            values = _values("llvm", fault.program)
        case = reproducer.read(reproducer_of(str(caught[0].message)))
        assert fault.pass_name in [failure.pass_name for failure in failures_of(case)]
    assert failures_of(case) == ()
    for value, wanted in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=2e-4, atol=2e-4)
