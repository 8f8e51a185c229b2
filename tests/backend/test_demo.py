"""`ocannl demo digits`: what it says, what it draws, and what it needs."""

import os
import subprocess
import sys

import pytest

import ocannl as oc

pytest.importorskip("typer")
pytest.importorskip("sklearn")

from typer.testing import CliRunner

from ocannl.base.config import child_environment
from ocannl.cli.app import build

BACKENDS = [row.name for row in oc.backends() if row.usable and row.name != "numpy"]


def demo(*words):
    return CliRunner().invoke(build(), ["demo", "digits", *map(str, words)])


def said(result):
    return {line[:14].strip(): line[15:] for line in result.stdout.splitlines()}


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def test_it_learns_and_says_plainly_what_it_reached(backend, tmp_path):
    result = demo("--backend", backend, "--out", tmp_path / "deep" / "digits.png")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    words = said(result)
    assert list(words) == ["backend", "network", "test accuracy", "compile time", "time per step", "picture"]
    assert words["backend"] == backend
    assert words["network"] == "64-64-10, 4810 parameters, 1040 steps of 50 digits"
    assert float(words["test accuracy"].partition(",")[0]) >= 0.96
    assert "\x1b" not in result.output


def test_the_picture_can_be_looked_at(backend, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    out = tmp_path / "digits.png"
    result = demo("--backend", backend, "--epochs", 2, "--out", out)
    assert said(result)["picture"] == str(out)
    height, width, _ = image.imread(out).shape
    assert (height, width) == (750, 1650)


def test_it_learns_what_the_reference_learns(backend, tmp_path):
    results = [demo("--backend", name, "--epochs", 2, "--out", tmp_path / "d.png") for name in ("numpy", backend)]
    accuracies = [float(said(result)["test accuracy"].partition(",")[0]) for result in results]
    assert accuracies[1] == pytest.approx(accuracies[0], abs=0.02)


def test_too_little_accuracy_is_a_failure(tmp_path):
    result = demo("--backend", "numpy", "--epochs", 1, "--rate", 0, "--out", tmp_path / "d.png")
    assert result.exit_code == 1
    assert "is below 0.96" in result.stderr


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    result = demo()
    assert result.exit_code == 1
    assert result.stdout == ""
    assert 'run: pip install "ocannl-core[demo]"' in result.stderr


def test_without_matplotlib_there_is_just_no_picture(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = demo("--backend", "numpy", "--epochs", 4, "--out", tmp_path / "d.png")
    assert 'pip install "ocannl-core[viz]"' in said(result)["picture"]
    assert not (tmp_path / "d.png").exists()


@pytest.mark.parametrize("name", ["d.xyz", "file/d.png"])
def test_a_picture_that_cannot_be_written_is_a_failure_in_words(tmp_path, name):
    pytest.importorskip("matplotlib")
    (tmp_path / "file").touch()
    result = demo("--backend", "numpy", "--epochs", 1, "--out", tmp_path / name)
    assert result.exit_code == 1
    assert "the picture could not be written" in result.stderr


@pytest.mark.parametrize("words", [["--epochs", 0], ["--batch", 1301], ["--hidden", 0], ["--rate", -1]])
def test_numbers_out_of_range_are_refused(words):
    assert demo(*words).exit_code == 2


def test_sizes_at_the_edge_are_fine(tmp_path):
    result = demo("--backend", "numpy", "--epochs", 1, "--hidden", 1, "--batch", 1300, "--out", tmp_path / "d.png")
    assert "64-1-10, 85 parameters, 1 steps of 1300 digits" in result.stdout


def test_somebody_at_a_terminal_sees_a_bar(backend, tmp_path):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ocannl.cli", "demo", "digits", "--backend", backend, "--epochs", "5"]
    environment = {**child_environment(), "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [*command, "--out", tmp_path / "d.png"], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment
    ):
        os.close(theirs)
        seen = b""
        try:
            while more := os.read(ours, 4096):
                seen += more
        except OSError:  # how Linux says that the other side is gone
            pass
    os.close(ours)
    assert b"epoch" in seen
    assert b"loss" in seen
    assert b"accuracy" in seen
