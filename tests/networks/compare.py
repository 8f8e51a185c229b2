"""Judges of a network: PyTorch where it is installed, and the meaning of the unoptimized program.

How far two correct computations may be apart is measured: PyTorch computes everything in float64 and once more in
float32, and what lies between, times a small factor, is what rounding is worth in this network, array by array. What
exceeds that is looked at again: rounding may also have moved a number across a jump of a derivative, so PyTorch
computes with all jumps moved by a little to either side, and with data that differ by one rounding, and what changes
counts too.
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

from . import meanings
from .machines import planned_for
from .program import Array, Network

Results = Mapping[str, Array]

FACTOR = 8  # of what PyTorch's own rounding amounts to
ROUNDINGS = 32  # of the largest cell of an array
NOISE = 16  # a slope of so much less than a rounding of the loss, for each unit of a parameter, is none
JITTERS = 3  # further computations in float32, from data that differ by a rounding
SHIFT_ROUNDINGS = 64  # by which a number may miss a jump of a derivative
MAX_EVALUATED_WORK = 1_000_000  # multiply-adds that are evaluated one by one


class Wrong(AssertionError):
    """What is wrong with a compiled network; what is of one `kind` has the same cause, most likely."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


@dataclass(frozen=True)
class Way:
    """How a network is compiled and run."""

    kind: str = "float32"
    backend: str = "llvm"
    threads: int = 1
    verify: str = "ends"
    machine: str = "here"
    planning: str = "usual"


def has_torch() -> bool:
    return meanings.torch is not None


# --- OCANNL ---


def compiled(network: Network, way: Way) -> Results:
    """Losses and what is kept of every step, and the parameters after the last one."""
    how = {"precision": way.kind, "cache": False, "verify": way.verify}
    with oc.settings(**how), oc.Context(way.backend, threads=way.threads) as ctx:
        env, arrays = built(network, way.kind)
        loss = env["loss"]
        ctx.init(loss)
        for name in network.learned:
            ctx[env[name]] = arrays[name]
        update = eval(network.optimizer, env)
        kept = {name: eval(name, env) for name in network.keep}
        with planned_for(way.machine, ctx.backend, way.planning):
            step = ctx.compile(oc.seq(train.grad_update(loss), update), keep=list(kept.values()))
        results: dict[str, Array] = {}
        for number in range(network.STEPS):
            for name in network.fed:
                ctx[env[name]] = arrays[name][number]
            step(**({"n": number} if network.is_sliced else {}))
            results[f"loss {number}"] = ctx[loss]
            results |= {f"{name} {number}": ctx[t] for name, t in kept.items()}
        return results | {name: ctx[env[name]] for name in network.learned}


def built(network: Network, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    arrays = {leaf.name: leaf.array(kind) for leaf in network.leaves}
    env: dict[str, Any] = {"oc": oc, "np": np, "train": train, "arrays": arrays, "kind": kind}
    exec(compile(network.ocannl, "<network>", "exec"), env)
    return env, arrays


# --- the meaning of the program before any pass ---


def evaluated(network: Network, kind: str) -> Results:
    with oc.settings(precision=kind):
        env, arrays = built(network, kind)
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
    torch = meanings.torch
    dtype = getattr(torch, kind)

    def as_torch(name: str, array: Array) -> Any:
        if not np.issubdtype(array.dtype, np.floating):
            return torch.tensor(array).long()
        if jitter:
            noise = np.random.default_rng([jitter, array.size]).choice((-1, 0, 1), size=array.shape)
            array = array * (1 + noise.astype(kind) * np.finfo(kind).eps)
        return torch.tensor(array, dtype=dtype).requires_grad_(name in network.learned)

    arrays = {leaf.name: as_torch(leaf.name, leaf.array(kind)) for leaf in network.leaves}
    parameters = [arrays[name] for name in network.learned]
    env: dict[str, Any] = {name: getattr(meanings, name) for name in meanings.FUNCTIONS}
    env |= {"torch": torch, "F": meanings.F, "parameters": parameters}
    optimizer = eval(network.torch_optimizer, env)
    program = compile(network.torch, "<meaning>", "exec")
    results: dict[str, Array] = {}
    with default_dtype(dtype), shifted(shift):
        for number in range(network.STEPS):
            here = env | arrays | {leaf.name: arrays[leaf.name][number] for leaf in network.leaves if leaf.steps}
            exec(program, here)
            looked_at = {name: here[name.removesuffix(".grad")] for name in network.keep}
            for name, t in looked_at.items():
                if name.endswith(".grad") and t.requires_grad:
                    t.retain_grad()
            optimizer.zero_grad()
            here["loss"].sum().backward()
            results[f"loss {number}"] = as_array(here["loss"])
            for name, t in looked_at.items():
                results[f"{name} {number}"] = as_array(gradient(t) if name.endswith(".grad") else t)
            optimizer.step()
    return results | {name: as_array(arrays[name]) for name in network.learned}


def gradient(t: Any) -> Any:
    return meanings.torch.zeros_like(t) if t.grad is None else t.grad


def as_array(t: Any) -> Array:
    return np.array(t.detach().numpy())


@contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    before = meanings.torch.get_default_dtype()
    meanings.torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        meanings.torch.set_default_dtype(before)


@contextmanager
def shifted(shift: float) -> Iterator[None]:
    meanings.SHIFT, before = shift, meanings.SHIFT
    try:
        yield
    finally:
        meanings.SHIFT = before


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


def distance(one: Array, other: Array) -> float:
    return float(np.abs(np.asarray(one, np.float64) - other).max(initial=0))


def expected_by_torch(network: Network) -> Expected:
    def again(kind: str) -> list[Results]:
        shift = SHIFT_ROUNDINGS * float(np.finfo(kind).eps)
        jittered = [by_torch(network, kind, jitter=n + 1) for n in range(JITTERS)]
        return jittered + ([] if network.is_smooth else [by_torch(network, "float64", s) for s in (shift, -shift)])

    return Expected(by_torch(network, "float64"), by_torch(network, "float32"), again)


def expected_by_evaluation(network: Network) -> Expected:
    """The yardstick is the same program with every array rounded to float32."""
    return Expected(evaluated(network, "float64"), evaluated(network, "float32"), lambda kind: [])


def difference(expected: Expected, got: Results, kind: str) -> Wrong | None:
    """The array that is furthest off, in units of what is allowed."""
    worst, found = 1.0, None
    for name in expected.names:
        want, have = expected.want[name], np.asarray(got[name], np.float64)
        if have.shape != want.shape:
            return Wrong("shape", f"`{name}` is of shape {have.shape}, and should be {want.shape}")
        off = distance(have, want)
        if off <= expected.allowed(name, kind):
            continue
        allowed = expected.allowed_at_jumps(name, kind)
        ratio = off / allowed if np.isfinite(off) else np.inf
        if not ratio <= worst:
            words = f"`{name}` is off by {off:.3g}, and may be by {allowed:.2g}; cells are up to {largest(want):.3g}"
            worst, found = ratio, Wrong("disagreement", words)
    return found


def judged(network: Network, way: Way, expected: Sequence[Expected]) -> Wrong | None:
    """What a compiled network has against these."""
    try:
        got = compiled(network, way)
    except Exception as refused:
        return Wrong(type(refused).__name__, f"{type(refused).__name__}: {refused}")
    return next(filter(None, (difference(each, got, way.kind) for each in expected)), None)
