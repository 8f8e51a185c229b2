"""The comparison with peers: workloads, processes, checks and tables; nothing here is about speed."""

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import summary  # noqa: E402
from compare import families, plot, references, report, running, systems  # noqa: E402
from compare.machine import bound_s, cores, crossing_ns, described, limits  # noqa: E402
from compare.workloads import TRAINING, WORKLOADS  # noqa: E402

PEERS = {
    "right": "y = w['x'] + 1",
    "wrong": "y = w['x'] + 2",
    "short": "y = w['x'][:3] + 1",
    "silent": "raise NotImplementedError(w['kind'])",
    "killed": "os._exit(7)",
    "endless": "while True: time.sleep(1)",
}


@pytest.fixture
def plan(tmp_path):
    """Adapters of peers that say the same in six ways, and one that cannot be imported."""
    folder = tmp_path / "peers" / "bench" / "systems"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent):
        (package / "__init__.py").write_text("")
    (folder / "_api.py").write_text("class Run: pass\n")
    (folder / "shared.py").write_text("import nothing_of_this_name\n")  # what adapters share is none
    for name, body in PEERS.items():
        (folder / f"{name}.py").write_text(adapter(body))
    (folder / "missing.py").write_text(adapter("pass").replace("import time", "import nothing_of_this_name"))
    home = tmp_path / "peers"
    loaded = systems.systems(home)
    chosen = [loaded[name] for name in PEERS]
    return running.Plan(chosen, ["W8_noop"], [1], 2, 0.0, 60, home, tmp_path / "scratch")


def adapter(body):
    return dedent(f'''
        IMPORT = "import time"
        def ENV(threads): return {{"SPOKEN_TO": str(threads)}}
        # ---
        import os, time
        from types import SimpleNamespace
        def version(): return "peer " + os.environ["SPOKEN_TO"]
        def build(w):
            {body}
            return SimpleNamespace(call=lambda: None, sync=lambda: None, value=lambda: y)
        ''')


def test_adapters_are_found_where_they_are_and_read_without_what_they_adapt(plan):
    loaded = systems.systems(plan.folder)
    assert set(loaded) == {"ocannl_llvm", "ocannl_c", "missing", *PEERS}
    assert loaded["ocannl_llvm"].head["IMPORT"] == "import ocannl"
    assert (loaded["ocannl_c"].module, loaded["right"].module) == ("compare.ours.ocannl_c", "bench.systems.right")
    assert set(systems.systems(plan.folder / "nowhere")) == {"ocannl_llvm", "ocannl_c"}


def test_what_cannot_be_imported_is_absent_and_says_why(plan):
    available = systems.systems(plan.folder)
    assert running.absent(available["right"], plan) == ""
    assert "No module named 'nothing_of_this_name'" in running.absent(available["missing"], plan)


def test_every_system_is_checked_and_measured_in_turn_and_errors_stay_its_own(plan):
    heard = []
    finishing = [system for system in plan.systems if system.name != "endless"]
    cells_by_system = {cell["system"]: cell for cell in running.cells(replace(plan, systems=finishing), heard.append)}
    right = cells_by_system["right"]
    assert right["version"] == "peer 1"
    assert right["rounds"] == 2
    assert right["worst_error"] == 0
    assert {"cold_s", "warm_s", "median_s", "least_s", "synchronous_s", "peak_mb"} <= right.keys()
    assert cells_by_system["wrong"]["error"] == "Wrong: the results are off by 1.0e+00 of the largest"
    assert cells_by_system["short"]["error"] == "Wrong: a result has the shape (3,), and not (8,)"
    assert cells_by_system["silent"]["error"] == "NotImplementedError: noop"
    assert cells_by_system["killed"]["error"].startswith("exit status 7")
    order = [text.split()[2] for text in heard]
    assert order == ["right", "wrong", "short", "silent", "killed", "right"]  # what failed is not tried again


def test_a_process_that_does_not_end_is_stopped(plan):
    system = next(system for system in plan.systems if system.name == "endless")
    ran = running.once(system, "W8_noop", 1, replace(plan, limit_s=3), fresh=True)
    assert ran == {"error": "stopped after 3 s"}


def results(peers=True):
    first = {"cold_s": 0.5, "warm_s": 0.1, "peak_mb": 100.0}
    ours = {"threads": 1, "system": "ocannl_llvm", "version": "ocannl 1"}
    cells = [
        {**ours, "workload": "W2", "median_s": 1e-4, "foreign_load": 0.0, **first},
        {**ours, "workload": "W1_64", "error": "Wrong: a | b"},
    ]
    if peers:
        cells += [
            {**cells[0], "system": "jax", "version": "jax 2", "median_s": 2e-4, "foreign_load": 1.0},
            {**cells[0], "system": "jax", "version": "jax 2", "workload": "W1_64", "median_s": 1e-5},
            {"workload": "W2", "threads": 1, "system": "numpy", "error": "NotImplementedError: mlp"},
        ]
    return {
        "machine": described(),
        "limits": {"1": {"fma_gflops": 100.0, "triad_gbs": 10.0, "sum_gbs": 20.0}},
        "settings": {"date": "2026-01-02", "rounds": 3, "seconds": 2.0, "threads": [1],
                     "systems": ["ocannl_llvm", *(["jax", "numpy"] if peers else [])]},
        "bounds": {"1": {"W2": 5e-5}},
        "unit": {"W1_64": "GF/s", "W2": "steps/s"},
        "work": {"W1_64": 5e-4, "W2": 1.0},
        "imports": {"ocannl_llvm": 0.25, "jax": 0.5, "numpy": 0.1},
        "cells": cells,
        "absent": {"torch_eager": "no module"},
    }  # fmt: skip


def test_the_report_has_figures_parts_of_bounds_and_ratios():
    text = report.report(results())
    assert "| W2 | steps/s | 10000 (50 %) | 5000 (25 %) | - | 2.00 |" in text
    assert "| W1_64 | GF/s | failed | 50.0 | - | - |" in text
    assert "| ocannl_llvm | 0.25 | 0.50 | 0.10 | 100 |" in text
    assert "- ocannl_llvm, W1_64, 1 thread: Wrong: a | b" in text
    assert "mlp" not in text  # no failure: the adapter says that it has none
    assert "- torch_eager: no module" in text
    assert "0.33 cores busy" in text


def test_without_peers_there_are_figures_and_no_ratios():
    text = report.report({**results(peers=False), "absent": {}})
    assert "| W2 | steps/s | 10000 (50 %) | - |" in text
    assert "absent" not in text


FAMILY_CELLS = [
    {"family": "sort", "size": [2, 3], "threads": 1, "times": {"ocannl": 1.0, "JAX": 4.0}, "failed": {}},
    {"family": "sort", "size": [4, 5], "threads": 1, "times": {"ocannl": 1.0, "PyTorch": 1.0}, "failed": {"JAX": "no"}},
    {"family": "step", "size": [6], "threads": 1, "times": {"ocannl": 2.0, "JAX": 1.0}, "failed": {}},
    {"family": "step", "size": [6], "threads": 2, "times": {"ocannl": 1.0, "JAX": 3.0}, "failed": {}},
]  # fmt: skip


def test_families_have_a_table_and_means():
    text = report.report({**results(), "families": FAMILY_CELLS})
    assert "| family | size | ocannl, ms | JAX, ms | PyTorch, ms | ocannl / best peer |" in text
    assert "| sort | 2x3 | 1 | 4 | - | 4.00 |" in text
    assert "| sort | 4x5 | 1 | - | 1 | 1.00 |" in text
    assert "Geometric mean 1.26, 1 of 3 below 1." in text  # those of one thread, to which the results belong
    assert families.means(FAMILY_CELLS[:3]) == {"sort": 2.0, "step": 0.5}


def test_the_picture_has_a_panel_of_families():
    panels = summary.ratios({**results(), "families": FAMILY_CELLS})
    assert list(panels) == ["Workloads", "Families of programs, means over sizes"]
    assert panels["Families of programs, means over sizes"] == {"sort": [2.0], "step": [0.5]}
    assert list(summary.ratios(results())) == ["Workloads"]


def test_a_process_of_families_that_fails_has_no_cells(tmp_path):
    heard = []
    assert families.family_cells(["no family"], 1, [], tmp_path, heard.append) == []
    assert heard[0].startswith("no family: families.py: error: unknown: no family") or "ModuleNotFound" in heard[0]


def test_the_machine_is_described_without_its_name():
    description = json.dumps(described())
    assert os.uname().nodename not in description
    assert len(cores()) == described()["cores"] > 0


def test_bounds_are_of_arithmetic_or_of_bytes():
    limit = {"fma_gflops": 100.0, "triad_gbs": 10.0, "sum_gbs": 20.0}
    assert bound_s({"kind": "gemm", "flops": 1e9}, limit) == pytest.approx(0.01)
    assert bound_s({"kind": "chain", "bytes": 1e9}, limit) == pytest.approx(0.1)
    assert bound_s({"kind": "bigsum", "bytes": 1e9}, limit) == pytest.approx(0.05)
    assert bound_s({"kind": "noop"}, limit) is None
    assert bound_s({"kind": "gemm", "flops": 1e9}, {}) is None


def test_the_limits_of_a_machine_are_measured_where_there_is_a_compiler(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert limits(1) == {}
    assert crossing_ns() is None


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_way_from_core_to_core_takes_time():
    assert crossing_ns() > 1


def test_what_is_measured_while_cores_are_far_apart_is_named():
    report_data = results()
    report_data["settings"]["threads"] = [2]
    report_data["limits"] = {"2": report_data["limits"]["1"]}
    report_data["bounds"] = {"2": {}}
    for cell, took in zip(report_data["cells"], (410.0, None, 80.0, 100.0, None), strict=True):
        cell |= {"threads": 2} | ({"crossing_ns": took} if took else {})
    text = report.report(report_data)
    assert "from one core to another and back in 80 ns." in text
    assert "It took 410 ns or more after ocannl_llvm on W2." in text


def test_a_plot_is_drawn_where_there_is_matplotlib(tmp_path):
    pytest.importorskip("matplotlib")
    plot.plot(results(), tmp_path / "plot.svg")
    drawn = (tmp_path / "plot.svg").read_text()
    assert drawn.count("<svg") == 1
    plot.plot(results(), tmp_path / "again.svg")
    assert plot.part(results(), "W2", 1, "jax") == pytest.approx(0.25)
    assert plot.part(results(), "W2", 1, "numpy") is None


SMALL = [name for name, make in WORKLOADS.items() if name.startswith(("W1_64", "W7", "W8"))]


@pytest.mark.parametrize("name", SMALL)
def test_references_are_those_of_plain_loops_in_a_corner(name):
    w = WORKLOADS[name]()
    (want,) = references.arrays(w)
    if w["kind"] == "noop":
        assert want.tolist() == [1.0] * 8
    elif w["kind"] == "gemm":
        products = [float(a) * float(b) for a, b in zip(w["a"][3], w["b"][:, 5], strict=True)]
        assert want[3, 5] == pytest.approx(sum(products))
    else:
        corner = dict.fromkeys(w["eq"].partition("->")[2], 1)
        operands = [
            array[tuple(corner.get(axis, slice(None)) for axis in axes)].astype(float)
            for axes, array in zip(w["eq"].partition("->")[0].split(","), (w["a"], w["b"]), strict=True)
        ]
        left, right = (x.transpose(order) for x, order in zip(operands, orders(w["eq"], corner), strict=True))
        assert want[(1,) * want.ndim] == pytest.approx(np.sum(left * right))


def orders(eq, corner):
    """How the axes that are left of each operand come into one order."""
    free_axes = [[axis for axis in axes if axis not in corner] for axes in eq.partition("->")[0].split(",")]
    return [[axes.index(axis) for axis in sorted(axes)] for axes in free_axes]


def test_an_error_is_seen_and_rounding_is_not():
    w = WORKLOADS["W1_64"]()
    right = w["a"] @ w["b"]
    assert 0 < references.check("W1_64", w, [right]) < 1e-6
    right[7, 9] += 0.01
    with pytest.raises(references.Wrong, match="off by"):
        references.check("W1_64", w, [right])
    with pytest.raises(references.Wrong, match="2 results, and not 1"):
        references.check("W1_64", w, [right, right])


def test_the_workloads_are_the_neutral_ones():
    home = systems.PEERS
    if not (home / "bench" / "workloads.py").exists():
        pytest.skip("the adapters of the peers are not beside the checkout")
    scope = {}
    exec((home / "bench" / "workloads.py").read_text(), scope)
    assert list(WORKLOADS) == list(scope["W"])
    for name, make in WORKLOADS.items():
        if not name.startswith("W6"):  # they are large
            assert_same(make(), scope["W"][name]())


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        arrays = value if isinstance(value, list) else [value]
        for actual, reference in zip(arrays, theirs[key] if isinstance(value, list) else [theirs[key]], strict=True):
            np.testing.assert_array_equal(actual, reference)
            assert type(actual) is type(reference)
            assert getattr(actual, "dtype", None) == getattr(reference, "dtype", None)


def test_every_training_workload_has_its_losses():
    stored = json.loads(references.LOSSES.read_text())
    assert set(stored) == {name for name in WORKLOADS if name.startswith(("W2", "W3", "W4", "W5"))}
    assert all(len(losses) == references.STEPS and losses == sorted(losses, reverse=True) for losses in stored.values())
    assert {WORKLOADS[name]()["kind"] for name in stored} == TRAINING
