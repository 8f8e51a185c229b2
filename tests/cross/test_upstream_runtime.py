"""What upstream's tests say of transfers, contexts, names, generated code and settings: each case is run here, or what
happens instead, with the reason.

A case is called as upstream's list calls it.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from upstream import Cases

import ocannl as oc
from ocannl import train
from ocannl.base import config
from ocannl.base.config import SETTINGS, ConfigSetting
from ocannl.runtime.slabs import pack

AREAS = {
    "MB": "01 03 05",
    "SH": "01 02",
    "CX": "01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17",
    "CG": "01 02",
    "CF": "01 02 03",
    "NM": "01 02 03 04 05 06 07 08",
}

PLANNED = "where arrays lie is the business of the runtime: those linked together share a slab, each one aligned"
LABELS = "a label is one text, not a list to collapse: names in programs are labels made identifiers, counted up"

OVERRIDDEN = {
    "MB-05": "there is a merge buffer for each node and context, so a routine may read several",
    "SH-02": "no call cuts tensors up: that is an expression, which can cut along any axis, and is refused as such",
    "CX-10": "a slice is a view inside of a routine; asked for, it is a tensor of its own like any other",
    "CX-13": PLANNED,
    "CX-14": PLANNED,
    "CX-15": PLANNED,
    "CX-16": PLANNED,
    "CX-17": "a merge buffer has the size of its node and never grows",
    "CF-03": "an unknown setting is an error as well, with a suggestion",
    "NM-01": LABELS,
    "NM-02": LABELS,
    "NM-03": LABELS,
    "NM-04": "what has no label is called after what made it; numbers tell apart what is called the same",
    "NM-05": LABELS,
    "NM-06": LABELS,
}

case = Cases(AREAS, OVERRIDDEN)


@pytest.fixture
def second(backend):
    with oc.Context(backend, device=1) as file_name:
        yield file_name


def data(*rows: Any, label: str = "x") -> oc.Tensor:
    """Rows of cells under one batch axis, or a vector."""
    array = np.array(rows, "float32")
    return oc.tensor(array, batch_axes=array.ndim - 1, label=label)


# --- merge buffers and shards -----------------------------------------------------------------------------------------


@case("MB-01")
def test_a_transfer_is_a_routine_that_moves_nothing_before_it_runs(ctx, second):
    b = oc.placeholder("b", o=[2])
    ctx[b] = [3, 4]
    copy = oc.transfer(b, src=ctx, dst=second, into="node")
    assert copy.inputs == copy.outputs == (b.value,) and b not in second
    copy()
    assert second[b].tolist() == [3, 4]


@case("MB-03")
def test_what_reads_a_merge_buffer_gets_what_was_transferred(ctx, second):
    b = oc.placeholder("b", o=[2])
    ctx[b], second[b] = [3, 4], [9, 9]
    copy = oc.transfer(b, src=ctx, dst=second)
    with oc.cd("take") as code:
        b[...] = b.merge
    take = second.compile(code)
    copy()
    assert second[b].tolist() == [9, 9]
    take()
    assert second[b].tolist() == [3, 4]


@case("MB-05")
def test_a_routine_reads_several_merge_buffers(ctx, second):
    a, b = oc.placeholder("a", o=[2]), oc.placeholder("b", o=[2])
    for node, first_value, second_value in ((a, 1, 10), (b, 2, 20)):
        ctx[node], second[node] = first_value, second_value
        oc.transfer(node, src=ctx, dst=second)()
    with oc.cd("both") as code:
        a += b.merge
        b += a.merge
    second.run(code)
    assert second[a].tolist() == [12, 12] and second[b].tolist() == [21, 21]


@case("SH-01")
def test_shards_go_out_and_come_back(backend, ctx):
    n = oc.symbol("n", 0, 3)
    x = oc.tensor(np.arange(6, dtype="float32"), label="x")
    shards = oc.einsum("(a b) => a|b", x, a=3).with_label("shards")
    part, gathered = oc.placeholder("part", o=[2]), oc.placeholder("whole", b=[3], o=[2])
    with oc.cd("scatter") as scatter:
        shards.forward()
        part[...] = shards[n]
    with oc.cd("gather") as gather:
        gathered[n]["=:"] = part.merge
    ctx[gathered] = -1
    contexts = [oc.Context(backend, device=1 + k) for k in range(3)]
    for k, context in enumerate(contexts):
        context.run(scatter, n=k)
        oc.transfer(part, src=context, dst=ctx)()
        ctx.run(gather, n=k)
    assert [context[part].tolist() for context in contexts] == [[0, 1], [2, 3], [4, 5]]
    assert ctx[gathered].reshape(-1).tolist() == [0, 1, 2, 3, 4, 5]


@case("SH-02")
@pytest.mark.parametrize("parts", [0, 4])
def test_what_cannot_be_cut_evenly_is_refused(parts):
    with pytest.raises(oc.ShapeError, match=f"make {parts} \\* \\?"):
        oc.einsum("(a b) => a|b", oc.placeholder("x", o=[6]), a=parts).shape.__str__()


@case("SH-02")
def test_any_axis_can_be_cut(ctx):
    x = oc.tensor(np.arange(12, dtype="float32").reshape(2, 6))
    shards = oc.einsum("c, (a b) => a|c, b", x, a=3)
    assert shards.numpy(ctx)[1].tolist() == [[2, 3], [8, 9]]


# --- contexts ---------------------------------------------------------------------------------------------------------


def regression() -> tuple[oc.Tensor, Any, Any]:
    """A loss, the code of its gradients, and the code that uses them."""
    loss = ((oc.param("w", 0.5, o=[1]) * data(1, 2, 3, 4) - data(2, 4, 6, 8, label="y")) ** 2).sum().with_label("loss")
    return loss, train.grad_update(loss), train.sgd(loss, 0.01)


@case("CX-01", "CX-03", "CX-04")
def test_an_update_waits_for_gradients(ctx):
    loss, grads, update = regression()
    ctx.init(loss)
    grad, sgd = ctx.compile(grads), ctx.compile(update)
    slope = loss.params["w"].grad.value
    assert slope in sgd.inputs and slope in grad.outputs
    with pytest.raises(oc.UninitializedError, match=r"reads uninitialized nodes: `w\.grad`"):
        sgd()
    assert ctx[loss.params["w"]].item() == 0.5
    grad()
    assert ctx[loss].item() == 67.5
    sgd()
    grad()
    assert ctx[loss].item() < 67.5


@case("CX-02")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_siblings_run_in_either_order(ctx, order):
    x = oc.placeholder("x", o=[2])
    ctx[x] = [1, 2]
    results = [(x + 1).with_label("one"), (x * 2).with_label("two")]
    routines = [ctx.compile(t.forward) for t in results]
    for n in order:
        routines[n]()
    assert [ctx[t].tolist() for t in results] == [[2, 3], [2, 4]]


@case("CX-05")
def test_a_literal_is_the_same_in_every_context(ctx, second):
    t = oc.tensor(list(range(20)), label="t")
    doubled = t + t
    for context in (ctx, second):
        context.run(doubled.forward)
        assert context[t].tolist() == list(range(20)) and context[doubled].tolist() == list(range(0, 40, 2))


@case("CX-06")
def test_values_go_in_and_come_out(ctx):
    x = oc.placeholder("x", o=[2, 3])
    ctx[x] = np.arange(6).reshape(2, 3)
    values = ctx[x]
    values[1, 1] = 40
    assert ctx[x][1, 1] == 4  # a copy
    ctx[x] = values
    assert ctx[x].tolist() == [[0, 1, 2], [3, 40, 5]]


@case("CX-07")
def test_a_range_has_its_values_before_anything_runs(ctx):
    assert ctx[oc.arange(4)].tolist() == [0, 1, 2, 3]


@case("CX-08")
def test_constants_are_uploaded_when_code_is_linked(ctx):
    out = oc.tensor([1.0, 2.0, 3.0], label="constant") + 1
    ctx.compile(out.forward)()
    assert ctx[out].tolist() == [2, 3, 4]


@case("CX-09", "CX-12")
@pytest.mark.parametrize("location", [None, oc.keep, oc.virtual])
def test_a_slice_reads_its_parent_wherever_that_is(ctx, location):
    b = oc.symbol("b", 0, 2)
    parent = data([1, 2, 3], [4, 5, 6])
    if location is not None:
        parent = (parent * 1).with_label("parent")
        location(parent)
    out = parent[b] * 2
    run = ctx.compile(out.forward)
    for n, want in enumerate(([2, 4, 6], [8, 10, 12])):
        run(b=n)
        assert ctx[out].tolist() == want


@case("CX-10")
def test_a_slice_inside_of_a_routine_has_no_array(ctx):
    b = oc.symbol("b", 0, 2)
    parent = oc.placeholder("parent", b=[2], o=[3])
    ctx[parent] = [[1, 2, 3], [4, 5, 6]]
    row = parent[b].with_label("row")
    out = row * 2
    run = ctx.compile(out.forward)
    run(b=1)
    with pytest.raises(oc.UninitializedError, match="`row` holds no value in this context: it is temporary"):
        ctx[row]
    assert "row" not in run.stages()["allocate_memory"].replace("row_", "")
    ctx.compile(out.forward, keep=[row])(b=1)
    assert ctx[row].tolist() == [4, 5, 6]


@case("CX-11")
def test_writing_a_slice_writes_its_parent(ctx):
    b = oc.symbol("b", 0, 2)
    parent = oc.placeholder("parent", b=[2], o=[3])
    ctx[parent] = [[1, 2, 3], [4, 5, 6]]
    with oc.cd("fill") as code:
        parent[b]["=:"] = 99
    ctx.run(code, b=0)
    assert ctx[parent].tolist() == [[99, 99, 99], [4, 5, 6]]


def positions(context: oc.Context, *tensors: oc.Tensor) -> list[int]:
    """Offsets of arrays that share one slab."""
    residents = [context.arrays[t.value] for t in tensors]
    assert len({id(r.slab) for r in residents}) == 1
    return [r.where.offset_bytes for r in residents]


@case("CX-13", "CX-14")
def test_arrays_that_are_linked_together_share_a_slab(backend):
    def run() -> list[int]:
        a, b = data(1, 2, label="a"), data(3, 4, label="b")
        p, q = a + b, a * b
        with oc.Context(backend) as ctx:
            ctx.compile(oc.seq(oc.forward(p, q)))()
            assert ctx[p].tolist() == [4, 6] and ctx[q].tolist() == [3, 8]
            return positions(ctx, a, b, p, q)

    first = run()
    assert sorted(first) == [64 * n for n in range(4)]
    assert run() == first


@case("CX-15", "CX-16")
@pytest.mark.parametrize(
    ("sizes", "offsets", "total"),
    [
        ([100, 100, 50], [0, 128, 256], 320),
        ([600, 600], [0, 640], 1280),
        ([5, 8], [0, 64], 128),
        ([], [], 0),
        ([2000], [0], 2048),
    ],
)
def test_arrays_follow_one_another_and_no_slab_is_too_long(sizes, offsets, total):
    assert pack(sizes, 64) == (offsets, total)


@case("CX-17")
def test_a_merge_buffer_is_made_once_and_given_back_once(backend, second):
    b = oc.placeholder("b", o=[300])
    with oc.Context(backend, device=2) as ctx:
        before = ctx.memory.device_bytes
        second[b] = 1
        for _ in range(2):
            oc.transfer(b, src=second, dst=ctx)()
            assert ctx.memory.merge_bytes == 1200
            assert ctx.memory.device_bytes - before == ctx.memory.held_bytes == 1216
    with oc.Context(backend, device=2) as again:
        assert again.memory.device_bytes == before


# --- code -------------------------------------------------------------------------------------------------------------


@case("CG-01")
def test_a_statement_is_logged_with_its_values(ctx, caplog):
    caplog.set_level(logging.DEBUG, "ocannl.trace")
    a, b = data(0, 1, label="a"), data(2, 3, label="b")
    c = (a + b).with_label("c")
    with oc.settings(trace=10):
        run = ctx.compile(c.forward)
    run()
    assert [message.split("   ") for message in caplog.messages[1:]] == [
        ["c[o0] = a[o0] + b[o0]", "c[0]: nan -> 2.0", "a[0] = 0.0, b[0] = 2.0"],
        ["c[o0] = a[o0] + b[o0]", "c[1]: nan -> 4.0", "a[1] = 1.0, b[1] = 3.0"],
    ]


@case("CG-02")
@pytest.mark.parametrize(
    ("name_argument", "file_name"), [("step", "step"), ("my step: <1>", "my_step_1"), ("2nd", "_2nd"), ("-", "routine")]
)
def test_generated_code_is_called_after_its_routine(ctx, name_argument, file_name):
    out = data(1, 2) + 1
    run = ctx.compile(out.forward, name=name_argument)
    assert run.name == file_name and re.search(rf"\b\w*{file_name}\b", run.source())


# --- names ------------------------------------------------------------------------------------------------------------


def arrays_of(routine: oc.Routine) -> list[str]:
    """The names of arrays in the lowered program."""
    return [line.split()[0] for line in routine.stages()["lower"].splitlines() if " : " in line]


@case("NM-01", "NM-02", "NM-03", "NM-05")
def test_equal_labels_are_counted_up(ctx):
    parts = [oc.placeholder(label, o=[1]) for label in ("attention", "attention", "a/b", "a b", "attention")]
    out = sum(parts[1:], parts[0]).with_label("out")
    names = arrays_of(ctx.compile(out.forward))
    assert {"attention", "attention_2", "attention_3", "a_b", "a_b_2", "out"} <= set(names)


@case("NM-04")
def test_what_has_no_label_is_called_after_what_made_it():
    pair = [oc.placeholder(o=[1]), oc.placeholder(o=[1])]
    assert [t.label for t in (*pair, pair[0] + pair[1])] == ["placeholder", "placeholder", "add"]


@case("NM-06")
def test_a_gradient_is_called_after_its_value(ctx):
    loss, grads, _ = regression()
    ctx.init(loss)
    w = loss.params["w"]
    assert w.grad.label == "w.grad"
    assert "w_grad" in arrays_of(ctx.compile(grads))


@case("NM-07")
def test_words_of_other_languages_are_names_like_any_other(ctx):
    a, b, c = (oc.placeholder(label, o=[2]) for label in ("return", "int", "exp"))
    out = oc.exp(a * b + c).with_label("double")
    ctx[a], ctx[b], ctx[c] = [1, 2], [3, 4], [-3, -7]
    ctx.compile(out.forward, name="main")()
    np.testing.assert_allclose(ctx[out], [1, np.e], rtol=1e-6)


@oc.op
def mlp(x, *, hidden):
    w = oc.param()
    return oc.relu(w @ x) + oc.param("b", 0.0, o=[hidden])


@case("NM-08")
def test_the_result_of_a_function_is_called_after_it_and_its_argument():
    assert mlp(hidden=3)(oc.placeholder("point", o=[2])).label == "mlp_point"
    assert mlp(hidden=3)(oc.tensor([1.0, 2.0], label="moons_input")).label == "mlp_moons_input"


# --- settings ---------------------------------------------------------------------------------------------------------


@case("CF-01")
def test_who_says_so_first(monkeypatch, tmp_path):
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    monkeypatch.delenv("OCANNL_SEED", raising=False)
    assert (config.SEED.get(), config.SEED.resolve().source) == (42, "default")
    (tmp_path / "ocannl.toml").write_text("seed = 1")
    assert config.SEED.get() == 1
    (below / "ocannl.toml").write_text("seed = 2")
    assert config.SEED.get() == 2
    monkeypatch.setenv("OCANNL_SEED", "3")
    assert config.SEED.get() == 3
    with oc.settings(seed=4):
        assert config.SEED.get() == 4
        assert config.SEED.get(5) == 5
    monkeypatch.setenv("OCANNL_SEED", "")
    assert config.SEED.get() == 2


@case("CF-02")
def test_every_setting_is_in_the_table_and_is_read():
    declared = {name: value for name, value in vars(config).items() if isinstance(value, ConfigSetting)}
    assert set(declared.values()) == set(SETTINGS)
    packages = Path(__file__).resolve().parents[2] / "packages"
    text = "\n".join(
        path.read_text("utf-8") for path in packages.glob("*/src/**/*.py") if path.name != "config.py"
    ) + Path(config.__file__).read_text("utf-8")
    assert not [name for name in declared if not re.search(rf"\b{name}\.(get|resolve)\(", text)]


@case("CF-03")
@pytest.mark.parametrize(
    ("text", "says"),
    [("sed = 1", "unknown setting `sed`.*did you mean `seed`"), ("seed = 1\nseed = 2", "cannot be read.*")],
)
def test_an_unknown_and_a_repeated_setting_are_refused(monkeypatch, tmp_path, text, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ocannl.toml").write_text(text)
    with pytest.raises(oc.ConfigError, match=says):
        config.CACHE.get()


def test_every_case_is_run_or_overridden():
    case.check()
