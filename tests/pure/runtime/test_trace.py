"""What calls log: values, cell by cell; and what compiling, binding and moving log."""

import logging
import re

import numpy as np
import pytest

import ocannl as oc
from ocannl.runtime import compile_cache


@pytest.fixture(params=["inline", "threaded"])
def context(ctx, request):
    with oc.Context(ctx.backend.name, queue=request.param) as result:
        yield result


@pytest.fixture
def messages(caplog):
    """Those of a logger, so far."""
    caplog.set_level(logging.DEBUG, "ocannl")
    return lambda name: [r.getMessage() for r in caplog.records if r.name == f"ocannl.{name}"]


def added(context, lines=100):
    """c = a + b."""
    oc.reset_ids()
    a, b = oc.placeholder("a", o=[2]), oc.placeholder("b", o=[2])
    c = (a + b).with_label("c")
    context[a], context[b] = [1, 2], [10, 0.5]
    with oc.settings(trace=lines):
        return c, context.compile(c.forward, name="add")


def test_each_written_cell_is_logged(context, messages):
    c, run = added(context)
    run()
    lines = messages("trace")
    assert lines[0] == "routine add()"
    assert [line.split("   ") for line in lines[1:]] == [
        ["c[o0] = a[o0] + b[o0]", "c[0]: nan -> 11.0", "a[0] = 1.0, b[0] = 10.0"],
        ["c[o0] = a[o0] + b[o0]", "c[1]: nan -> 2.5", "a[1] = 2.0, b[1] = 0.5"],
    ]
    assert context[c].tolist() == [11, 2.5]
    run()
    assert messages("trace")[4].split("   ")[1] == "c[0]: 11.0 -> 11.0"


def test_trace_of_sums_and_temporaries(context, messages):
    x = oc.placeholder("x", o=[3])
    h = (x * 2).with_label("h")
    y = h.sum().with_label("y")
    context[x] = [1, 2, 3]
    with oc.settings(trace=100):
        run = context.compile(y.forward)
    run()
    text = "\n".join(messages("trace"))
    assert [re.search(rf"h\[{n}\]: nan -> (\S+)", text)[1] for n in range(3)] == ["2.0", "4.0", "6.0"]
    assert re.findall(r"y: (\S+ -> \S+)", text) == ["nan -> 0.0", "0.0 -> 2.0", "2.0 -> 6.0", "6.0 -> 12.0"]
    assert context[y] == 12


def test_symbols_and_merge_buffers(context, messages):
    n = oc.symbol("n", 0, 3)
    x, rows = oc.placeholder("x", o=[2]), oc.tensor(np.arange(6, dtype="float32").reshape(3, 2), batch_axes=1)
    with oc.cd("fold") as code:
        x += x.merge * rows[n]
    context[x] = [1, 2]
    oc.transfer(x, src=context, dst=context)()
    with oc.settings(trace=100):
        run = context.compile(code)
    run(n=2)
    lines = messages("trace")
    assert lines[0] == "routine fold(n=2)"
    assert "x[1]: 2.0 -> 12.0" in lines[-1] and "= 2.0" in lines[-1]
    assert context[x].tolist() == [5, 12]


def test_lines_are_limited(ctx, messages):
    x = oc.placeholder("x", o=[1000, 1000])
    y = (x * 2).with_label("y")
    ctx[x] = 1
    with oc.settings(trace=3):
        run = ctx.compile(y.forward, name="large")
    run()
    lines = messages("trace")
    assert len(lines) == 5
    assert lines[-1].startswith("large: 3 of at most 1000000 cells written are shown")
    assert (ctx[y] == 2).all()


def test_limit_equal_to_number_of_cells(ctx, messages):
    _, run = added(ctx, lines=2)
    run()
    assert len(messages("trace")) == 3


def test_tracing_is_off_by_default(ctx, messages):
    _, run = added(ctx, lines=0)
    run()
    assert not messages("trace")


def test_silenced_logger_skips_interpretation(ctx, messages, monkeypatch):
    c, run = added(ctx)
    logging.getLogger("ocannl.trace").setLevel(logging.INFO)
    monkeypatch.setattr("ocannl.runtime.trace.interpret", None)
    run()
    assert not messages("trace") and ctx[c].tolist() == [11, 2.5]


def test_rejected_call_is_not_traced(ctx, messages):
    x = oc.placeholder("x", o=[2])
    with oc.settings(trace=9):
        run = ctx.compile((x * 2).forward)
    with pytest.raises(oc.UninitializedError):
        run()
    assert not messages("trace")


# --- the other loggers ------------------------------------------------------------------------------------------------


def test_compilation_logs_times_and_cache_hits(messages):
    def compile():
        with oc.Context("llvm") as ctx:
            x = oc.placeholder("x", o=[2])
            ctx.compile((x * 2).forward, name="twice")

    compile()
    compile()
    compile_cache.clear()
    compile()
    with oc.settings(cache=False):
        compile_cache.clear()
        compile()
    records = messages("runtime.compile")
    assert len(records) == 2 and all(
        re.fullmatch(r"compiled `twice` for llvm in \d+\.\d ms: lower \d+\.\d, verify .*, llvm \d+\.\d", m)
        for m in records
    )
    expected = [
        "has to be compiled: it is new to this process, and is not on disk",
        "was compiled by this process before",
        "is on disk",
        "has to be compiled: it is new to this process, and may not be on disk: the setting `cache` is off",
    ]
    for message, says in zip(messages("runtime.compile_cache"), expected, strict=True):
        assert message.startswith(f"`twice` for llvm {says}")


def test_bindings_and_copies_are_logged(context, messages):
    x = oc.placeholder("x", o=[2])
    context[x] = 1
    context[x]
    context.compile((x * 2).forward, name="twice")
    oc.transfer(x, src=context, dst=context)()
    name = context.backend.name
    assert messages("runtime.arrays") == ["`x` to the device, 8 bytes", "`x` from the device, 8 bytes"]
    assert messages("runtime.context") == [f"`twice` is bound to 2 arrays on {name}:0 and to 0 bytes of scratch memory"]
    (moved,) = messages("runtime.transfer")
    assert moved.startswith(f"transfer of x from <context on {name}:0> into merge buffer of")


def test_stages_and_source_of_cached_code(ctx):
    def routine(context):
        oc.reset_ids()
        h = (oc.placeholder("x", o=[3]) * 2).with_label("h")
        return context.compile(oc.sqrt(h).with_label("y").forward)

    first = routine(ctx)
    stages, source = first.stages(), first.source()
    for forget in (lambda: None, compile_cache.clear):
        forget()
        with oc.Context(ctx.backend.name) as second:
            again = routine(second)
            assert (again.stages(), again.source()) == (stages, source)
            assert str(again.stages()) == str(stages)


def test_stages_are_printable(ctx):
    x = oc.placeholder("x", o=[3])
    stages = ctx.compile(oc.sqrt(x * 2).with_label("y").forward).stages()
    text = str(stages)
    assert [line.split(":")[0][4:] for line in text.splitlines() if line.startswith("--- ")] == list(stages)
    assert text.startswith("--- lower\nproc y_forward\n")
    assert text.count("proc y_forward") == len(set(stages.values()))
    assert "--- merge_initialization: nothing changes\n" in text
