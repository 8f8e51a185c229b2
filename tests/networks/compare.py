"""Oracles of networks: PyTorch if installed, and evaluation of the unoptimized program.

The tolerance is measured array by array: a small multiple of the difference between PyTorch in float64 and in float32.
Results beyond it are compared again with a larger tolerance, since rounding may move a number across a discontinuity of
a derivative, or be amplified: both oracles also compute with data that differ by one rounding, PyTorch with all
discontinuities shifted to either side as well, and the changes are added to the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import ocannl as oc
from ocannl import train
from ocannl.ir.canon import canonical
from ocannl.testing.evaluate import evaluate
from ocannl.testing.oracles import constants

from . import torch_layers
from .machine_configs import planned_for
from .program import Array, Network

Results = Mapping[str, Array]

FACTOR = 8  # multiple of the rounding error of PyTorch
ROUNDINGS = 32  # of the largest cell of an array
NOISE = 16  # slopes below a rounding of the loss by this factor are treated as zero
JITTERS = 3  # further computations in float32, from data that differ by a rounding
SHIFT_ROUNDINGS = 64  # by which discontinuities of derivatives are shifted
MAX_EVALUATED_WORK = 1_000_000  # multiply-adds evaluated by NumPy


class Failure(AssertionError):
    """A wrong result of a compiled network; failures of one `kind` most likely have the same cause."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class RunConfig:
    """How a network is compiled and run."""

    kind: str = "float32"
    backend: str = "llvm"
    threads: int = 1
    verify: str = "ends"
    machine: str = "here"
    planning: str = "usual"


def has_torch() -> bool:
    return torch_layers.torch is not None


# --- OCANNL ---


def compiled(network: Network, run_config: RunConfig) -> Results:
    """Losses and what is kept of every step, and the parameters after the last one."""
    how = {"precision": run_config.kind, "cache": False, "verify": run_config.verify}
    with oc.settings(**how), oc.Context(run_config.backend, threads=run_config.threads) as ctx:
        env, arrays = built(network, run_config.kind)
        loss = env["loss"]
        ctx.init(loss)
        for name in network.learned:
            ctx[env[name]] = arrays[name]
        update = eval(network.optimizer, env)
        kept = {name: eval(name, env) for name in network.keep}
        with planned_for(run_config.machine, ctx.backend, run_config.planning):
            step = ctx.compile(oc.seq(train.grad_update(loss), update), keep=list(kept.values()))
        results: dict[str, Array] = {}
        for number in range(network.STEPS):
            for name in network.fed:
                ctx[env[name]] = arrays[name][number]
            step(**({"n": number} if network.is_sliced else {}))
            results[f"loss {number}"] = ctx[loss]
            results |= {f"{name} {number}": ctx[t] for name, t in kept.items()}
        return results | {name: ctx[env[name]] for name in network.learned}


def built(network: Network, kind: str, jitter: int = 0) -> tuple[dict[str, Any], dict[str, Array]]:
    arrays = {leaf.name: jittered(leaf.array(kind), jitter) for leaf in network.leaves}
    env: dict[str, Any] = {"oc": oc, "np": np, "train": train, "arrays": arrays, "kind": kind}
    exec(compile(network.ocannl, "<network>", "exec"), env)
    return env, arrays


def jittered(array: Array, jitter: int) -> Array:
    """The array, whose numbers are changed by a rounding at random unless `jitter` is 0."""
    if not jitter or not np.issubdtype(array.dtype, np.floating):
        return array
    noise = np.random.default_rng([jitter, array.size]).choice((-1, 0, 1), size=array.shape)
    return array * (1 + noise.astype(array.dtype) * np.finfo(array.dtype).eps)


# --- evaluation of the unoptimized program ---


def evaluated(network: Network, kind: str, jitter: int = 0) -> Results:
    """With `jitter`, data differ by a rounding."""
    with oc.settings(precision=kind):
        env, arrays = built(network, kind, jitter)
        loss = env["loss"]
        code = oc.seq(train.grad_update(loss), eval(network.optimizer, env)).elaborate().comp
        kept = {name: eval(name, env) for name in network.keep}
    statics = dict.fromkeys(canonical(code, {}).statics)
    state = constants(code) | {env[name].node: arrays[name] for name in network.learned}
    results: dict[str, Array] = {}
    for number in range(network.STEPS):
        state |= {env[name].node: arrays[name][number] for name in network.fed}
        after = evaluate(code, state, dict.fromkeys(statics, number))
        state = {node: after.get(node, array) for node, array in after.items()}
        results[f"loss {number}"] = after[loss.node]
        results |= {f"{name} {number}": after[t.node] for name, t in kept.items()}
    return results | {name: state[env[name].node] for name in network.learned}


# --- PyTorch ---


def by_torch(network: Network, kind: str, shift: float = 0.0, jitter: int = 0) -> Results:
    """With `shift`, jumps of derivatives are elsewhere; with `jitter`, data differ by a rounding."""
    torch = torch_layers.torch
    dtype = getattr(torch, kind)

    def as_torch(name: str, array: Array) -> Any:
        if not np.issubdtype(array.dtype, np.floating):
            return torch.tensor(array).long()
        return torch.tensor(array, dtype=dtype).requires_grad_(name in network.learned)

    arrays = {leaf.name: as_torch(leaf.name, jittered(leaf.array(kind), jitter)) for leaf in network.leaves}
    parameters = [arrays[name] for name in network.learned]
    env: dict[str, Any] = {name: getattr(torch_layers, name) for name in torch_layers.FUNCTIONS}
    env |= {"torch": torch, "F": torch_layers.F, "parameters": parameters}
    optimizer = eval(network.torch_optimizer, env)
    program = compile(network.torch, "<meaning>", "exec")
    results: dict[str, Array] = {}
    with default_dtype(dtype), shifted(shift):
        for number in range(network.STEPS):
            names = env | arrays | {leaf.name: arrays[leaf.name][number] for leaf in network.leaves if leaf.steps}
            exec(program, names)
            looked_at = {name: names[name.removesuffix(".grad")] for name in network.keep}
            for name, t in looked_at.items():
                if name.endswith(".grad") and t.requires_grad:
                    t.retain_grad()
            optimizer.zero_grad()
            names["loss"].sum().backward()
            results[f"loss {number}"] = as_array(names["loss"])
            for name, t in looked_at.items():
                results[f"{name} {number}"] = as_array(gradient(t) if name.endswith(".grad") else t)
            optimizer.step()
    return results | {name: as_array(arrays[name]) for name in network.learned}


def gradient(t: Any) -> Any:
    return torch_layers.torch.zeros_like(t) if t.grad is None else t.grad


def as_array(t: Any) -> Array:
    return np.array(t.detach().numpy())


@contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    before = torch_layers.torch.get_default_dtype()
    torch_layers.torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch_layers.torch.set_default_dtype(before)


@contextmanager
def shifted(shift: float) -> Iterator[None]:
    torch_layers.SHIFT, before = shift, torch_layers.SHIFT
    try:
        yield
    finally:
        torch_layers.SHIFT = before


# --- the comparison ---


class Expected:
    """What a network computes, and by how much two correct computations in a type may differ, array by array."""

    def __init__(self, want: Results, single: Results, again: Callable[[str], list[Results]]) -> None:
        self.want, self._single, self._again = want, single, again
        self._more: dict[str, list[Results]] = {}  # found out when it is needed

    @property
    def names(self) -> list[str]:
        """Of arrays that are finite in float32 as well: what follows on an overflow says nothing."""
        return [name for name, array in self._single.items() if np.isfinite(array).all()]

    def allowed(self, name: str, kind: str) -> float:
        eps = float(np.finfo(kind).eps)
        single = eps / float(np.finfo("float32").eps) * distance(self._single[name], self.want[name])
        noise = eps * largest(self.want["loss 0"]) / NOISE  # a gradient may be zero, but for what rounding leaves of it
        return FACTOR * single + ROUNDINGS * eps * largest(self.want[name]) + noise

    def allowed_at_jumps(self, name: str, kind: str) -> float:
        if kind not in self._more:
            self._more[kind] = self._again(kind)
        return self.allowed(name, kind) + FACTOR * max(
            (distance(results[name], self.want[name]) for results in self._more[kind]), default=0.0
        )


def largest(array: Array) -> float:
    return float(np.abs(array).max(initial=0))


def distance(first: Array, second: Array) -> float:
    return float(np.abs(np.asarray(first, np.float64) - second).max(initial=0))


def expected_by_torch(network: Network) -> Expected:
    def again(kind: str) -> list[Results]:
        shift = SHIFT_ROUNDINGS * float(np.finfo(kind).eps)
        jittered = [by_torch(network, kind, jitter=n + 1) for n in range(JITTERS)]
        return jittered + ([] if network.is_smooth else [by_torch(network, "float64", s) for s in (shift, -shift)])

    return Expected(by_torch(network, "float64"), by_torch(network, "float32"), again)


def expected_by_evaluation(network: Network) -> Expected:
    """The yardstick is the same program with every array rounded to float32."""

    def again(kind: str) -> list[Results]:
        return [evaluated(network, kind, n + 1) for n in range(JITTERS)]

    return Expected(evaluated(network, "float64"), evaluated(network, "float32"), again)


def difference(expected: Expected, got: Results, kind: str) -> Failure | None:
    """The array that is furthest off, in units of what is allowed."""
    worst, found = 1.0, None
    for name in expected.names:
        want, have = expected.want[name], np.asarray(got[name], np.float64)
        if have.shape != want.shape:
            return Failure("shape", f"`{name}` is of shape {have.shape}, and should be {want.shape}")
        off = distance(have, want)
        if off <= expected.allowed(name, kind):
            continue
        allowed = expected.allowed_at_jumps(name, kind)
        ratio = off / allowed if np.isfinite(off) else np.inf
        if not ratio <= worst:
            message = f"`{name}` is off by {off:.3g}, and may be by {allowed:.2g}; cells are up to {largest(want):.3g}"
            worst, found = ratio, Failure("disagreement", message)
    return found


def check_network(network: Network, run_config: RunConfig, expected: Sequence[Expected]) -> Failure | None:
    """What a compiled network has against these."""
    try:
        got = compiled(network, run_config)
    except Exception as refused:
        return Failure(type(refused).__name__, f"{type(refused).__name__}: {refused}")
    return next(filter(None, (difference(expectation, got, run_config.kind) for expectation in expected)), None)
