"""Graphs: names, operands and consumers of nodes, edits, and values of any node."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

Array = np.ndarray


@oc.op
def layer(x: oc.Tensor, *, width: int) -> oc.Tensor:
    w = oc.param()
    b = oc.param(0.0, o=[width])
    hidden = oc.relu(w @ x + b)
    return oc.dropout(hidden, 0.25)


@oc.op
def centered(x: oc.Tensor) -> oc.Tensor:
    mean = oc.state("mean", 0.0)
    if not oc.is_training():
        return x - mean
    batch_mean = x.mean("...|c => c")
    mean[...] = 0.9 * mean + 0.1 * batch_mean
    return x - batch_mean


@oc.op
def network(x: oc.Tensor, *, widths: list[int]) -> oc.Tensor:
    for width in widths:
        x = layer(x, width=width)
    return oc.softmax(centered(x))


def model(label: str = "net") -> tuple[oc.Tensor, oc.Tensor]:
    x = oc.placeholder("x", b=[4], o=[6])
    return x, network(widths=[8, 3], label=label)(x)


INPUTS = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")


def value(t: oc.Tensor, ctx: oc.Context) -> Array:
    return oc.evaluate(t, {"x": INPUTS}, ctx)


def check(result: Array, expected: Array) -> None:
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.fixture
def ctx() -> oc.Context:
    return oc.Context("numpy")


# --- queries ---


def test_nodes_are_named_after_blocks_and_labels() -> None:
    g = oc.graph(model()[1])
    assert [n.name for n in g.find("net.layer*", operation="relu")] == ["net.layer.hidden", "net.layer_2.hidden"]
    assert [n.name for n in g.find(operation="dropout")] == ["net.layer", "net.layer_2"]
    assert g["layer_2"].operation == "dropout"
    assert g["layer_2"].settings["rate"] == 0.25
    assert g["net"].operation == "softmax"
    assert g.get("nothing") is None


def test_operands_and_consumers_are_inverse() -> None:
    g = oc.graph(model()[1])
    for node in g.values():
        assert all(node in operand.consumers for operand in node.operands)
        assert all(node in consumer.operands for consumer in node.consumers)
    assert [n.name for n in g["net.layer.hidden"].operands] == ["net.layer.add"]


def test_kinds_of_leaves() -> None:
    x, y = model()
    g = oc.graph(y + oc.tensor([1.0, 2.0, 3.0]))
    assert [n.tensor for n in g.inputs] == [x]
    assert {n.operation for n in g.values() if n.tensor.application is None} == {
        "input", "parameter", "state", "constant",
    }  # fmt: skip
    assert list(g.params) == ["net.layer.w", "net.layer.b", "net.layer_2.w", "net.layer_2.b"]
    assert list(g.states) == ["net.centered.mean"]


def test_loops_are_nodes_by_their_results() -> None:
    xs, start = oc.placeholder("xs", b=[5], o=[2]), oc.param("start", o=[2])
    last, sums = oc.scan(lambda total, x: (total + x, total * x), start, oc.tanh(xs))
    g = oc.graph(last.with_label("last"), sums.with_label("sums"))
    assert g["last"].operation == g["sums"].operation == "scan"
    assert [n.operation for n in g["last"].operands] == ["parameter", "tanh"]


@pytest.mark.parametrize(
    ("look", "message"),
    [
        (lambda g: g["net.layr"], "no node 'net.layr'; similar names: `net.layer`"),
        (lambda g: g["add"], "several nodes are called 'add': `net.layer.add`, `net.layer_2.add`"),
        (lambda g: g[3], "named by a text, not by 3"),
        (lambda g: g[oc.placeholder("z")], "`z` is not in the graph of"),
        (lambda g: g.find(2), "searched by texts"),
        (lambda g: g.freeze("head.*"), r"no parameter matches 'head.\*'"),
        (lambda g: g.freeze(1), "selected by a pattern"),
        (lambda g: g.replace("x", oc.relu), "`x` is a leaf"),
        (lambda g: g.replace("net", "relu"), "replaced by a tensor or a number, not by 'relu'"),
        (lambda g: g.insert("net", 1.0), "a function of the node is inserted"),
        (lambda g: g.rewire("net", "x", g["x"].tensor), "`net` does not read `x`, but `net.centered`"),
        (lambda g: g.remove("net.centered"), "it must have one operand"),
        (lambda g: oc.graph(), "takes the tensors that are the outputs"),
        (lambda g: oc.graph(g), "takes tensors, not"),
        (lambda g: oc.evaluate("nett", of=g), "no node 'nett'"),
        (lambda g: oc.evaluate("net", {"y": 1.5}, of=g), "no node 'y'"),
        (lambda g: oc.evaluate("net", of="g"), "`of` of oc.evaluate is a graph"),
    ],
)
def test_mistakes(look: object, message: str) -> None:
    with pytest.raises(oc.CodeError, match=message):
        look(oc.graph(model()[1]))  # type: ignore[operator]


# --- values ---


def test_any_node_is_fetched_and_fed(ctx: oc.Context) -> None:
    _, y = model()
    g = oc.graph(y)
    ctx.init(y)
    hidden, output = oc.evaluate(["layer", y], {"x": INPUTS}, ctx, of=g)
    np.testing.assert_array_equal(output, value(y, ctx))
    fed = oc.evaluate({"end": "net"}, {"net.layer": hidden, g["net.layer_2.b"]: np.float32([0, 0, 0])}, ctx, of=g)
    np.testing.assert_array_equal(fed["end"], output)


def test_feeding_a_parameter_does_not_change_it(ctx: oc.Context) -> None:
    x = oc.placeholder("x", b=[4], o=[6])
    w = oc.param("w", 2.0, o=[6])
    g = oc.graph((w * x).with_label("y"))
    np.testing.assert_array_equal(oc.evaluate("y", {"x": INPUTS, "w": np.full(6, 3.0)}, ctx, of=g), 3 * INPUTS)
    np.testing.assert_array_equal(oc.evaluate("y", {"x": INPUTS}, ctx, of=g), 2 * INPUTS)


# --- edits ---


def test_edits_share_parameters_and_leave_the_original(ctx: oc.Context) -> None:
    _, y = model()
    before = value(y, ctx)
    g = oc.graph(y)
    text = str(g)
    edited = g.replace("net.layer.hidden", oc.tanh).outputs[0]
    w1, b1, w2, b2 = (ctx[p] for p in edited.all_params.values())
    hidden = np.tanh(INPUTS @ w1.T + b1)
    z = np.maximum(hidden @ w2.T + b2, 0)
    expected = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    np.testing.assert_allclose(value(edited, ctx), expected, rtol=1e-5)
    np.testing.assert_array_equal(value(y, ctx), before)
    assert str(g) == text
    assert list(edited.all_params.values()) == list(y.all_params.values())


def test_a_replaced_result_of_a_block_keeps_its_name() -> None:
    g = oc.graph(model()[1]).replace("net.layer", lambda hidden: 2.0 * hidden)
    assert g["net.layer"].operation == "mul"


def test_dropout_is_removed_in_training(ctx: oc.Context) -> None:
    _, y = model()
    g = oc.graph(y)
    plain = g.remove(*g.find(operation="dropout"))
    assert plain.find(operation="dropout") == ()
    assert "calls" in str(train.grad_update(y.sum()))  # of the random stream
    assert "calls" not in str(train.grad_update(plain.outputs[0].sum()))


def test_inserted_and_rewired(ctx: oc.Context) -> None:
    x = oc.placeholder("x", b=[4], o=[6])
    a = (2.0 * x).with_label("a")
    left, right = oc.sin(a).with_label("left"), oc.cos(a).with_label("right")
    g = oc.graph((left + right).with_label("y"))
    inserted = g.insert("a", lambda t: t + 1.0).outputs[0]
    check(value(inserted, ctx), np.sin(2 * INPUTS + 1) + np.cos(2 * INPUTS + 1))
    rewired = g.rewire("right", "a", 3.0 * x)
    check(value(rewired.outputs[0], ctx), np.sin(2 * INPUTS) + np.cos(3 * INPUTS))
    zeroed = g.rewire("y", "left", oc.full(0.0, o=[6]))
    check(value(zeroed.outputs[0], ctx), np.cos(2 * INPUTS))


def test_a_frozen_part_has_no_gradient_and_a_new_head_has(ctx: oc.Context) -> None:
    _, y = model()
    g = oc.graph(y).freeze("net.layer.*")
    assert list(g.outputs[0].params) == ["net.layer_2.w", "net.layer_2.b"]
    assert list(y.params) == ["net.layer.w", "net.layer.b", "net.layer_2.w", "net.layer_2.b"]
    features = g["net.layer"].tensor
    head = oc.param("head", o=[2]) @ features
    assert list(head.sum().params) == ["head"]


def test_what_does_not_fit_is_an_error() -> None:
    _, y = model()
    assert str(y.shape) == "4|3"
    with pytest.raises(oc.ShapeError, match="is 8, but output axis 1 of `z` is 5"):
        oc.graph(y).replace("net.layer", oc.placeholder("z", b=[4], o=[5]))
    masked = oc.bitwise_and(oc.placeholder("n", o=[3], dtype=oc.int32), 1)
    with pytest.raises(oc.DtypeError, match="integers"):
        oc.graph(masked).replace("n", oc.placeholder("f", o=[3]) * 1.0)


def test_a_part_is_transplanted_to_another_batch(ctx: oc.Context) -> None:
    x, y = model()
    expected = value(y, ctx)
    second_input = oc.placeholder("other", b=[2], o=[6])
    moved = oc.graph(y).feed({x: second_input}).outputs[0]
    assert str(moved.shape) == "2|3"
    np.testing.assert_array_equal(oc.evaluate(moved, {second_input: INPUTS[:2]}, ctx), expected[:2])


def test_states_are_updated_through_copies(ctx: oc.Context) -> None:
    x, y = model()
    edited = oc.graph(y).replace("net.layer.hidden", oc.tanh).outputs[0]
    (state,) = edited.states.values()
    loss = (edited * edited).sum()
    ctx.init(loss)
    ctx[x] = INPUTS
    ctx.run(train.grad_update(loss))
    assert np.any(ctx[state] != 0.0)


def test_copies_of_loops_and_branches_compute_the_same(ctx: oc.Context) -> None:
    x, w = oc.placeholder("x", b=[4], o=[6]), oc.param("w", o=[6])

    def step(total: oc.Tensor, row: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        inner, _ = oc.scan(lambda c, u: (c * u, c), total, oc.recompute(lambda v: oc.tanh(v) * w)(x))
        return inner + row, oc.cond(row.sum() > 0.0, lambda r: r * w, lambda r: 0.5 * r, row)

    last, rows = oc.scan(step, w, x * w)
    limited = oc.while_loop(lambda c: (c * c).sum() > 1e-2, lambda c: 0.5 * c * oc.tanh(w), last, bound=5)
    loss = (limited * limited).sum() + rows.sum()
    g = oc.graph(loss).feed({x: None})
    g["x"].tensor.with_label("x")
    assert str(train.grad_update(g.outputs[0])) == str(train.grad_update(loss))


def test_graphs_are_not_edited_in_recorders() -> None:
    g = oc.graph(model()[1])
    with pytest.raises(oc.CodeError, match=r"outside of oc\.cd"), oc.cd("code"):
        g.replace("net", 1.0)


# --- summaries ---


def test_summary_counts_what_blocks_hold_and_compute() -> None:
    _, y = model()
    summary = oc.summary(y)
    rows = {block.path: block for block in summary.blocks}
    assert list(rows) == ["net", "net.layer", "net.layer_2", "net.centered", ""]
    first = rows["net.layer"]
    assert (first.parameters, first.parameter_bytes, first.results) == (56, 224, ("4|8",))
    assert first.operations == 4 * 8 * 6 + 3 * 4 * 8  # product, sum, rectifier, copy by dropout
    assert rows[""].parameters == sum(np.prod(p.dims) for p in y.all_params.values())
    lines = str(summary).splitlines()
    assert lines[0].split() == ["block", "result", "parameters", "parameter", "bytes", "result", "bytes", "operations"]
    assert lines[2].startswith("  layer  ")


def test_summary_counts_steps_of_loops() -> None:
    xs = oc.placeholder("xs", b=[7], o=[2])
    last, _ = oc.scan(lambda total, x: (total + x, None), oc.full(0.0, o=[2]), xs)
    assert oc.summary(last).blocks[-1].operations >= 7 * 2
    with pytest.raises(oc.ArgumentError, match=r"oc\.summary takes the outputs of a model"):
        oc.summary()


def test_graphs_are_made_of_tensors() -> None:
    for call in (lambda: oc.Graph(3), lambda: oc.Graph((3,)), lambda: oc.Graph(), lambda: oc.GraphNode(1, 2, 3)):
        with pytest.raises(oc.ArgumentError):
            call()


def test_results_of_one_operation_are_neighbors() -> None:
    @oc.defop(outputs=("double", "square"))
    def twice(x):
        def forward(double, square, v1):
            double["=:"] = 2.0 * v1
            square["=:"] = double * v1

        return forward, None

    x = oc.placeholder("x", output=[2])
    graph = oc.graph(*twice(x))
    assert [(node.name, node.operation) for node in graph.values()] == [
        ("x", "input"), ("twice", "twice"), ("twice.square", "twice"),
    ]  # fmt: skip
    assert [node.name for node in graph["twice.square"].operands] == ["x", "twice"]
    edited = graph.feed({"x": oc.tensor([1.0, 3.0])})
    assert [t.numpy().tolist() for t in edited.outputs] == [[2.0, 6.0], [2.0, 18.0]]
