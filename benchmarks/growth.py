"""Scaling of training steps with the model, from 1 to 64 layers and from 32 to 2048 features, compared with JAX.

    python benchmarks/growth.py                            everything: half an hour
    python benchmarks/growth.py --model mlp --axis depth   a part
    python benchmarks/growth.py --quick                    small models

Compile time and run time should be proportional to the work. Each row runs in a new process with empty caches and one
thread; the losses of both systems must agree.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib.util import find_spec
from math import isclose
from pathlib import Path
from time import perf_counter
from typing import Any

from compare.machine import described
from compare.worker import peak_mb, stretch, times
from compare.workloads import Workload, decoder, perceptron

ROOT = Path(__file__).parent
DEPTHS = (1, 2, 4, 8, 16, 32, 64)
QUICK = 3  # sizes in each direction
WIDTHS = (32, 64, 128, 256, 512, 1024, 2048)
DEPTH, WIDTH = 2, 64  # of models that grow in the other direction
BATCH, CONTEXT, VOCABULARY, CLASSES = 16, 64, 64, 10
STEPS = 3  # whose losses are compared
SECONDS = 0.5
OURS = ("ocannl_llvm", "ocannl_c")


def mlp(depth: int, width: int) -> Workload:
    return perceptron(64, (width,) * (depth + 1) + (CLASSES,))


def transformer(depth: int, width: int) -> Workload:
    heads = max(1, width // 16) if width <= 64 else width // 64
    return decoder({"L": depth, "D": width, "H": heads, "T": CONTEXT, "B": BATCH, "V": VOCABULARY})


MODELS: dict[str, Callable[[int, int], Workload]] = {"mlp": mlp, "transformer": transformer}


@dataclass(frozen=True, slots=True)
class Case:
    model: str
    axis: str
    depth: int
    width: int

    @property
    def size(self) -> int:
        return self.depth if self.axis == "depth" else self.width


def cases(models: Sequence[str], axes: Sequence[str], sizes: int | None = None) -> Iterator[Case]:
    for model in models:
        if "depth" in axes:
            yield from (Case(model, "depth", depth, WIDTH) for depth in DEPTHS[:sizes])
        if "width" in axes:
            yield from (Case(model, "width", DEPTH, width) for width in WIDTHS[:sizes])


# --- the same steps in JAX --------------------------------------------------------------------------------------------


class InJax:
    """A training step with the interface of our own adapter."""

    def __init__(self, workload: Workload) -> None:
        import jax
        import jax.numpy as jnp

        def cross_entropy(logits: Any, y: Any) -> Any:
            return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], -1).mean()

        def mlp(p: Any, x: Any, y: Any) -> Any:
            for n in range(0, len(p) - 2, 2):
                x = jax.nn.relu(x @ p[n] + p[n + 1])
            return cross_entropy(x @ p[-2] + p[-1], y)

        def normed(x: Any, gain: Any, bias: Any) -> Any:
            centered = x - x.mean(-1, keepdims=True)
            return centered * jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * gain + bias

        def gpt(p: Any, x: Any, y: Any) -> Any:
            heads, (batch, context) = workload["H"], x.shape
            past, h = jnp.tril(jnp.ones((context, context), bool)), p[0][x] + p[1]
            for n in range(2, len(p) - 3, 12):
                g1, c1, qkv, b1, out, b2, g2, c2, wide, b3, back, b4 = p[n : n + 12]
                parts = jnp.split(normed(h, g1, c1) @ qkv + b1, 3, -1)
                q, k, v = (t.reshape(batch, context, heads, -1).transpose(0, 2, 1, 3) for t in parts)
                scores = jnp.where(past, q @ k.transpose(0, 1, 3, 2) * q.shape[-1] ** -0.5, -jnp.inf)
                mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(h.shape)
                h = h + mixed @ out + b2
                h = h + jax.nn.gelu(normed(h, g2, c2) @ wide + b3) @ back + b4
            return cross_entropy(normed(h, p[-3], p[-2]) @ p[-1], y)

        w, tree = workload, jax.tree_util.tree_map
        loss = {"mlp": mlp, "gpt": gpt}[w["kind"]]

        def momentum(state: Any, x: Any, y: Any) -> Any:
            (p, velocity), (value, gradient) = state, jax.value_and_grad(loss)(state[0], x, y)
            velocity = tree(lambda v, g: w["mom"] * v + g, velocity, gradient)
            return (tree(lambda a, v: a - w["lr"] * v, p, velocity), velocity), value

        def adam(state: Any, x: Any, y: Any) -> Any:
            (p, m, v, t), (value, gradient) = state, jax.value_and_grad(loss)(state[0], x, y)
            t = t + 1
            m = tree(lambda a, g: w["b1"] * a + (1 - w["b1"]) * g, m, gradient)
            v = tree(lambda a, g: w["b2"] * a + (1 - w["b2"]) * g * g, v, gradient)
            correction, correction_2 = 1 - w["b1"] ** t, 1 - w["b2"] ** t
            p = tree(lambda a, b, c: a - w["lr"] * (b / correction) / (jnp.sqrt(c / correction_2) + w["eps"]), p, m, v)
            return (p, m, v, t), value

        p = [jnp.asarray(array) for array in w["params"]]
        zeros = [jnp.zeros_like(array) for array in p]
        if w["kind"] == "mlp":
            self.state, step = (p, zeros), momentum
        else:
            self.state, step = (p, zeros, [jnp.zeros_like(array) for array in p], jnp.zeros(())), adam
        self.x, self.y = jnp.asarray(w["x"]), jnp.asarray(w["y"])
        self.step, self.wait = jax.jit(step, donate_argnums=0), jax.block_until_ready

    def call(self) -> None:
        self.state, self.loss = self.step(self.state, self.x, self.y)

    def sync(self) -> None:
        self.wait((self.state, self.loss))

    def value(self) -> Any:
        return self.loss


# --- processes --------------------------------------------------------------------------------------------------------


def built(system: str, workload: Workload) -> Any:
    if system not in OURS:
        return InJax(workload)
    from compare.adapter import Run

    return Run(system.removeprefix("ocannl_"), workload)


def measured(case: Case, system: str) -> dict[str, Any]:
    """In this process: `first_s` is building, compiling and the first step."""
    import numpy as np

    if system in OURS:
        import compare.adapter  # noqa: F401
    else:
        import jax

        jax.numpy.zeros(())
    workload = MODELS[case.model](case.depth, case.width)
    start = perf_counter()
    run = built(system, workload)
    run.call()
    run.sync()
    first_s = perf_counter() - start
    losses = [float(np.ravel(run.value())[0])]
    while len(losses) < STEPS:
        stretch(run, 1)
        losses.append(float(np.ravel(run.value())[0]))
    timing = times(run, SECONDS)
    return {"first_s": first_s, "step_s": timing["least_s"], "losses": losses, "peak_mb": peak_mb()}


def once(case: Case, system: str, limit_s: float) -> dict[str, Any]:
    """In a process with empty caches."""
    with tempfile.TemporaryDirectory() as cache:
        single_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")} | {"BENCH_THREADS": "1"}
        kept = {"OCANNL_CACHE_DIR": cache, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
        worker = ["--worker", case.model, case.axis, str(case.depth), str(case.width), system]
        core = partial(os.sched_setaffinity, 0, [min(os.sched_getaffinity(0))])  # JAX takes all that it may
        try:
            ran = subprocess.run(
                [sys.executable, __file__, *worker], env={**os.environ, **single_thread, **kept},
                capture_output=True, text=True, timeout=limit_s,
                preexec_fn=core if hasattr(os, "sched_setaffinity") else None,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"error": f"more than {limit_s:g} s"}
    if ran.returncode:
        return {"error": (ran.stderr.strip().splitlines() or ["no word"])[-1]}
    measurement: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return measurement


# --- the report -------------------------------------------------------------------------------------------------------


def table(model: str, axis: str, rows: Sequence[tuple[Case, dict[str, dict[str, Any]]]]) -> Iterator[str]:
    names = list(rows[0][1])
    fixed = f"{WIDTH} features" if axis == "depth" else f"{DEPTH} layers"
    yield f"## {model}, {fixed}"
    yield ""
    columns = ("first, s", "step, ms", "GF/s", "MB")
    head = [axis, "GF in a step", *(f"{name}: {column}" for name in names for column in columns)]
    yield "| " + " | ".join(head) + " |"
    yield "|---" * (2 + len(names) * len(columns)) + "|"
    for case, by_system in rows:
        work = MODELS[model](case.depth, case.width)["flops"] / 1e9
        cells = [str(case.size), f"{work:.3g}"]
        for name in names:
            cells += figures(by_system[name], work)
        yield "| " + " | ".join(cells) + " |"
    yield ""


def figures(measurement: dict[str, Any], work: float) -> list[str]:
    if "error" in measurement:
        return [measurement["error"], "-", "-", "-"]
    step = measurement["step_s"]
    return [f"{measurement['first_s']:.2f}", f"{1e3 * step:.3g}", f"{work / step:.1f}", f"{measurement['peak_mb']:.0f}"]


def agree(by_system: dict[str, dict[str, Any]]) -> None:
    """Whoever measures something wrong is not measured."""
    losses = {name: measurement["losses"] for name, measurement in by_system.items() if "losses" in measurement}
    wanted = losses.get("jax") or next(iter(losses.values()), [])
    for name, got in losses.items():
        if not all(isclose(a, b, rel_tol=1e-3) for a, b in zip(got, wanted, strict=True)):
            by_system[name] = {"error": f"losses {got}, not {wanted}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--axis", nargs="+", choices=("depth", "width"), default=["depth", "width"])
    parser.add_argument("--system", nargs="+", choices=(*OURS, "jax"), default=["ocannl_llvm", "jax"])
    parser.add_argument("--limit", type=float, default=600, help="seconds that a process may take")
    parser.add_argument("--quick", action="store_true", help="small models, printed and not kept")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / f"growth-{date.today().isoformat()}.md")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        model, axis, depth, width, system = arguments.worker
        print("\n" + json.dumps(measured(Case(model, axis, int(depth), int(width)), system)))
        return
    systems = [name for name in arguments.system if name in OURS or find_spec(name)]
    machine = described()
    lines = [
        f"# Growth, {date.today().isoformat()}", "",
        f"{machine['processor']}; {machine['caches']}; one thread. `first` is building, compiling and the first step",
        "with empty caches; `step` the fastest stretch; `MB` the peak of the process.", "",
    ]  # fmt: skip
    rows: dict[tuple[str, str], list[tuple[Case, dict[str, dict[str, Any]]]]] = {}
    for case in cases(arguments.model, arguments.axis, QUICK if arguments.quick else None):
        by_system = {name: once(case, name, arguments.limit) for name in systems}
        agree(by_system)
        work = MODELS[case.model](case.depth, case.width)["flops"] / 1e9
        print(case, *(f"{name} {figures(measurement, work)}" for name, measurement in by_system.items()), flush=True)
        rows.setdefault((case.model, case.axis), []).append((case, by_system))
        if not arguments.quick:
            text = [line for (model, axis), of_model in rows.items() for line in table(model, axis, of_model)]
            arguments.output.write_text("\n".join([*lines, *text]), encoding="utf-8")


if __name__ == "__main__":
    main()
