"""The workloads of the benchmarks, as ocannl writes them, come to what they should."""

import importlib.util
import sys
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest

import ocannl as oc
from ocannl.opt import autotune
from ocannl.opt.schedule.plan import candidate_plans
from ocannl.runtime.benchmark import Benchmark

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import demos
import growth
from compare.adapter import Run, adapter
from compare.references import arrays, check
from compare.worker import results
from compare.workloads import TRAINING, WORKLOADS, big_sum, chain, einsum, gemm, rows

BACKENDS = [row.name for row in oc.backends() if row.usable]
COMPILED = [name for name in BACKENDS if name in ("llvm", "c")]
SMALL = {
    "W1": gemm(33, 20, 17),
    "W6_chain": chain(cells=1000),
    "W6_chain_inpl": chain("chain_inplace", cells=1000),
    "W6_layernorm": rows("layernorm", 7, (24, 40)),
    "W6_softmax": rows("softmax", 8, (24, 40)),
    "W6_sum": big_sum(1000),
    "W7_qk": einsum("bhqd,bhkd->bhqk", (2, 3, 20, 8), (2, 3, 17, 8)),
    "W7_pv": einsum("bhqk,bhkd->bhqd", (2, 3, 20, 17), (2, 3, 17, 8)),
    "W7_odd": einsum("ibjck,cjlb->bkli", (3, 4, 5, 2, 6), (2, 5, 7, 4)),
    "W8_noop": WORKLOADS["W8_noop"](),
}


def finished(backend, workload):
    run = Run(backend, workload)
    run.call()
    run.sync()
    return run


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SMALL)
def test_small_ones_come_to_the_reference(name, backend):
    workload = SMALL[name]
    check(name, workload, results(finished(backend, workload), trains=False))


@pytest.mark.parametrize("backend", COMPILED)
@pytest.mark.parametrize("name", ["W2", "W3_b1", "W3_b50", "W4", "W5"])
def test_training_steps_have_the_losses_of_the_reference(name, backend):
    workload = WORKLOADS[name]()
    assert workload["kind"] in TRAINING
    check(name, workload, results(finished(backend, workload), trains=True))


def trained(backend, name, monkeypatch, threads):
    """The bytes of every parameter after some steps."""
    monkeypatch.setenv("BENCH_THREADS", str(threads))
    run = Run(backend, WORKLOADS[name]())
    for _ in range(3):
        run.call()
    run.sync()
    (loss,) = run.model.results
    return {label: run.context[param].tobytes() for label, param in loss.params.items()}


@pytest.mark.parametrize(
    ("backend", "name"),
    [(backend, name) for backend in COMPILED for name in (("W2", "W4", "W5") if backend == "llvm" else ("W2",))],
)
@pytest.mark.slow
@pytest.mark.sample(covering=("backend",))
def test_a_search_changes_no_bit(backend, name, monkeypatch, tmp_path):
    """Whatever plan turns out to be the fastest."""
    wanted = trained(backend, name, monkeypatch, 1)
    random, taken = Random(f"{name} {backend}"), []
    monkeypatch.setenv("OCANNL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(autotune, "candidate_plans", partial(candidate_plans, limit=5))
    monkeypatch.setattr(Benchmark, "insert", lambda self, nest, chosen, seconds: taken.append(any(chosen)))
    monkeypatch.setattr(Benchmark, "seconds", lambda self, candidates: [random.random() for _ in candidates])
    for threads in (1, 2, 3):
        with oc.settings(autotune=100):
            assert trained(backend, name, monkeypatch, threads) == wanted
    assert sum(taken) > 10


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["W1", "W6_layernorm", "W7_odd"])
def test_inputs_may_change_between_calls(name, backend):
    workload = SMALL[name]
    run = finished(backend, workload)
    changed = {label: 2 * array if isinstance(array, np.ndarray) else array for label, array in workload.items()}
    for tensor in run.model.feeds:
        run.context[tensor] = changed[tensor.label]
    run.call()
    run.sync()
    values, before = results(run, trains=False), arrays(workload)
    check(name, changed, values)
    assert not np.allclose(values[0], before[0])


@pytest.mark.parametrize("backend", COMPILED)
def test_the_batch_of_a_step_may_change_between_calls(backend):
    first = WORKLOADS["W3_b50"]()
    right = {**first, "x": first["x"][::-1].copy(), "y": -first["y"]}
    run = finished(backend, first)
    left = float(run.value())
    for tensor in run.model.feeds:
        run.context[tensor] = right[tensor.label].reshape(tensor.dims)
    run.call()
    run.sync()
    assert abs(float(run.value()) - left) > 0.01


@pytest.mark.sample(covering=("backend", "name"))
@pytest.mark.parametrize("backend", COMPILED)
@pytest.mark.parametrize("name", ["W2", "W3_b50", "W4", "W5"])
def test_steps_are_the_same_bit_by_bit_with_any_number_of_threads_and_every_time(name, backend, monkeypatch):
    def trained(threads):
        monkeypatch.setenv("BENCH_THREADS", str(threads))
        run = finished(backend, WORKLOADS[name]())
        for _ in range(3):
            run.call()
        run.sync()
        (loss,) = run.model.results
        shared = "parallel(" in run.call.stages()["parallelize"]
        return shared, [run.value(), *(run.context[p] for p in loss.params.values())]

    shared, first = trained(1)
    assert shared is (name != "W3_b50")
    for threads in (2, 3, 3):
        for left, right in zip(first, trained(threads)[1], strict=True):
            assert left.tobytes() == right.tobytes(), threads


def test_an_adapter_says_what_it_is_and_builds():
    version, build = adapter("numpy")
    assert version() == f"ocannl {oc.__version__}"
    assert isinstance(build(SMALL["W8_noop"]), Run)


@pytest.mark.parametrize("backend", COMPILED)
def test_perceptrons_of_any_depth(backend):
    model = growth.mlp(5, 12)
    h = model["x"].astype(float)
    for n in range(0, len(model["params"]), 2):
        h = h @ model["params"][n] + model["params"][n + 1]
        h = np.maximum(h, 0) if n + 2 < len(model["params"]) else h
    loss = np.mean(np.log(np.exp(h).sum(1)) - h[np.arange(len(h)), model["y"]])
    assert len(model["params"]) == 12
    np.testing.assert_allclose(results(finished(backend, model), True)[0], loss, rtol=1e-5)


def test_models_that_grow():
    small = list(growth.cases(["mlp", "transformer"], ["depth", "width"], 2))
    assert [case.size for case in small] == [1, 2, 32, 64] * 2
    results = {"ocannl_llvm": {"first_s": 0.5, "step_s": 0.002, "losses": [1.0, 0.9], "peak_mb": 100.0}}
    results["jax"] = {**results["ocannl_llvm"], "losses": [1.0, 0.8]}
    growth.agree(results)
    assert results["ocannl_llvm"] == {"error": "losses [1.0, 0.9], not [1.0, 0.8]"}
    *_, row, _ = growth.table("mlp", "depth", [(small[0], {"jax": results["jax"]})])
    assert row == "| 1 | 0.00129 | 0.50 | 2 | 0.6 | 100 |"


# --- demonstrations and their twins in other libraries ---


@pytest.mark.parametrize("name", ["names-perceptron", "addition", "lenet", "resnet", "vit", "vae", "gan"])
def test_demonstrations_have_the_losses_of_their_twins(name):
    pytest.importorskip("sklearn")
    libraries = [library for library in ("torch", "jax") if importlib.util.find_spec(library)]
    if not libraries:
        pytest.skip("neither PyTorch nor JAX is installed")
    make = demos.EXPERIMENTS[name]
    ours = demos.Ours(make(0), threads=1)
    training = demos.training_of(ours)
    twins = [importlib.import_module(f"twins.by_{library}").Trainer(training) for library in libraries]
    batches = list(islice(demos.batches_of(make(0).data), 3))
    losses, *others = [np.array([trainer.step(batch) for batch in batches]) for trainer in (ours, *twins)]
    assert np.ptp(losses, axis=0).min() > 1e-3
    for other in others:
        np.testing.assert_allclose(losses, other, rtol=1e-5)
