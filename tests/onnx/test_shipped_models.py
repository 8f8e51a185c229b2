"""Models in installed packages: the examples that run them, and gradients of all of their parameters together."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, numpy_helper  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def file_of(package: str, *parts: str) -> Path:
    """A file of an installed package; the test is skipped without it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"the package {package}, which contains a model, is not installed")
    return Path(spec.origin).parent.joinpath(*parts)


def test_shipped_models(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    module = example("shipped_models")
    with pytest.raises(SystemExit, match="pip install --no-deps no-such-package"):
        module.file_of("no_such_package", "model.onnx")
    file_of("magika")
    pytest.importorskip("onnxruntime")
    assert 0 < module.main() < 1e-4
    assert "in 1 runs" in capsys.readouterr().out


def test_file_types(example: Any, tmp_path: Path) -> None:
    module = example("file_types")
    (tmp_path / "short").write_bytes(b"  ab ")
    (tmp_path / "long").write_bytes(bytes(range(33, 133)) * 50)
    short, long = module.tokens(tmp_path / "short"), module.tokens(tmp_path / "long")
    assert short[:3].tolist() == [97, 98, 32] and short[-3:].tolist() == [32, 97, 98] and (short == 256).sum() == 2041
    assert long[0] == 33 and long[1024] == (5000 - 1024) % 100 + 33 and long[-1] == 132 and (long < 256).all()
    file_of("magika")
    (tmp_path / "a").write_text("[project]\nname = 'a'\nversion = '1'\ndependencies = ['b', 'c']\n")
    assert module.main([__file__, tmp_path / "a"]) == ["python", "toml"]


def test_transcribe_notes(example: Any) -> None:
    module = example("transcribe_notes")
    sounding, starting = np.zeros((200, 88)), np.zeros((200, 88))
    sounding[20:60, 39], sounding[80:120, 51] = 0.9, 0.8
    starting[20, 39], starting[80, 51] = 0.9, 0.7
    notes = module.notes_of(sounding, starting)
    assert [pitch for pitch, _, _ in notes] == [60, 72]
    np.testing.assert_allclose([times for _, *times in notes], np.array([[20, 60], [80, 120]]) * 256 / 22050)
    file_of("basic_pitch")
    notes = module.main(module.synthesized(module.MELODY[:4]))
    assert [pitch for pitch, _, _ in notes] == [pitch for pitch, _ in module.MELODY[:4]]


def test_read_text(example: Any) -> None:
    pytest.importorskip("scipy")
    module = example("read_text")
    picture = module.drawn(["ab", "c"])
    assert picture.size == (448, 160) and np.asarray(picture).min() == 0

    def reader(x: Any) -> list[Any]:
        return [np.eye(4)[[0, 2, 2, 0, 2, 1, 3]][None]]

    assert module.text_of(picture, reader, ["a", "b", " "]) == "bba "
    file_of("rapidocr")
    assert module.main(module.drawn()) == list(module.LINES)


def test_read_captcha(example: Any) -> None:
    pytest.importorskip("PIL")
    module = example("read_captcha")
    assert module.drawn("ab12", 0).size == (module.WIDTH, module.HEIGHT)
    file_of("ddddocr")
    pictures = [module.drawn(word, seed) for seed, word in enumerate(module.TEXTS)]
    assert module.main(pictures) == list(module.TEXTS)


def test_stream_speech(example: Any) -> None:
    file_of("silero_vad")
    module = example("stream_speech")
    probabilities = np.array(module.main(module.synthesized()))
    assert probabilities[:25].max() < 0.1 and probabilities.max() > 0.5


def test_fine_tune_onnx(example: Any) -> None:
    pytest.importorskip("sklearn")
    path = file_of("rapidocr", "models", "ch_ppocr_mobile_v2.0_cls_mobile.onnx")
    module = example("fine_tune_onnx")
    network = oc.onnx.load(path)
    fitted = module.fine_tune(network, epochs=2, count=400)
    assert fitted.losses[0] > 2 and np.mean(fitted.losses[-4:]) < 0.8 * fitted.losses[0]
    stem = network.parameters["conv1_weights"]
    assert np.abs(fitted.ctx[stem] - oc.onnx.load(path).parameters["conv1_weights"].numpy()).max() > 1e-4


# --- gradients -------------------------------------------------------------------------------------------------------

NETWORKS = {
    "magika": ("magika", "models", "standard_v3_3", "model.onnx"),
    "basic_pitch": ("basic_pitch", "saved_models", "icassp_2022", "nmp.onnx"),
    "silero_vad": ("silero_vad", "data", "silero_vad_16k_op15.onnx"),
    "direction_of_text": ("rapidocr", "models", "ch_ppocr_mobile_v2.0_cls_mobile.onnx"),
}


def inputs_of(name: str, rng: np.random.Generator) -> list[Any]:
    if name == "magika":
        return [rng.integers(0, 256, (1, 2048)).astype("int32")]
    if name == "silero_vad":
        return [rng.normal(size=(1, 576)), rng.normal(size=(2, 1, 128)), np.array(16000)]
    return [rng.normal(size={"basic_pitch": (1, 43844, 1), "direction_of_text": (1, 3, 48, 48)}[name])]


def in_double_precision(model: Any) -> Any:
    """The model with all floating-point values in float64, in which differences are accurate."""
    graph = model.graph
    attributes = [attribute for node in graph.node for attribute in node.attribute]
    for tensor in (*graph.initializer, *(a.t for a in attributes if a.HasField("t"))):
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float64"), tensor.name))
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for attribute in attributes:
        if attribute.name == "to" and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE
    return model


LENGTHS = (1e-6, 1e-7, 1e-8, 1e-9)
"""Of the differences: long ones cross kinks of Relu and maxima, short ones are inaccurate."""


def deviation(parameter: Any) -> float:
    values = np.asarray(parameter.node.contents.array(parameter.dims, parameter.node.precision, 0))
    return float(values.std()) if np.isfinite(values).all() else 0.0


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_shipped_models(name: str) -> None:
    """The derivative along a random direction of all parameters, beside differences of the outputs."""
    rng = np.random.default_rng(1)
    model = oc.onnx.load(in_double_precision(onnx.load(file_of(*NETWORKS[name]))))
    outputs = model(*map(oc.tensor, inputs_of(name, rng)))
    graph = oc.graph(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    step = oc.param("step", 0.0, b=[], i=[], o=[], dtype="float64")
    moved = {
        p: p + step * oc.tensor(0.1 * deviation(p) * rng.normal(size=p.dims)) for p in graph.params.values()
    }  # fmt: skip
    assert len(moved) == len(model.parameters) >= 12
    results = graph.feed(moved).outputs
    loss = sum((y * oc.tensor(rng.normal(size=y.dims))).sum() for y in results)
    ctx = oc.Context()
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    gradient, forward = float(ctx[step.grad]), ctx.compile(loss.forward)

    def value(length: float) -> float:
        ctx[step] = np.array(length)
        forward()
        return float(ctx[loss])

    differences = [(value(length) - value(-length)) / (2 * length) for length in LENGTHS]
    assert min(abs(gradient - difference) for difference in differences) < 2e-5 * abs(gradient), (gradient, differences)


@pytest.mark.parametrize("name", NETWORKS)
def test_shipped_models_train(name: str) -> None:
    """The first output of a model approaches its reverse."""
    rng = np.random.default_rng(2)
    model = oc.onnx.load(file_of(*NETWORKS[name]))
    arrays = [x.astype("float32") if x.dtype == "float64" else x for x in inputs_of(name, rng)]
    outputs = model(*map(oc.tensor, arrays))
    y = outputs[0] if isinstance(outputs, tuple) else outputs
    loss = ((y - oc.tensor(1 - y.numpy())) ** 2).mean()
    ctx = oc.Context()
    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss, 1e-3)))
    losses = []
    for _ in range(8):
        step()
        losses.append(float(ctx[loss]))
    assert losses[-1] < losses[0], losses
