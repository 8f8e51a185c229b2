"""`ocannl demo NAME`: output, plots and requirements."""

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
from ocannl.demos.catalogue import DEMOS

BACKENDS = [row.name for row in oc.backends() if row.usable and row.name != "numpy"]


def demo(*arguments):
    return CliRunner().invoke(build(), ["demo", "digits", *map(str, arguments)])


def report(result):
    return {line[:14].strip(): line[15:] for line in result.stdout.splitlines()}


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


@pytest.mark.slow
def test_report_of_a_successful_run(backend, tmp_path):
    result = demo("--backend", backend, "--out", tmp_path / "deep" / "digits.png")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    fields = report(result)
    assert list(fields) == ["backend", "network", "test accuracy", "compile time", "time per step", "picture"]
    assert fields["backend"] == backend
    assert fields["network"] == "64-64-10, 4810 parameters, 1040 steps of 50 digits"
    assert float(fields["test accuracy"].partition(",")[0]) >= 0.96
    assert "\x1b" not in result.output


def test_plot_is_a_readable_image(backend, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    out = tmp_path / "digits.png"
    result = demo("--backend", backend, "--epochs", 2, "--out", out)
    assert report(result)["picture"] == str(out)
    height, width, _ = image.imread(out).shape
    assert (height, width) == (750, 1650)


@pytest.mark.slow
def test_accuracy_equals_that_of_the_reference_backend(backend, tmp_path):
    results = [demo("--backend", name, "--epochs", 2, "--out", tmp_path / "d.png") for name in ("numpy", backend)]
    accuracies = [float(report(result)["test accuracy"].partition(",")[0]) for result in results]
    assert accuracies[1] == pytest.approx(accuracies[0], abs=0.02)


def test_low_accuracy_is_a_failure(tmp_path):
    result = demo("--backend", "numpy", "--epochs", 1, "--rate", 0, "--out", tmp_path / "d.png")
    assert result.exit_code == 1
    assert "is below the required accuracy of 0.96" in result.stderr


def test_missing_scikit_learn_is_reported_with_an_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    result = demo()
    assert result.exit_code == 1
    assert result.stdout == ""
    assert 'run: pip install "ocannl-core[demo]"' in result.stderr


def test_without_matplotlib_no_plot_is_written(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = demo("--backend", "numpy", "--epochs", 4, "--out", tmp_path / "d.png")
    assert 'pip install "ocannl-core[viz]"' in report(result)["picture"]
    assert not (tmp_path / "d.png").exists()


@pytest.mark.parametrize("name", ["d.xyz", "file/d.png"])
def test_unwritable_plot_is_a_reported_failure(tmp_path, name):
    pytest.importorskip("matplotlib")
    (tmp_path / "file").touch()
    result = demo("--backend", "numpy", "--epochs", 1, "--out", tmp_path / name)
    assert result.exit_code == 1
    assert "the picture could not be written" in result.stderr


@pytest.mark.parametrize("arguments", [["--epochs", 0], ["--batch", 1301], ["--hidden", 0], ["--rate", -1]])
def test_out_of_range_options_are_rejected(arguments):
    assert demo(*arguments).exit_code == 2


def test_extreme_sizes(tmp_path):
    result = demo("--backend", "numpy", "--epochs", 1, "--hidden", 1, "--batch", 1300, "--out", tmp_path / "d.png")
    assert "64-1-10, 85 parameters, 1 steps of 1300 digits" in result.stdout


@pytest.mark.slow
def test_terminal_shows_a_progress_bar(backend, tmp_path):
    pty = pytest.importorskip("pty")
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "ocannl.cli", "demo", "digits", "--backend", backend, "--epochs", "5"]
    environment = {**child_environment(), "TERM": "xterm", "COLUMNS": "100"}
    command += ["--out", str(tmp_path / "d.png")]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, env=environment):
        os.close(terminal)
        output = b""
        try:
            while more := os.read(controller, 4096):
                output += more
        except OSError:  # Linux reports the closed terminal as an error
            pass
    os.close(controller)
    assert b"epoch" in output
    assert b"loss" in output
    assert b"accuracy" in output


# --- the other demonstrations ---


def short_demo(name, *arguments):
    return CliRunner().invoke(build(), ["demo", name, *map(str, arguments)])


LANGUAGE = ("names", "text")


@pytest.mark.slow
@pytest.mark.parametrize("name", LANGUAGE)
def test_language_models_write(name):
    result = short_demo(name, "--backend", BACKENDS[0], "--epochs", 1)
    fields = report(result)
    assert float(fields["validation"].split()[0]) < 3.0
    assert "sample" in fields


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DEMOS.keys() - set(LANGUAGE)))
def test_demos_reach_what_they_require(name, tmp_path):
    result = short_demo(name, "--backend", BACKENDS[0], "--out", tmp_path / "deep" / "picture.png")
    assert result.exit_code == 0, result.output
    fields = report(result)
    assert list(fields)[:2] == ["backend", "network"]
    assert fields["backend"] == BACKENDS[0]
    if "picture" in fields:
        image = pytest.importorskip("matplotlib.image")
        assert image.imread(tmp_path / "deep" / "picture.png").std() > 0.05


def test_a_demo_that_is_worse_than_required_fails(tmp_path):
    result = short_demo("wine", "--backend", BACKENDS[0], "--epochs", 1)
    assert result.exit_code == 1
    assert "is below the required" in result.stderr


def test_demos_without_their_data_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    result = short_demo("moons", "--backend", BACKENDS[0])
    assert result.exit_code == 1
    assert 'pip install "ocannl-core[demo]"' in result.stderr
