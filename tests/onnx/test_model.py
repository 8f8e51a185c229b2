"""Models: inputs, outputs, parameters, sizes, functions of arrays, training, and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RANDOM = np.random.default_rng(0)
W = RANDOM.normal(size=(4, 3)).astype("float32")
B = RANDOM.normal(size=3).astype("float32")
X = RANDOM.normal(size=(5, 4)).astype("float32")


def model_of(nodes, inputs, outputs, constants=(), opset=18, **arguments):
    declared = [helper.make_tensor_value_info(name, type_, shape) for name, type_, shape in inputs]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants]
    graph = helper.make_graph(nodes, "net", declared, results, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **arguments)


def classifier(batch="batch"):
    nodes = [
        helper.make_node("MatMul", ["x", "layer.w"], ["/layer/product"]),
        helper.make_node("Add", ["/layer/product", "layer.b"], ["/layer/sum"]),
        helper.make_node("Tanh", ["/layer/sum"], ["y"]),
    ]
    return model_of(nodes, [("x", TensorProto.FLOAT, [batch, 4])], ["y"], [("layer.w", W), ("layer.b", B)])


def test_named_inputs_outputs_and_parameters():
    model = oc.onnx.load(classifier(), sizes={"batch": 5})
    assert {name: t.dims for name, t in model.inputs.items()} == {"x": (5, 4)}
    assert {name: t.dims for name, t in model.outputs.items()} == {"y": (5, 3)}
    assert {name: t.dims for name, t in model.parameters.items()} == {"layer.w": (4, 3), "layer.b": (3,)}
    assert list(model.outputs["y"].params) == ["layer.w", "layer.b"]
    assert model.values["/layer/sum"].dims == (5, 3)
    want = np.tanh(X @ W + B)
    np.testing.assert_allclose(oc.evaluate(model.outputs["y"], {model.inputs["x"]: X}), want, rtol=1e-5, atol=1e-6)


def test_a_model_is_a_function_of_tensors():
    model = oc.onnx.load(classifier())
    y = model(oc.tensor(X))
    np.testing.assert_allclose(y.numpy(), np.tanh(X @ W + B), rtol=1e-5, atol=1e-6)
    again = model(x=oc.tensor(X[:2]))
    assert again.dims == (2, 3) and again.params["layer.w"] is y.params["layer.w"]


def test_a_model_is_trained_after_it_was_run():
    model = oc.onnx.load(classifier())
    model.compile(oc.Context())(X)
    with oc.no_grad():
        assert not model(oc.tensor(X)).params
    loss = (model(oc.tensor(X)) ** 2).mean()
    assert list(loss.params) == ["layer.w", "layer.b"]
    ctx = oc.Context()
    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.1)))
    losses = []
    for _ in range(5):
        step()
        losses.append(float(ctx[loss]))
    assert losses[-1] < losses[0]


def test_a_function_of_arrays_is_compiled_for_each_size():
    function = oc.onnx.load(classifier()).compile(oc.Context(), limit=2)
    for rows in (5, 2, 1, 5):
        np.testing.assert_allclose(function(X[:rows]), np.tanh(X[:rows] @ W + B), rtol=1e-5, atol=1e-6)
    assert len(function._compiled) == 2


def test_graphs_name_values_as_the_model_does():
    model = oc.onnx.load(classifier(), sizes={"batch": 5})
    graph = oc.graph(model.outputs["y"])
    assert list(graph) == ["x", "layer.w", "layer.product", "layer.b", "layer.sum", "y"]
    total = oc.evaluate("layer.sum", {"x": X}, of=graph)
    np.testing.assert_allclose(total, X @ W + B, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(oc.evaluate("y", {"layer.sum": total}, of=graph), np.tanh(total), rtol=1e-5)


def test_results_have_the_names_of_the_model():
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["average"], axes=[1]),
        helper.make_node("Identity", ["average"], ["passed"]),
        helper.make_node("Pad", ["passed", "widths"], ["wide"]),
        helper.make_node("Relu", ["wide"], ["y"]),
    ]
    proto = model_of(nodes, [("x", TensorProto.FLOAT, [5, 4])], ["y"], [("widths", np.array([0, 1, 0, 1]))], opset=13)
    graph = oc.graph(oc.onnx.load(proto).outputs["y"])
    assert list(graph) == ["x", "average", "wide", "y"]


def test_training_changes_the_parameters():
    model = oc.onnx.load(classifier(), sizes={"batch": 5}, trainable=lambda name: name != "layer.b")
    assert list(model.parameters) == ["layer.w"]
    target = oc.tensor(np.zeros((5, 3), "float32"))
    loss = oc.squared_error(model.outputs["y"], target).mean()
    ctx = oc.Context()
    ctx.init(loss)
    ctx[model.inputs["x"]] = X
    step = ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.5)))
    losses = []
    for _ in range(5):
        step()
        losses.append(float(ctx[loss]))
    assert losses[-1] < losses[0]
    assert np.abs(ctx[model.parameters["layer.w"]] - W).max() > 1e-3


def test_sizes_that_inputs_decide_are_compiled_for_their_values():
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    proto = model_of(nodes, [("x", TensorProto.FLOAT, None), ("shape", TensorProto.INT64, [2])], ["y"])
    function = oc.onnx.load(proto).compile(oc.Context())
    assert function(X, np.array([2, 10])).shape == (2, 10)
    assert function(X, np.array([-1, 4])).shape == (5, 4)
    with pytest.raises(oc.Unsupported, match="sizes depend on `shape`"):
        oc.onnx.load(proto)(oc.tensor(X), oc.placeholder("shape", b=[], i=[], o=[2], dtype=oc.int64))


def test_computed_shapes_are_folded():
    nodes = [
        helper.make_node("Shape", ["x"], ["dims"]),
        helper.make_node("Gather", ["dims", "zero"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = [("zero", np.array([0])), ("rest", np.array([2, 2]))]
    model = oc.onnx.load(model_of(nodes, [("x", TensorProto.FLOAT, [5, 4])], ["y"], constants))
    assert model.outputs["y"].dims == (5, 2, 2)


def test_all_missing_operators_are_listed():
    nodes = [
        helper.make_node("Whirl", ["x"], ["a"], "first", domain="test.domain"),
        helper.make_node("Whirl", ["a"], ["b"], "second", domain="test.domain"),
        helper.make_node("ImageDecoder", ["b"], ["y"], "third"),
    ]
    proto = model_of(nodes, [("x", TensorProto.FLOAT, [5])], ["y"], opset=20)
    proto.opset_import.append(helper.make_opsetid("test.domain", 1))
    with pytest.raises(oc.Unsupported) as error:
        oc.onnx.load(proto)
    assert "test.domain.Whirl  2 nodes (`first`, `second`): not an operator of ONNX" in str(error.value)
    assert "ImageDecoder  1 node (`third`)" in str(error.value)
    assert [(row.operator, row.nodes) for row in error.value.problems] == [
        ("Whirl", ("first", "second")), ("ImageDecoder", ("third",)),
    ]  # fmt: skip


PADDLE = """<ir_version: 8, opset_import: ["" : 17]>
g (float[-1, 2] x) => (float[-1, 4] y)
{
    w = Constant <value = float[2, 4] {1, 2, 3, 4, 5, 6, 7, 8}> ()
    two = Constant <value = float[1] {2}> ()
    product = MatMul (x, w)
    y = Mul (product, two)
}"""


def test_constant_nodes_of_weights_are_parameters():
    proto = onnx.parser.parse_model(PADDLE)
    model = oc.onnx.load(proto)
    assert {name: p.dims for name, p in model.parameters.items()} == {"w": (2, 4)}
    x = np.ones((3, 2), "float32")
    y = model(oc.tensor(x))
    np.testing.assert_allclose(y.numpy(), np.tile([12.0, 16, 20, 24], (3, 1)))
    assert list(y.params) == ["w"] and not oc.onnx.load(proto, trainable=False).parameters
    np.testing.assert_allclose(model.compile(oc.Context())(x[:2]), y.numpy()[:2])


def test_numbers_without_axes_are_not_trained():
    nodes = [helper.make_node("Mul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "epsilon"], ["y"])]
    constants = [("w", np.ones(3, "float32")), ("epsilon", np.array(1e-3, "float32"))]
    proto = model_of(nodes, [("x", TensorProto.FLOAT, [3])], ["y"], constants)
    assert list(oc.onnx.load(proto).parameters) == ["w"]
    assert list(oc.onnx.load(proto, trainable=lambda name: True).parameters) == ["w", "epsilon"]


def test_sizes_below_zero_are_open():
    declared = oc.onnx.load(onnx.parser.parse_model(PADDLE)).declared_inputs
    assert declared[0].sizes == (None, 2)


def test_metadata():
    proto = classifier()
    proto.metadata_props.add(key="classes", value="cat\ndog")
    assert oc.onnx.load(proto).metadata == {"classes": "cat\ndog"}


def test_external_data_are_read_from_the_folder_of_the_model(tmp_path: Path):
    path = tmp_path / "model.onnx"
    onnx.save(classifier(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    function = oc.onnx.load(path).compile(oc.Context())
    np.testing.assert_allclose(function(X), np.tanh(X @ W + B), rtol=1e-5, atol=1e-6)
    with pytest.raises(oc.DataError, match="load the model from its file"):
        oc.onnx.load(path.read_bytes())
    (tmp_path / "inner").mkdir()
    moved = tmp_path / "inner" / "model.onnx"
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../weights.bin"
    moved.write_bytes(proto.SerializeToString())
    with pytest.raises(oc.DataError, match="no file in the model's folder"):
        oc.onnx.load(moved)


@pytest.mark.parametrize("content", [b"", b"\x00" * 10, b"not a model", b"\x08\x07"], ids=repr)
def test_bytes_that_are_no_model_are_refused(content: bytes):
    with pytest.raises(oc.DataError, match="ONNX"):
        oc.onnx.load(content)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path):
    for path in (tmp_path, tmp_path / "absent.onnx"):
        with pytest.raises(oc.DataError, match="cannot be read|not a regular file"):
            oc.onnx.load(path)


def test_old_operator_sets_are_refused():
    proto = model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", TensorProto.FLOAT, [2])], ["y"], opset=5)
    with pytest.raises(oc.Unsupported, match="version 5 of the operators"):
        oc.onnx.load(proto)


@pytest.mark.parametrize("operator", ["Add", "Div", "Mul", "Pow", "PRelu"])
def test_second_operands_before_version_7_start_at_an_axis(operator):
    x, y = np.arange(1, 25, dtype="float32").reshape(2, 3, 4), np.array([1, 2, 3], "float32")
    attributes = {} if operator == "PRelu" else {"broadcast": 1, "axis": 1}
    node = helper.make_node(operator, ["x", "y"], ["z"], **attributes)
    inputs = [("x", TensorProto.FLOAT, x.shape), ("y", TensorProto.FLOAT, y.shape)]
    function = oc.onnx.load(model_of([node], inputs, ["z"], opset=6)).compile(oc.Context("numpy"))
    functions = {"Add": np.add, "Div": np.divide, "Mul": np.multiply, "Pow": np.power}
    functions["PRelu"] = lambda x, slope: np.where(x < 0, slope * x, x)
    x -= 9 if operator == "PRelu" else 0
    np.testing.assert_allclose(function(x, y), functions[operator](x, y[:, None]), rtol=1e-6)


def test_masks_that_nothing_reads_are_dropped():
    nodes = [helper.make_node("Dropout", ["x"], ["y", "mask"])]
    proto = model_of(nodes, [("x", TensorProto.FLOAT, [2])], ["y"], opset=7)
    assert oc.onnx.load(proto).compile(oc.Context("numpy"))(np.ones(2, "float32")).tolist() == [1, 1]


def test_inputs_are_checked():
    model = oc.onnx.load(classifier())
    with pytest.raises(oc.DataError, match=r"sizes=\{'batch': ...\}"):
        _ = model.outputs
    with pytest.raises(oc.DataError, match="no input `z`"):
        model(z=X)
    with pytest.raises(oc.DataError, match="`x` is not given"):
        model()
    with pytest.raises(oc.DataError, match="given twice"):
        model(X, x=X)
    with pytest.raises(oc.DataError, match="1 inputs"):
        model(X, X)


def test_arrays_are_converted_to_the_declared_types():
    function = oc.onnx.load(classifier()).compile(oc.Context())
    want = function(X)
    assert function(X.astype("float64")).dtype == np.float32
    np.testing.assert_array_equal(function(X.tolist()), want)
    np.testing.assert_array_equal(function(np.ones((1, 4), "int8")), function(np.ones((1, 4), "float32")))
    assert len(function._compiled) == 2
    for wrong in (X.astype("complex64"), X.astype("datetime64[s]"), "text", [[1, 2], [3]]):
        with pytest.raises(oc.DataError, match="the input `x`"):
            function(wrong)
    with pytest.raises(oc.DataError, match="no input `z`"):
        function.run({"x": X, "z": X})
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)]
    integers = oc.onnx.load(model_of(nodes, [("x", TensorProto.INT32, [1])], ["y"])).compile(oc.Context())
    assert integers([7]).tolist() == [7.0]
    with pytest.raises(oc.DataError, match="type int32, and int64 are given"):
        integers([2**40])


def test_inputs_with_a_default_value_may_be_given():
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    inputs = [("x", TensorProto.FLOAT, [3]), ("w", TensorProto.FLOAT, [3])]
    model = oc.onnx.load(model_of(nodes, inputs, ["y"], [("w", B)]))
    assert list(model.inputs) == ["x"]
    x, w = B + 1, B * 2
    function = model.compile(oc.Context())
    np.testing.assert_allclose(function(x), x + B, rtol=1e-6)
    np.testing.assert_allclose(function(x, w=w), x + w, rtol=1e-6)
    np.testing.assert_allclose(model(oc.tensor(x), w=oc.tensor(w)).numpy(), x + w, rtol=1e-6)


@pytest.mark.parametrize("location", ["/etc/hostname", "../w", ".", "", "link", "a\0b", "x" * 5000])
def test_external_data_outside_the_folder_are_refused(tmp_path: Path, location: str):
    proto = classifier()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    (tmp_path / "w").write_bytes(W.tobytes())
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "link").symlink_to("../w")
    path = tmp_path / "inner" / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(oc.DataError, match="no file in the model's folder"):
        oc.onnx.load(path)


def _functions(count, last):
    """A model that calls `f0`; each function calls the next one twice."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("deep", 1)]
    functions = []
    for n in range(count):
        operator, domain = (f"f{n + 1}", "deep") if n + 1 < count else last
        nodes = [helper.make_node(operator, [a], [b], domain=domain) for a, b in ("ab", "bc")]
        functions.append(helper.make_function("deep", f"f{n}", ["a"], ["c"], nodes, opsets))
    proto = model_of([helper.make_node("f0", ["x"], ["y"], domain="deep")], [("x", TensorProto.FLOAT, [2])], ["y"],
                 functions=functions)  # fmt: skip
    proto.opset_import.append(helper.make_opsetid("deep", 1))
    return proto


def test_functions_that_never_end_are_refused():
    function = oc.onnx.load(_functions(3, ("Neg", ""))).compile(oc.Context())
    assert function([1.0, -2.0]).tolist() == [1.0, -2.0]
    for count in (1, 2):
        with pytest.raises(oc.DataError, match="call each other more than 64 deep"):
            _ = oc.onnx.load(_functions(count, ("f0", "deep"))).outputs
    with pytest.raises(oc.Unsupported, match="more than 16384 nodes"):
        _ = oc.onnx.load(_functions(20, ("Neg", ""))).outputs


def test_large_results_are_not_evaluated_while_importing():
    constants = [("shape", np.array([2**20, 2**20])), ("one", np.ones((1, 1), "float32"))]
    nodes = [helper.make_node("Expand", ["one", "shape"], ["y"])]
    assert oc.onnx.load(model_of(nodes, [], ["y"], constants), trainable=False).outputs["y"].dims == (2**20, 2**20)
    limits = [("start", np.array(0)), ("limit", np.array(2**40)), ("step", np.array(1))]
    nodes = [helper.make_node("Range", ["start", "limit", "step"], ["y"])]
    with pytest.raises(oc.Unsupported, match="an array of 1099511627776 cells"):
        _ = oc.onnx.load(model_of(nodes, [], ["y"], limits)).outputs


def test_names_that_are_no_text_are_refused():
    content = classifier().SerializeToString().replace(b"layer.w", b"layer.\xff")
    with pytest.raises(oc.DataError, match="not valid UTF-8"):
        oc.onnx.load(content)


def test_statistics_of_batches_are_not_trainable():
    vectors = {name: np.linspace(0.5, 1.5, 3).astype("float32") for name in ("scale", "shift", "mean", "variance")}
    node = helper.make_node("BatchNormalization", ["x", *vectors], ["y"])
    proto = model_of([node], [("x", TensorProto.FLOAT, [2, 3, 4])], ["y"], list(vectors.items()))
    assert list(oc.onnx.load(proto).parameters) == ["scale", "shift"]
    assert list(oc.onnx.load(proto, trainable=lambda name: True).parameters) == list(vectors)
    assert not oc.onnx.load(proto, trainable=False).parameters


def test_gradients_of_a_convolutional_network_are_those_of_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    shapes = {"k": (4, 2, 3, 3), "b": (4,), "scale": (4,), "shift": (4,), "w": (5, 16), "v": (5,)}
    arrays = {name: rng.normal(size=dims).astype("float32") for name, dims in shapes.items()}
    statistics = {name: rng.uniform(0.5, 1.5, 4).astype("float32") for name in ("mean", "variance")}
    nodes = [
        helper.make_node("Conv", ["x", "k", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "v"], ["y"], transB=1),
    ]
    inputs, constants = [("x", TensorProto.FLOAT, ["batch", 2, 8, 8])], list({**arrays, **statistics}.items())
    model = oc.onnx.load(model_of(nodes, inputs, ["y"], constants), sizes={"batch": 3})
    x, factors = rng.normal(size=(3, 2, 8, 8)).astype("float32"), rng.normal(size=(3, 5)).astype("float32")
    loss = (model.outputs["y"] * oc.tensor(factors)).sum()
    ctx = oc.Context()
    ctx.init(loss)
    ctx[model.inputs["x"]] = x
    ctx.compile(train.grad_update(loss))()

    f = torch.nn.functional
    t = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}
    mean, variance = map(torch.tensor, statistics.values())
    c = f.conv2d(torch.tensor(x), t["k"], t["b"], stride=2, padding=1)
    r = torch.relu(f.batch_norm(c, mean, variance, t["scale"], t["shift"]))
    total = (f.linear(f.max_pool2d(r, 2).flatten(1), t["w"], t["v"]) * torch.tensor(factors)).sum()
    total.backward()
    np.testing.assert_allclose(ctx[loss], total.detach().numpy(), rtol=1e-5)
    assert set(model.parameters) == set(arrays)
    for name, parameter in model.parameters.items():
        np.testing.assert_allclose(ctx[parameter.grad], t[name].grad.numpy(), rtol=1e-4, atol=1e-5)
