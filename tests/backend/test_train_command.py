"""`ocannl train CONFIG.toml`: runs, continued runs, and mistakes in the file."""

import sys

import numpy as np
import pytest

import ocannl as oc
from ocannl.cli.training_config import read_config

pytest.importorskip("typer")

from typer.testing import CliRunner

from ocannl.cli.app import build

BACKEND = next(row.name for row in oc.backends() if row.usable)
CONFIG = """
model = "mlp"
loss = "cross_entropy"
data = "points.npz"
validation = "more.npz"
metrics = ["accuracy"]
batch = 20
epochs = 8
backend = "BACKEND"
log = "run.csv"
checkpoint = "run.safetensors"

[settings]
widths = [16, 2]

[optimizer]
name = "adam"
learning_rate = {name = "cosine_decay", initial = 3e-2, steps = 80}
""".replace("BACKEND", BACKEND)


def columns(seed):
    x = np.random.default_rng(seed).normal(size=(200, 2)).astype("float32")
    return {"x": x, "label": (x.prod(1) > 0).astype("int32")}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("points.npz", **columns(0))
    np.savez("more.npz", **columns(1))
    return tmp_path


def run(text, *arguments):
    with open("run.toml", "w", encoding="utf-8") as file:
        file.write(text)
    return CliRunner().invoke(build(), ["train", "run.toml", *arguments])


def test_a_run_is_logged_and_continued(folder):
    result = run(CONFIG)
    assert result.exit_code == 0, result.output
    *epochs, last = result.stdout.splitlines()
    assert len(epochs) == 8
    assert float(epochs[-1].split()[-1]) > 0.85
    assert last.startswith("loss 0.") and "after 80 steps" in last
    assert len((folder / "run.csv").read_text().splitlines()) == 9
    longer = run(CONFIG, "--epochs", "10")
    assert longer.exit_code == 0, longer.output
    assert "after 20 steps" in longer.stdout


def test_functions_of_modules(folder, monkeypatch):
    (folder / "own_model.py").write_text(
        "import numpy as np\n"
        "from ocannl import nn\n"
        "def build(width):\n"
        "    return nn.linear(width=width)\n"
        "def data():\n"
        "    x = np.eye(4, dtype='float32')\n"
        "    return {'x': x, 'y': 2 * x[:, :1]}\n"
        "def loss(y, target):\n"
        "    return (y - target) ** 2\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    result = run(
        'model = "own_model:build"\ndata = "own_model:data"\nloss = "own_model:loss"\nbatch = 4\nepochs = 60\n'
        f'backend = "{BACKEND}"\nsettings = {{width = 1}}\noptimizer = {{name = "sgd", learning_rate = 0.5}}\n'
    )
    assert result.exit_code == 0, result.output
    assert float(result.stdout.split()[1]) < 1e-3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("batch =", "bach =", "unknown key `bach`: did you mean `batch=`?"),
        ("batch = 20", 'batch = "20"', "`batch` is of the type int, and not '20'"),
        ("epochs = 8", "", "has no `epochs`"),
        ('"mlp"', '"mpl"', "`model` has no 'mpl': did you mean `mlp`?"),
        ('"mlp"', '"nothing_at_all:build"', "the module 'nothing_at_all' cannot be imported"),
        ('"cross_entropy"', '"cross_entropie"', "did you mean `cross_entropy`?"),
        ('"adam"', '"adamm"', "did you mean `adam`?"),
        ('name = "adam"', "", "`optimizer` has the name of an optimizer"),
        ("steps = 80", "step = 80", "did you mean `steps=`?"),
        ("widths", "width", "`settings`: nn.mlp has no argument `width=`"),
        ('["accuracy"]', '["acuracy"]', "did you mean `accuracy`?"),
        ("points.npz", "run.toml", "are neither a file .npz nor MODULE:FUNCTION: it holds no plain arrays"),
        ("points.npz", "none.npz", "No such file"),
        ("model =", "model", "run.toml cannot be read"),
    ],
)
def test_mistakes_in_the_file(folder, old, new, message):
    result = run(CONFIG.replace(old, new, 1))
    assert isinstance(result.exception, oc.OcannlError)
    assert message in str(result.exception)


def test_arrays_of_objects_are_not_loaded(folder):
    np.savez("points.npz", x=np.array([{"a": 1}], dtype=object))
    result = run(CONFIG)
    assert isinstance(result.exception, oc.ConfigError)


def test_every_key_is_read(folder):
    run(CONFIG)
    assert read_config(folder / "run.toml").optimizer["name"] == "adam"
