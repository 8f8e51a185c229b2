"""Routines nest by nest: the same results, a row for each nest, and nothing left behind."""

import json

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.loops import MemorySpace, ReadClock
from ocannl.ir.walk import walk
from ocannl.runtime import compile_cache
from ocannl.runtime.profile import _Clock, partition
from ocannl.runtime.program import links

QUEUES = ["inline", "threaded"]


@pytest.fixture(params=QUEUES)
def context(ctx, request):
    with oc.Context(ctx.backend.name, queue=request.param) as result:
        yield result


def training():
    """A step with temporaries, gradients and state: the loss, its code and what to look at."""
    oc.reset_ids()
    rng = np.random.default_rng(0)
    x = oc.tensor(rng.normal(size=(8, 5)).astype("float32"), batch_axes=1, label="x")
    t = oc.tensor(rng.normal(size=(8, 2)).astype("float32"), batch_axes=1, label="t")
    w, v = oc.param("w", o=[6]), oc.param("v", o=[2])
    y = (v @ oc.relu((w @ x).with_label("h"))).with_label("y")
    loss = ((y - t) ** 2).sum().with_label("loss")
    return loss, oc.seq(train.grad_update(loss), train.sgd(loss, 0.01, momentum=0.9))


def compiled(context, name="step"):
    loss, code = training()
    context.init(loss)
    return loss, context.compile(code, name=name)


def contents(context, routine):
    return [context.get(node) for node in routine.outputs]


def test_a_row_for_each_nest(context):
    _, step = compiled(context)
    step()
    profile = step.profile(calls=3)
    assert (profile.routine, profile.backend, profile.calls) == ("step", context.backend.name, 3)
    names = [name for row in profile.rows for name in row.name.split(", ")]
    assert names.index("h") < names.index("loss") < names.index("w")  # whose gradient may be a part of it
    assert {row.heading.split(" / ")[0] for row in profile.rows} == {"loss grad update", "loss sgd update", "sgd_one"}
    for n, row in enumerate(profile.rows):
        took = [span.duration_ns for span in profile.spans if span.row == n]
        assert row.calls == len(took) == 3
        assert (row.min_ns, row.total_ns) == (min(took), sum(took))
        assert row.min_ns <= row.median_ns <= max(took)
        assert row.written_bytes > 0
    assert profile.nests_ns == sum(row.median_ns for row in profile.rows)


def test_long_loops_have_a_row_for_each_part():
    """The loop is divided into strips, for polls; its parts have timestamps in each iteration."""
    context = oc.Context("llvm")
    x = oc.placeholder("x", output=[20_000, 40])
    context[x] = np.ones((20_000, 40), "float32")
    routine = context.compile(oc.cumsum(x, "ij => j").forward)
    assert "i_block_part" in str(routine.stages()["insert_polls"])
    routine()
    rows = [row for row in routine.profile(calls=3).rows if "within" in row.name]
    assert len(rows) >= 2 and all(0 <= row.min_ns < 10**9 for row in rows)
    assert sum(row.written_bytes for row in rows) > 20_000 * 40 * 4


def test_profile_restores_arrays(context):
    _, step = compiled(context)
    step()
    before = contents(context, step)
    step.profile(calls=2)
    for old, new in zip(before, contents(context, step), strict=True):
        np.testing.assert_array_equal(old, new)
    step()
    after = contents(context, step)

    with oc.Context(context.backend.name) as second_context:
        _, plain = compiled(second_context)
        plain()
        plain()
        for actual, expected in zip(after, contents(second_context, plain), strict=True):
            np.testing.assert_array_equal(actual, expected)


def test_interrupted_profile_restores_arrays(context, monkeypatch):
    _, step = compiled(context)
    step()
    before, calls = contents(context, step), []
    time = _Clock.time

    def interrupted(clock, run):
        calls.append(run)
        if len(calls) == 40:
            raise KeyboardInterrupt
        return time(clock, run)

    monkeypatch.setattr(_Clock, "time", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step.profile(calls=2)
    for old, new in zip(before, contents(context, step), strict=True):
        np.testing.assert_array_equal(old, new)


def test_profile_before_the_first_call_leaves_outputs_uninitialized(ctx):
    loss, step = compiled(ctx)
    assert step.profile(calls=1).rows
    assert loss not in ctx
    with pytest.raises(oc.UninitializedError):
        ctx[loss]


def test_partitioned_nests_compute_the_routine(ctx):
    _, step = compiled(ctx)
    pieces = partition(step._program.rebuild())
    assert len({piece.proc.name for piece in pieces}) == len(pieces) > 5
    assert ctx.backend.name == "numpy" or any(buf.space is MemorySpace.ARENA for p in pieces for buf in p.proc.bufs)
    inputs = {node: ctx.get(node) for node in step.inputs}
    step()
    wanted = contents(ctx, step)
    for node, array in inputs.items():
        ctx.set(node, array)
    code = ctx.backend.compile([piece.proc for piece in pieces])
    for piece in pieces:
        entry, _ = ctx.bind(code, piece.proc.name, links(piece.proc), piece.proc.arena)
        entry()
    for left, second_context in zip(wanted, contents(ctx, step), strict=True):
        np.testing.assert_array_equal(left, second_context)


def test_nests_without_timestamps_have_a_single_row(ctx):
    _, step = compiled(ctx)
    proc = step._program.rebuild()
    nests, parts = partition(proc, with_timestamps=False), partition(proc)
    assert [piece.proc.name for piece in nests] == [piece.proc.name for piece in parts]
    assert all(len(piece.members) == 1 and piece.timestamps is None for piece in nests)
    assert not any(isinstance(node, ReadClock) for piece in nests for node in walk(piece.proc.body))


def test_profile_of_cached_code(ctx):
    _, first = compiled(ctx)
    first()
    rows = first.profile(calls=1).rows
    compile_cache.clear()  # what is on disk stays
    with oc.Context(ctx.backend.name) as second_context:
        _, again = compiled(second_context)
        again()
        assert [(r.name, r.heading, r.read_bytes) for r in again.profile(calls=1).rows] == [
            (r.name, r.heading, r.read_bytes) for r in rows
        ]


def test_symbols_are_passed_as_in_a_call(context):
    n = oc.symbol("n", 0, 3)
    row = (oc.tensor(np.eye(3, dtype="float32"), batch_axes=1, label="rows")[n] * 2).with_label("row")
    look = context.compile(row.forward)
    profile = look.profile(calls=2, n=1)
    assert [(r.name, r.written_bytes) for r in profile.rows][-1] == ("row", 12)
    with pytest.raises(oc.CodeError, match="needs the symbol `n`"):
        look.profile()
    with pytest.raises(oc.DataError, match="0 <= n < 3"):
        look.profile(n=3)


def test_node_kept_after_compilation(ctx):
    x = oc.placeholder("x", o=[2])
    h = (x * 3).with_label("h")
    y = oc.sqrt(h).with_label("y")
    ctx[x] = 3
    step = ctx.compile(y.forward)
    ctx.run(h.forward)
    oc.keep(h)
    ctx[x] = 12
    assert "h" in step.profile(calls=1).rows[0].name.split(", ")
    assert ctx[h].tolist() == [9, 9] and y not in ctx


@pytest.mark.parametrize("calls", [0, -1, 1.5, True, "10"])
def test_calls_must_be_positive(ctx, calls):
    _, step = compiled(ctx)
    with pytest.raises(oc.CodeError, match="must be at least 1"):
        step.profile(calls=calls)


def test_profile_requires_initialized_inputs(ctx):
    x = oc.placeholder("x", o=[2])
    double = ctx.compile((x * 2).forward)
    with pytest.raises(oc.UninitializedError, match="`x`"):
        double.profile()


def test_empty_code_has_no_rows(ctx):
    profile = ctx.compile(oc.seq(), name="idle").profile()
    assert profile.rows == () and "idle" in str(profile)


def test_table_is_aligned_and_names_are_single_line(ctx):
    x = oc.placeholder("x\n\x1b[31m", o=[2])
    ctx[x] = 1
    with oc.cd("under\na \x00 heading") as code:
        x *= 2
    lines = str(ctx.compile(code, name="many").profile(calls=1)).splitlines()
    assert len(lines) == 3
    assert len({len(line) for line in lines[1:]}) == 1
    assert lines[1].split()[:2] == ["nest", "under"] and lines[2].startswith("x [31m  under a heading")


def test_chrome_trace_format(ctx, tmp_path):
    label = 'h"</script>\n\\ \u2028'
    x = oc.placeholder(label, o=[2])
    ctx[x] = 1
    with oc.cd("twice") as code:
        x *= 2
    profile = ctx.compile(code, name="twice").profile(calls=4)
    file = tmp_path / "trace.json"
    profile.chrome_trace(file)
    events = json.loads(file.read_text("utf-8"))["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    assert len(complete) == 4 and {event["ph"] for event in events} == {"X", "M"}
    assert all(isinstance(event[key], int | float) for event in complete for key in ("ts", "dur", "pid", "tid"))
    assert [event["ts"] for event in complete] == sorted(event["ts"] for event in complete)
    assert {event["name"] for event in complete} == {profile.rows[0].name}
    assert complete[0]["args"] == {"nest": 0, "read_bytes": 8, "written_bytes": 8}
