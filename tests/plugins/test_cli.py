"""The command line, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

MACHINES = Path(__file__).parents[1] / "machines"


@pytest.fixture
def ocannl(tmp_path):
    def call(*arguments, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OCANNL_")}
        environment |= {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "COLUMNS": "100", **variables}
        command = [sys.executable, "-m", "ocannl.cli", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    return call


@pytest.mark.slow
def test_missing_libraries_name_the_pip_command(tmp_path):
    code = (
        "import importlib.util as u, sys; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name in ('typer', 'rich') else real(name, *a)\n"
        "import ocannl.cli; ocannl.cli.main()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "ocannl: the command line needs typer and rich; run: pip install 'ocannl-core[cli]'\n"


def test_help_names_the_commands(ocannl):
    done = ocannl("--help")
    assert done.returncode == 0
    for command in ("backends", "config", "doctor"):
        assert command in done.stdout


def test_the_settings_and_where_they_come_from(ocannl, tmp_path):
    (tmp_path / "ocannl.toml").write_text("seed = 7\n")
    done = ocannl("config", "--explain", OCANNL_CACHE="off", OCANNL_UNHEARD_OF="1")
    rows = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    assert rows["seed"].startswith(f"7\t{tmp_path / 'ocannl.toml'}\tOCANNL_SEED\t")
    assert rows["cache"].startswith("off\tOCANNL_CACHE\t")
    assert rows["backend"].startswith("-\tdefault\t")
    assert "OCANNL_UNHEARD_OF is set in the environment and is no setting" in done.stderr
    assert "seed = 7" in ocannl("config").stdout.splitlines()


@pytest.mark.slow
def test_trusted_folders(ocannl, tmp_path):
    variables = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "home")}
    (tmp_path / "ocannl.toml").write_text("c_compiler = 'clang'\n")
    done = ocannl("config", CC="", **variables)
    assert "c_compiler = -" in done.stdout and f"ocannl config trust {tmp_path}" in done.stderr
    assert ocannl("config", "trust", ".", **variables).returncode == 0
    assert ocannl("config", "trust", **variables).stdout == f"{os.path.realpath(tmp_path)}\n"
    done = ocannl("config", CC="", **variables)
    assert "c_compiler = clang" in done.stdout and not done.stderr
    assert ocannl("config", "trust", "--remove", str(tmp_path), **variables).returncode == 0
    assert ocannl("config", "trust", **variables).stdout == ""


def test_user_error_is_single_line_with_status_1(ocannl):
    done = ocannl("config", OCANNL_SEED="many")
    assert done.returncode == 1
    assert done.stderr == "ConfigError: seed = 'many', from OCANNL_SEED: expected an integer of at least 0\n"
    done = ocannl("config", OCANNL_BAKEND="llvm")
    assert done.stderr == (
        "ConfigError: unknown setting `OCANNL_BAKEND` (environment); did you mean `OCANNL_BACKEND`?\n"
    )


def test_doctor_lists_installed_backends(ocannl):
    done = ocannl("doctor", "numpy")
    assert done.returncode == 0
    assert "numpy\tPASS\tworks: " in done.stdout
    done = ocannl("doctor", "nothing")
    assert done.returncode == 1
    assert done.stderr.startswith("UnknownBackend: no backend `nothing` is installed; there are ")


@pytest.mark.slow
def test_doctor_describes_the_processor(ocannl, tmp_path):
    file = tmp_path / "cpu.json"
    done = ocannl("doctor", "numpy", "--save-cpu", str(file), OCANNL_CPU=str(MACHINES / "granite_rapids.json"))
    assert "processor\tdescription\n" in done.stdout
    assert "TLB\t96 and 2048 pages of 4 KiB; a miss takes 8 and 64 cycles\n" in done.stdout
    assert file.read_bytes() == (MACHINES / "granite_rapids.json").read_bytes()
    done = ocannl("doctor", "numpy", "--save-cpu", str(tmp_path / "none" / "cpu.json"))
    assert done.returncode == 1
    assert re.match("ArgumentError: the description of the processor .* cannot be written: ", done.stderr)


@pytest.mark.slow
def test_the_version(ocannl):
    assert ocannl("--version").stdout.strip()


@pytest.mark.slow
def test_operations_are_listed_by_parts_of_their_names(ocannl):
    done = ocannl("ops", "LOG_softmax", "OC.Softmax", "Conv?D")
    calls = [line.partition("(")[0] for line in done.stdout.splitlines()[1:]]
    expected = ["oc.conv1d", "oc.conv2d", "oc.conv3d", "oc.log_softmax", "oc.softmax"]
    assert [call for call in calls if not call.startswith("oc.softmax_")] == expected
    assert "oc.softmax(x, spec: str | None = None, **names: Any)\t`exp(x) / sum(exp(x))` over" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Sigmoidal", "did you mean `sigmoid`"),
        ("zzzz", "`ocannl ops` lists all operations"),
    ],
)
def test_an_unknown_operation_is_an_error(ocannl, name, advice):
    done = ocannl("ops", "relu", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"UnknownName: no operation matches `{name}`; {advice}")


@pytest.mark.slow
def test_generated_text_is_written_to_a_folder(ocannl, tmp_path):
    folder = tmp_path / "a" / "b"
    done = ocannl("ops", "relu6", "--generate", "json", "--output", str(folder))
    assert done.stdout.split() == [str(folder / "ocannl.json")]
    (operation,) = json.loads((folder / "ocannl.json").read_text(encoding="utf-8"))["operations"]
    assert operation["call"] == "oc.relu6"
    assert ocannl("ops", "relu6", "--output", str(folder)).stdout.split() == [str(folder / "ocannl.md")]
    assert "## relu6\n" in (folder / "ocannl.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_generated_source_is_printed(ocannl):
    done = ocannl("ops", "oc.take", "--generate", "functions")
    assert "\ndef take(t: object, ids: object, *, label: str | None = None) -> Tensor:\n" in done.stdout
    done = ocannl("ops", "--generate", "nothing")
    generators = "functions, methods, json, peers, reference"
    assert done.stderr == f"PluginError: unknown generator `nothing`; there are {generators}\n"
    assert (done.returncode, done.stdout) == (1, "")


DEFECT = """
import numpy as np, ocannl as oc, sys, warnings
from ocannl.opt import pipeline
def fail(proc):
    raise KeyError("seeded")
pipeline.simplify = fail
y = (oc.tensor(np.ones((2, 3), "float32"), batch_axes=1, label="x") * 2.0).with_label("y")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    oc.Context("numpy").compile(y.forward)
assert [w.category for w in caught] == [oc.DefectWarning]
"""


@pytest.mark.slow
def test_replay_of_a_defect(ocannl, tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OCANNL_")}
    environment |= {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "OCANNL_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", DEFECT], env=environment, check=True, timeout=120)
    (file,) = (tmp_path / "defects").iterdir()
    done = ocannl("replay", str(file))
    assert (done.returncode, done.stderr) == (1, "")
    assert "no pass fails; the file reports `simplify`: KeyError: 'seeded'" in done.stdout
    text = file.read_text()
    file.write_text(text.replace('"Store"', '"eval"'))
    done = ocannl("replay", str(file))
    assert done.returncode == 2 and "does not hold a lowered program: KeyError: 'eval'" in done.stderr
    assert ocannl("replay", str(tmp_path / "missing")).returncode == 2
    seeded = f"{DEFECT}\nfrom ocannl.cli.app import run\nsys.argv[1:] = ['replay', {str(file)!r}, '--show']\nrun()"
    file.write_text(text)
    done = subprocess.run([sys.executable, "-c", seeded], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "the compiler pass `simplify` fails on `y_forward`: KeyError: 'seeded'\nproc y_forward\n" in done.stdout


def test_lines_of_a_tree() -> None:
    show = pytest.importorskip("ocannl.cli.show")
    items = [(0, "total"), (1, "encoder"), (2, "layer"), (3, "w"), (3, "b"), (2, "layer_2"), (3, "w"), (1, "head")]
    assert show.tree(items) == [
        "total",
        "├─ encoder",
        "│  ├─ layer",
        "│  │  ├─ w",
        "│  │  └─ b",
        "│  └─ layer_2",
        "│     └─ w",
        "└─ head",
    ]
    assert show.tree([]) == []
