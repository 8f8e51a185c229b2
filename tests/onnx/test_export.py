"""Export: networks that ONNX Runtime computes, their operators and names, files, and errors."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn
from ocannl.lang.core import nested

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

RANDOM = np.random.default_rng(0)
TOLERANCE = 1e-5  # of the largest value, in float32


def session(model: Any) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    source = model if isinstance(model, str) else model.SerializeToString()
    return runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def feeds_of(inputs, ctx):
    return {name: np.asarray(ctx[t]) for name, t in inputs.items()}


def check(outputs, inputs, tolerance=TOLERANCE, **symbols):
    """Exports tensors and compares them with the values of a context; returns the model."""
    ctx = oc.Context("numpy")
    tensors = nested.leaves(outputs)
    for t in inputs.values():
        is_float = np.dtype(t.dtype.numpy).kind == "f"
        ctx[t] = RANDOM.normal(size=t.dims) if is_float else RANDOM.integers(0, 9, t.dims)
    model = oc.onnx.export(outputs, inputs=inputs, ctx=ctx)
    with oc.training(False), oc.no_grad():
        ctx.run(oc.forward(*tensors), **symbols)
    feeds = feeds_of(inputs, ctx) | {name: np.array(value, np.int64) for name, value in symbols.items()}
    for t, actual in zip(tensors, session(model).run(None, feeds), strict=True):
        expected = np.asarray(ctx[t])
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        scale = max(1.0, np.max(np.abs(expected.astype(float)), initial=0))
        assert np.max(np.abs(actual.astype(float) - expected), initial=0) <= tolerance * scale
    return model


def image(size, channels=3, batch=2):
    return oc.placeholder("x", b=[batch], i=[], o=[size, size, channels])


def tokens():
    return oc.placeholder("tokens", b=[2, 12], i=[], o=[], dtype="int32")


def vae(x):
    noise = oc.tensor(RANDOM.normal(size=(2, 3)), batch_axes=1)
    net = nn.vae(latent=3, encoder=nn.mlp(widths=[8]), decoder=nn.mlp(widths=[8, 20]))
    return net(x, noise)


NETWORKS = {
    "lenet": (lambda: image(28, 1), nn.lenet()),
    "vgg": (lambda: image(32), nn.vgg(layers=11, width=16, channels=(4, 4, 4, 8, 8), classes=10, norm=True)),
    "resnet": (lambda: image(64), nn.resnet(layers=18, classes=10, width=4)),
    "resnet50": (lambda: image(32), nn.resnet(layers=50, classes=10, width=4)),
    "unet": (lambda: image(16), nn.unet(classes=2, widths=(4, 8))),
    "vit": (lambda: image(16), nn.vit(patch=4, width=16, layers=2, heads=2, inner=32, classes=10)),
    "vae": (lambda: oc.placeholder("x", b=[2], i=[], o=[20]), vae),
    "gpt": (tokens, nn.gpt(vocabulary=9, length=16, width=16, layers=2, heads=2)),
    "llama": (tokens, nn.llama(vocabulary=9, width=16, layers=2, heads=4, inner=32, kv_heads=2)),
    "bert": (tokens, nn.bert(vocabulary=9, width=16, layers=2, heads=2, inner=32, length=16)),
    "lstm": (lambda: oc.placeholder("x", b=[2, 7], i=[], o=[5]), lambda x: nn.lstm(x, width=6)),
    "gru": (lambda: oc.placeholder("x", b=[2, 7], i=[], o=[5]), lambda x: nn.gru(x, width=6)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_computed_by_onnx_runtime(name):
    make, net = NETWORKS[name]
    x = make()
    with oc.training(False):
        outputs = net(x)
    check(outputs, {x.label: x})


def test_networks_consist_of_the_operators_of_the_field():
    x = image(64)
    model = check(nn.resnet(layers=18, classes=10, width=4)(x), {"x": x})
    expected = {"Transpose": 1, "Conv": 20, "BatchNormalization": 20, "Relu": 17, "MaxPool": 1, "Add": 9, "MatMul": 1}
    assert Counter(node.op_type for node in model.graph.node) == Counter(expected) + Counter(["ReduceMean"])
    t = tokens()
    model = check(nn.gpt(vocabulary=9, length=16, width=16, layers=2, heads=2)(t), {"tokens": t})
    counts = Counter(node.op_type for node in model.graph.node)
    assert (counts["LayerNormalization"], counts["Softmax"], counts["Gelu"]) == (5, 2, 2)


@pytest.mark.parametrize(
    "spec", ["...|...->a,b => ...|...->a", "...|...->a,b => ...|...->b", "n|...->... => |...->..."]
)
def test_running_sums_export_as_cumsum(spec):
    x = oc.placeholder("x", b=[2], i=[3], o=[2, 20])
    model = check({"y": oc.cumsum(x + 1, spec)}, {"x": x})
    assert [node.op_type for node in model.graph.node] == ["Add", "CumSum"]


x, y = (oc.placeholder(name, b=[2], i=[], o=[6]) for name in "xy")
ids = oc.placeholder("ids", b=[2, 5], i=[], o=[], dtype="int32")
picture = oc.placeholder("picture", b=[2], i=[], o=[9, 7, 4])


def pooled(image):
    return oc.avg_pool2d(image, window=3, stride=2)


EXPRESSIONS = {
    "elementwise": lambda: oc.tanh(x) * oc.sigmoid(y) / (1.0 + oc.exp2(x)) - oc.log2(1.0 + x * x) % 0.3,
    "erfc": lambda: oc.erfc(x * 3.0) * 1e3,
    "angles": lambda: oc.atan2(x, y) + oc.trunc(3.0 * x),
    "comparisons": lambda: oc.where((x < y) & (x > -1.0), x, y),
    "integers": lambda: (ids % 4) * 7 - ids,
    "bits": lambda: oc.left_shift(ids, 3) + oc.right_shift(-ids, 1) + oc.bitwise_xor(ids, 5),
    "narrow": lambda: (x.astype("float16") * y.astype("bfloat16")).astype("float32"),
    "bytes": lambda: ids.astype("uint8") * 77,
    "reductions": lambda: (x.sum("b|a => |a"), x.max("b|a => b|"), x.prod("b|a => b|"), x.var()),
    "quotients": lambda: (x.sum("b|a => b|") / y, pooled(picture) * pooled(-picture) / pooled(oc.exp(picture))),
    "argmax": lambda: (oc.argmax(x), oc.argmin(y)),
    "order": lambda: (oc.sort(x), oc.argsort(x, descending=True), *oc.topk(x, 3), oc.topk(x, 2, largest=False)[0]),
    "rows": lambda: oc.param("table", o=[7, 3]).take(ids),
    "one_hot": lambda: oc.one_hot(ids, 6),
    "diagonal": lambda: oc.einsum("b|i; |i, i => b, i|", x, oc.param("square", i=[], o=[6, 6])),
    "merged": lambda: oc.einsum("b|(i j) => b|j, i", x, i=2),
    "concat": lambda: oc.concat("b|i; b|j => b|i^j", x, y),
    "pad": lambda: oc.pad(x, (2, 1)),
    "cumulative": lambda: oc.cumsum(x),
    "conv": lambda: nn.conv2d(picture, channels=6, window=3, stride=2, padding=1),
    "groups": lambda: nn.conv2d(picture, channels=8, window=3, groups=2, dilation=2),
    "depthwise": lambda: nn.depthwise_conv2d(picture, window=3),
    "transposed": lambda: nn.conv_transpose2d(picture, channels=3, window=3, stride=2),
    "pools": lambda: (oc.max_pool2d(picture, window=3, stride=2), oc.max_pool2d(picture, window=3, stride=1)),
    "scan": lambda: oc.scan(lambda h, a: (oc.tanh(h + a), h * a), oc.full(0.5), x, reverse=True)[1],
    "while": lambda: oc.while_loop(lambda c: c.sum() < 50.0, lambda c: c * 1.5, oc.abs(x) + 0.5, bound=30),
    "cond": lambda: oc.cond(x.sum() > 0.0, lambda: oc.exp(x), lambda: x * 2.0),
    "recomputed": lambda: oc.recompute(lambda a: oc.exp(oc.tanh(a)))(x),
    "random": lambda: oc.uniform(key="noise", counter=3, b=[2], i=[], o=[6]) * x,
    "double": lambda: oc.exp(oc.param("w", i=[6], o=[3], dtype="float64") @ x.astype("float64")),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_are_computed_by_onnx_runtime(name):
    outputs = EXPRESSIONS[name]()
    leaves = [t for t in (x, y, ids, picture) if any(t in oc.graph(o) for o in nested.leaves(outputs))]
    check(outputs, {t.label: t for t in leaves})


def normalized(image, mean, variance, scale, bias):
    """A normalized image; the moments, scale and bias are constants of these sizes."""
    arrays = [RANDOM.uniform(0.5, 2.0, dims).astype("float32") for dims in (mean, variance, scale, bias)]
    mean, variance, scale, bias = (oc.tensor(array, batch_axes=0, input_axes=0) for array in arrays)
    return (image - mean) * oc.recip(oc.sqrt(variance + 1e-3)) * scale + bias


@pytest.mark.parametrize(
    ("size", "sizes", "is_recognized"),
    [
        ([5, 5, 5], [(5, 1, 1)] * 4, True),
        ([5, 5, 5], [(5, 1, 1), (5,), (5, 1, 1), (5, 1, 1)], False),
        ([5, 5, 5], [(5, 1, 1), (5, 1), (5, 1, 1), (5, 1, 1)], False),
        ([5, 5, 5], [(5, 1, 1), (5, 1, 1), (5,), (5, 1, 1)], False),
        ([5], [(5,)] * 4, True),
        ([1], [(5,)] * 4, False),
    ],
)
def test_normalization_of_batches_is_along_axis_1(size, sizes, is_recognized):
    z = oc.placeholder("z", b=[2], i=[], o=size)
    model = check(normalized(z, *sizes), {"z": z})
    assert ("BatchNormalization" in {node.op_type for node in model.graph.node}) == is_recognized


def test_scales_of_batches_are_along_axis_1():
    z = oc.placeholder("z", b=[2], i=[], o=[5, 5, 5])
    mean, bias = (oc.tensor(RANDOM.normal(size=(5, 1, 1)), batch_axes=0, input_axes=0) for _ in range(2))
    scale, variance = (oc.tensor(RANDOM.uniform(0.5, 2.0, (5, 1)), batch_axes=0, input_axes=0) for _ in range(2))
    check((z - mean) * (scale / oc.sqrt(variance + 1e-3)) + bias, {"z": z})


def test_normalization_of_layers_is_by_the_variance_of_the_same_row():
    z = oc.placeholder("z", b=[3], i=[], o=[3])
    scale, bias = (oc.tensor(RANDOM.normal(size=3), batch_axes=0, input_axes=0) for _ in range(2))
    centered = z - z.mean("b|i => b|0")
    deviation = oc.sqrt((centered * centered).mean("b|i => b|") + 1e-3)
    check(centered * oc.einsum("b| => |b", oc.recip(deviation)) * scale + bias, {"z": z})


def computed(function, *arrays):
    """The value of a function by ONNX Runtime and by a context."""
    types = [str(array.dtype) for array in arrays]
    inputs = [oc.placeholder("x", b=[], i=[], o=list(a.shape), dtype=t) for a, t in zip(arrays, types, strict=True)]
    result, ctx = function(*inputs), oc.Context("numpy")
    model = oc.onnx.export(result, inputs=inputs, ctx=ctx)
    for t, array in zip(inputs, arrays, strict=True):
        ctx[t] = array
    ctx.run(oc.forward(result))
    feeds = {declared.name: array for declared, array in zip(model.graph.input, arrays, strict=True)}
    return session(model).run(None, feeds)[0], np.asarray(ctx[result])


@pytest.mark.filterwarnings("ignore")
def test_angles_of_infinities_and_nan():
    numbers = [np.nan, np.inf, -np.inf, 0.0, 1.0, -2.5]
    actual, expected = computed(oc.atan2, *np.float32(np.meshgrid(numbers, numbers)))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint32", "int32", "int64"])
def test_powers_of_integers_are_exact(kind):
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    bases, exponents = (a.astype(kind) for a in np.meshgrid([3, 7, 2, 1, 0, high, low], [0, 1, 5, 35, 63, high]))
    constant = oc.tensor(exponents, batch_axes=0, input_axes=0)
    for function in (lambda b, e: b**e, lambda b, e: b**35 + e, lambda b, e: b**constant + e):
        assert np.array_equal(*computed(function, bases, exponents))


@pytest.mark.parametrize("kind", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_products_of_integers_are_exact(kind):
    limits = np.iinfo(kind)
    numbers = RANDOM.integers(limits.min, limits.max, (4, 9), dtype=kind) | np.array(1, kind)
    for function in (oc.Tensor.prod, lambda a: a.prod("i,j => i"), lambda a: a.prod("i,j => j")):
        assert np.array_equal(*computed(function, numbers))


def test_sums_of_int32_wrap():
    numbers = np.full((3, 7), np.iinfo("int32").max, "int32")
    assert np.array_equal(*computed(lambda a: a.sum("i,j => i"), numbers))


def test_negative_powers_of_integers():
    bases, exponents = np.meshgrid(np.array([3, -1, 1, 0, 2]), np.array([-1, -2, -63, 2]))
    actual, _ = computed(lambda b, e: b**e, bases, exponents)
    assert actual.tolist() == [[0, -1, 1, 0, 0], [0, 1, 1, 0, 0], [0, -1, 1, 0, 0], [9, 1, 1, 0, 4]]


@pytest.mark.parametrize("is_descending", [False, True])
def test_order_of_truth_values(is_descending):
    values = np.array([True, False, True, True, False])
    for function in (oc.sort, oc.argsort):
        assert np.array_equal(*computed(lambda a, f=function: f(a, descending=is_descending), values))


def test_conversions_to_uint64():
    numbers = np.array([3.0, 2.0**63, 1.4e19, 2.0**40], "float32")
    assert np.array_equal(*computed(lambda a: a.astype("uint64"), numbers))


def test_narrow_results_of_branches():
    narrow = x.astype("bfloat16")
    check(oc.cond(x.sum() > 0.0, lambda: narrow, lambda: narrow * 2.0).astype("float32"), {"x": x})


@pytest.mark.parametrize("function", [oc.sort, oc.argsort, oc.argmax, oc.Tensor.max, lambda a: oc.relu_gate(a, a)])
def test_order_of_uint64_has_no_form(function):
    with pytest.raises(oc.onnx.UnsupportedModel, match="of numbers of type uint64"):
        computed(function, np.array([1, 1 << 63, 2], "uint64"))


def test_outputs_that_are_inputs():
    assert [output.name for output in check([x, x * 2.0], {"x": x}).graph.output] == ["x_2", "mul"]
    assert [declared.name for declared in oc.onnx.export({"x": x, "n": y[oc.symbol("n", 0, 1)]}).graph.input] == [
        "x_2", "y", "n_2",
    ]  # fmt: skip
    with pytest.raises(oc.ArgumentError, match="'x' is the name of an input and of an output"):
        oc.onnx.export({"x": x}, inputs={"x": x})


def test_static_symbols_are_inputs():
    n = oc.symbol("n", 0, 5)
    rows = oc.placeholder("rows", b=[6], i=[], o=[3])
    check(rows[n] * 2.0, {"rows": rows}, n=4)


def test_names_of_inputs_outputs_and_parameters(tmp_path):
    net = nn.mlp(widths=[5, 3], label="net")
    image = oc.placeholder("image", b=[2], i=[], o=[4])
    model = oc.onnx.export(net, tmp_path / "net.onnx", inputs={"pixels": image})
    assert [value.name for value in model.graph.input] == ["pixels"]
    assert [value.name for value in model.graph.output] == ["net"]
    names = {array.name for array in model.graph.initializer}
    assert set(oc.graph(net(image)).params) == names
    stored = onnx.load(tmp_path / "net.onnx")
    assert stored == model
    assert [value.name for value in oc.onnx.export({"a": net(image), "b": image}).graph.output] == ["a", "b"]


def test_values_of_parameters_are_those_of_the_context():
    w = oc.param("w", np.arange(6, dtype="float32").reshape(2, 3), b=[], i=[3], o=[2])
    ctx = oc.Context("numpy")
    ctx[w] = np.full((2, 3), 7.0)
    x = oc.placeholder("x", b=[], i=[], o=[3])
    model = oc.onnx.export({"y": w @ x}, ctx=ctx)
    (actual,) = session(model).run(None, {"x": np.ones(3, "float32")})
    assert actual.tolist() == [21.0, 21.0]


def test_data_of_parameters_in_a_second_file(tmp_path):
    w = oc.param("w", RANDOM.normal(size=(64, 64)).astype("float32"), b=[], i=[64], o=[64])
    x = oc.placeholder("x", b=[], i=[], o=[64])
    path = tmp_path / "net.onnx"
    for _ in range(2):  # a file is replaced
        oc.onnx.export(w @ x, path, external_data=True)
    assert path.stat().st_size < 4096 < (tmp_path / "net.onnx.data").stat().st_size < 64 * 64 * 4 + 4096
    assert session(str(path)).run(None, {"x": np.ones(64, "float32")})[0].shape == (64,)


@pytest.mark.parametrize("opset", [20, 22, 24])
def test_opsets(opset):
    model = oc.onnx.export(oc.softmax(x), opset=opset)
    assert model.opset_import[0].version == opset


def test_dropout_is_the_identity_and_running_statistics_are_constants():
    outputs = oc.dropout(nn.batch_norm(x), 0.5)
    model = check(outputs, {"x": x})
    assert {"mean", "var"} <= {array.name.rpartition(".")[2] for array in model.graph.initializer}


def test_all_operations_without_a_form_are_listed():
    a = oc.placeholder("a", b=[], i=[], o=[3, 3])
    with pytest.raises(oc.onnx.UnsupportedModel) as error:
        oc.onnx.export([oc.lgamma(x).with_label("first"), oc.linalg.det(a).with_label("second"), oc.exp(y)])
    assert [problem.label for problem in error.value.problems] == ["first", "second"]
    assert str(error.value).splitlines()[1:] == [
        "  `first`: `lgamma` is no operator of ONNX", "  `second`: the host call `det` is no operator of ONNX",
    ]  # fmt: skip


def test_what_is_not_used_needs_no_form():
    assert oc.onnx.export(oc.fst(x, oc.lgamma(x))) is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda: {"outputs": 3}, "tensors are exported, not 3"),
        (lambda: {"outputs": {}}, "a model has outputs"),
        (lambda: {"outputs": [x, 3]}, "tensors are exported"),
        (lambda: {"outputs": nn.lenet()}, "a function of tensors is exported with its operands"),
        (lambda: {"outputs": x, "inputs": {"x": oc.exp(x)}}, "the input 'x' is not a placeholder"),
        (lambda: {"outputs": x, "inputs": [1]}, "`inputs` are placeholders"),
        (lambda: {"outputs": x, "opset": 19}, "models are exported with opsets from 20 to"),
        (lambda: {"outputs": x, "opset": 10**6}, "models are exported with opsets from 20 to"),
        (lambda: {"outputs": x, "opset": "21"}, "`opset` is a version of the operators"),
        (lambda: {"outputs": x, "external_data": True}, "external data are stored beside a file"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(oc.ArgumentError, match=message):
        oc.onnx.export(**arguments())


def test_imported_models_are_exported():
    w, b = (RANDOM.normal(size=dims).astype("float32") for dims in [(4, 3), (3,)])
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["sum"]),
        helper.make_node("Softmax", ["sum"], ["y"], axis=-1),
    ]
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, d) for n, d in [("x", [5, 4]), ("y", [5, 3])]]
    arrays = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")]
    original = helper.make_model(helper.make_graph(nodes, "net", values[:1], values[1:], arrays))
    original.opset_import[0].version, original.ir_version = 18, 9
    imported = oc.onnx.load(original)
    again = oc.onnx.export(imported.outputs, inputs=imported.inputs, ctx=oc.Context("numpy"))
    feeds = {"x": RANDOM.normal(size=(5, 4)).astype("float32")}
    actual, expected = (session(model).run(None, feeds)[0] for model in (again, original))
    assert [node.op_type for node in again.graph.node] == ["MatMul", "Add", "Softmax"]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_command(tmp_path, monkeypatch):
    testing = pytest.importorskip("typer.testing")
    from ocannl.cli.app import build

    (tmp_path / "exported_net.py").write_text(
        "import ocannl as oc\n"
        "def build():\n    x = oc.placeholder('x', b=[2], i=[], o=[3])\n    return oc.exp(x)\n"
        "def gamma():\n    return oc.lgamma(build())\n"
        "def weighted():\n    return oc.param('w', 1.0, b=[], i=[], o=[2]) * 2.0\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    runner = testing.CliRunner()
    done = runner.invoke(build(), ["onnx", "export", "exported_net:build", "net.onnx"])
    assert (done.exit_code, done.output) == (0, "net.onnx: 1 nodes, 0 constants\n")
    assert [node.op_type for node in onnx.load("net.onnx").graph.node] == ["Exp"]
    done = runner.invoke(build(), ["onnx", "export", "exported_net:build", "any.onnx", "--dynamic", "x:0=batch"])
    assert done.exit_code == 0, done.output
    assert session("any.onnx").run(None, {"x": np.zeros((5, 3), "float32")})[0].shape == (5, 3)
    for option, reason in {"x=batch": "INPUT:AXIS=SIZE", "y:0=batch": "not an input", "x:2=batch": "no axis 2"}.items():
        done = runner.invoke(build(), ["onnx", "export", "exported_net:build", "no.onnx", "--dynamic", option])
        assert done.exit_code != 0 and reason in f"{done.output} {done.exception}"
    twice = ["--dynamic", "x:0=batch", "--dynamic", "x:0=rows"]
    done = runner.invoke(build(), ["onnx", "export", "exported_net:build", "no.onnx", *twice])
    assert done.exit_code != 0 and "two sizes" in done.output
    refused = runner.invoke(build(), ["onnx", "export", "exported_net:gamma", "other.onnx"])
    assert isinstance(refused.exception, oc.onnx.UnsupportedModel)
    assert not (tmp_path / "other.onnx").exists()
    w = oc.param("w", 1.0, b=[], i=[], o=[2])
    ctx = oc.Context("numpy")
    ctx[w] = np.array([3.0, 4.0])
    oc.save(tmp_path / "w.safetensors", ctx, w * 2.0)
    done = runner.invoke(build(), ["onnx", "export", "exported_net:weighted", "w.onnx", "--weights", "w.safetensors"])
    assert done.exit_code == 0, done.output
    assert session("w.onnx").run(None, {})[0].tolist() == [6.0, 8.0]


def test_order_statistics():
    quantiles = oc.quantile(x, [0.1, 0.8], "b|a => a"), oc.quantile(x, 0.4, method="nearest"), oc.median(x)
    check([*quantiles, oc.kthvalue(x, 3), oc.kthvalue(ids, 2, "b,c| => b|")], {"x": x, "ids": ids})
