"""RNN, GRU and LSTM with all attributes, compared with ONNX Runtime."""

import numpy as np
import pytest

import ocannl as oc

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import helper  # noqa: E402

import ocannl_onnx  # noqa: E402

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 6
CASES = [
    ("RNN", {}),
    ("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.25]}),
    ("RNN", {"activations": ["LeakyRelu"], "clip": 0.5}),
    ("RNN", {"activations": ["ScaledTanh", "HardSigmoid"], "activation_alpha": [0.5, 0.3],
             "activation_beta": [0.7, 0.4], "direction": "bidirectional"}),
    ("GRU", {}),
    ("GRU", {"linear_before_reset": 1}),
    ("GRU", {"activations": ["Softsign", "Relu"], "direction": "reverse"}),
    ("GRU", {"direction": "bidirectional", "linear_before_reset": 1, "clip": 0.3}),
    ("LSTM", {}),
    ("LSTM", {"input_forget": 1}),
    ("LSTM", {"direction": "reverse", "activations": ["HardSigmoid", "Softplus", "ThresholdedRelu"],
              "activation_alpha": [0.3, 0.2], "activation_beta": [0.4]}),
    ("LSTM", {"direction": "bidirectional", "clip": 0.4}),
]  # fmt: skip


def _model(operator, attributes, optional, opset=17):
    gates, states = GATES[operator], 2 if operator == "LSTM" else 1
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rng = np.random.default_rng(7)

    def values(*dims):
        return rng.uniform(-0.8, 0.8, dims).astype(np.float32)

    weights = {
        "w": values(directions, gates * HIDDEN, INPUTS),
        "r": values(directions, gates * HIDDEN, HIDDEN),
    }
    inputs = {"x": values(STEPS, BATCH, INPUTS)}
    names = ["x", "w", "r", "", "", ""] + [""] * (2 if operator == "LSTM" else 0)
    if "bias" in optional:
        weights["b"], names[3] = values(directions, 2 * gates * HIDDEN), "b"
    if "lengths" in optional:
        inputs["lengths"], names[4] = np.array([5, 2, 3], np.int32), "lengths"
    if "states" in optional:
        for n in range(states):
            inputs[f"s{n}"], names[5 + n] = values(directions, BATCH, HIDDEN), f"s{n}"
    if "peepholes" in optional and operator == "LSTM":
        weights["p"], names[7] = values(directions, 3 * HIDDEN), "p"
    outputs = ["y", "y_h", "y_c"][: 1 + states]
    node = helper.make_node(operator, names, outputs, hidden_size=HIDDEN, **attributes)
    kinds = {np.dtype(np.float32): onnx.TensorProto.FLOAT, np.dtype(np.int32): onnx.TensorProto.INT32}
    graph = helper.make_graph(
        [node], "recurrent",
        [helper.make_tensor_value_info(name, kinds[value.dtype], value.shape) for name, value in inputs.items()],
        [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [f"{name}_{n}" for n in range(rank)])
            for name, rank in zip(outputs, (4, 3, 3), strict=False)
        ],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]), inputs


def _check(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = ocannl_onnx.load(model).compile().run(inputs)
    for actual, expected in zip(results, session.run(None, inputs), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optional", [(), ("bias", "states"), ("bias", "lengths", "states", "peepholes")], ids=str)
@pytest.mark.parametrize(("operator", "attributes"), CASES, ids=str)
def test_agrees_with_onnx_runtime(operator, attributes, optional):
    _check(*_model(operator, attributes, optional))


@pytest.mark.parametrize("operator", GATES)
def test_operator_set_7(operator):
    _check(*_model(operator, {"direction": "bidirectional"}, ("bias", "states"), opset=7))


@pytest.mark.parametrize("operator", GATES)
def test_layout_by_batch(operator):
    """`layout=1`, which ONNX Runtime lacks, exchanges steps and batch of the inputs and outputs."""
    model, inputs = _model(operator, {"direction": "bidirectional"}, ("bias", "states"))
    expected = ocannl_onnx.load(model).compile().run(inputs)
    model, inputs = _model(operator, {"direction": "bidirectional", "layout": 1}, ("bias", "states"))
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        dims[0].dim_value, dims[1].dim_value = dims[1].dim_value, dims[0].dim_value
    y, *last = ocannl_onnx.load(model).compile().run({k: np.swapaxes(v, 0, 1) for k, v in inputs.items()})
    np.testing.assert_allclose(y, expected[0].transpose(2, 0, 1, 3), rtol=1e-6)
    for actual, state in zip(last, expected[1:], strict=True):
        np.testing.assert_allclose(actual, state.transpose(1, 0, 2), rtol=1e-6)


@pytest.mark.parametrize("operator", GATES)
def test_gradients(operator):
    model, _ = _model(operator, {}, ("bias",))
    imported = ocannl_onnx.load(model)
    x = oc.param("x", np.random.default_rng(0).normal(size=(2, 2, INPUTS)), b=[], i=[], o=[2, 2, INPUTS])
    loss = (imported(x)[0] ** 2).sum()
    assert set(imported.parameters) == {"w", "r", "b"}
    assert all(p.grad is not None for p in imported.parameters.values())
    with oc.Context() as ctx:
        ctx.init(loss)
        ctx.run(oc.train.grad_update(loss))
        assert all(np.abs(ctx[p.grad]).max() > 0 for p in imported.parameters.values())


def test_unknown_activation_is_refused():
    model, _ = _model("RNN", {"activations": ["Gelu"]}, ())
    with pytest.raises(ocannl_onnx.UnsupportedModel, match="activation 'Gelu'"):
        _ = ocannl_onnx.load(model).outputs
