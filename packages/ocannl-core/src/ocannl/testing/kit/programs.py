"""Whole programs: random computations against the interpreter, random expressions and a training step against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from ocannl.base.config import settings
from ocannl.base.errors import Unsupported
from ocannl.ir.canon import canonical
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode, Local, MemorySpace, Proc, Ref
from ocannl.ir.precision import float32
from ocannl.ir.precomputed import request_buffer
from ocannl.ir.tnode import Role
from ocannl.ir.walk import walk
from ocannl.lang.record.code import seq
from ocannl.lower.lower import lower
from ocannl.opt.memory.allocate_memory import allocate_memory
from ocannl.opt.memory.use_nontemporal_stores import use_nontemporal_stores
from ocannl.opt.pipeline import optimize
from ocannl.opt.simplify.compose_operations import compose_operations
from ocannl.runtime.context import Context
from ocannl.testing import random_expressions
from ocannl.testing.evaluate import evaluate
from ocannl.testing.kit.backend_tests import Area
from ocannl.testing.kit.cases import Array, Case
from ocannl.testing.kit.harness import Bench
from ocannl.testing.oracles import constants
from ocannl.testing.program import LANGUAGE as oc
from ocannl.testing.random_modes import with_random_modes
from ocannl.testing.random_programs import Program, difference, generate
from ocannl.train.sgd import sgd
from ocannl.train.step import grad_update

BATCH = 8


def lowered(program: Program, name: str, random: Random, claimed: Capabilities) -> Proc:
    return allocate_memory(compose_operations(lower(program.code, name), claimed), claimed.alignment_bytes)


def optimized(program: Program, name: str, random: Random, claimed: Capabilities) -> Proc:
    keep_reasons = {node: "a test" for node in program.tolerance if random.random() < 0.4}
    return optimize(lower(program.code, name), keep_reasons, claimed)


def expanded(program: Program, name: str, random: Random, claimed: Capabilities) -> Proc:
    """Random loop modes in a lowered program, and non-temporal stores."""
    proc = use_nontemporal_stores(with_random_modes(lower(program.code, name), random, "lowered"), 0)
    return allocate_memory(compose_operations(proc, claimed), claimed.alignment_bytes)


def mentioned(proc: Proc) -> set[str]:
    """The names of all precisions in a program."""
    precisions = {buf.precision for buf in proc.bufs}
    for node in walk(proc.body):
        ref: Ref | None = getattr(node, "ref", None)
        kind = node.buf.precision if isinstance(node, Local) else getattr(node, "precision", None)
        precisions |= {kind} if kind is not None else set()
        precisions |= {ref.buf.precision} if ref is not None else set()
    return {p.name for p in precisions}


def as_case(program: Program, proc: Proc) -> Case:
    """The program with its inputs; arrays without input are filled with 0xFF bytes. Precomputed arrays are requested.
    """
    arrays = []
    request = request_buffer(proc)
    for buf in (b for b in proc.bufs if b.space is MemorySpace.GLOBAL):
        sources = program.merged if buf.access is AccessMode.MERGE else program.arrays
        contents = np.ones((), np.int64) if buf is request else sources.get(buf.node) if buf.node is not None else None
        unset = np.full(buf.nbytes, 0xFF, np.uint8).view(buf.precision.numpy)
        arrays.append(unset if contents is None else np.array(contents, buf.precision.numpy).reshape(-1))
    return Case(proc, tuple(arrays), tuple(program.symbols[s] for s in proc.syms))


class Programs(Area):
    """Lowered and optimized programs compute correct results."""

    @pytest.mark.parametrize("make", [lowered, expanded, optimized])
    @pytest.mark.parametrize("seed", range(12))
    def test_random_computations(
        self, bench: Bench, make: Callable[[Program, str, Random, Capabilities], Proc], seed: int
    ) -> None:
        random = Random(f"{make.__name__} {seed}")
        programs = [generate(random, random.randint(1, 5)) for _ in range(BATCH)]
        procs = [make(program, f"p{n}", random, bench.backend.capabilities) for n, program in enumerate(programs)]
        for program, proc in zip(programs, procs, strict=True):
            if not bench.claims(*mentioned(proc)):
                bench.refuses(proc)
                continue
            program_case = as_case(program, proc)
            after = bench.run(program_case, [as_case(q, p) for q, p in zip(programs, procs, strict=True)])
            want = interpret(proc, program.arrays, program.symbols, program.merged)
            got = {
                buf.node: array.reshape(buf.node.dims)
                for buf, array in zip(program_case.pools, after, strict=True)
                if buf.node is not None and buf.access is not AccessMode.MERGE
            }
            tolerance = {node: program.tolerance.get(node, 0.0) for node in want}
            assert not (message := difference(want, got, tolerance)), f"{make.__name__} {seed}, {proc.name}: {message}"

    @pytest.mark.parametrize("threads", [2, 4])
    def test_threads_sum_in_the_same_order(self, bench: Bench, threads: int) -> None:
        """Results are bitwise equal for any number of threads."""
        if not bench.claims("float32"):
            pytest.skip("the backend claims no float32")
        data = np.random.default_rng(0).normal(size=(40, 30)).astype(np.float32)
        x, w = oc.tensor(data, batch_axes=1), oc.tensor(data[:20], input_axes=1)
        y, total = oc.relu(w @ x), (w @ x).sum()
        precisions = []
        for count in (1, threads):
            with settings(cache=False), Context(bench.backend.name, threads=count) as ctx:
                ctx.run(seq(y.forward, total.forward))
                precisions.append((ctx[y], ctx[total]))
        (first_y, first_total), (second_y, second_total) = precisions
        np.testing.assert_array_equal(first_y, second_y)
        np.testing.assert_array_equal(first_total, second_total)
        np.testing.assert_allclose(first_y, np.maximum(data @ data[:20].T, 0), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("seed", range(16))
    def test_random_expressions(self, bench: Bench, seed: int) -> None:
        """Random expressions with their gradients."""
        kind = bench.number
        if kind is not float32:
            pytest.skip("the backend claims no float32, which expressions are written in")
        program = random_expressions.generate(Random(seed))
        built = program.build("float32")
        code = grad_update(built.loss)
        comp = code.elaborate().comp
        want = evaluate(comp, {**constants(comp), **built.arrays}, built.symbols)
        leaves = [t for t in built.tensors.values() if t.node in built.arrays]
        gradients = [t.grad for t in leaves if t.grad is not None and t.grad.node in want]
        with settings(cache=False), Context(bench.backend.name) as ctx:
            for t in leaves:
                if t.node.role is not Role.DATA:
                    ctx[t] = built.arrays[t.node]
            if not bench.claims(*mentioned(optimize(lower(code.elaborate().comp, "it"), {}, ctx.backend.capabilities))):
                with pytest.raises(Unsupported, match="precisions"):
                    ctx.compile(code, keep=[*gradients, built.loss])
                return
            routine = ctx.compile(code, keep=[*gradients, built.loss])
            routine(**{s.name: built.symbols[s] for s in canonical(code.elaborate().comp, {}).statics})
            for t in (*gradients, built.loss):
                got, wanted = (np.asarray(array, np.float64) for array in (ctx[t], want[t.node]))
                close = (2e-4 if t.node.precision.nbytes >= 4 else 5e-2) * max(1.0, np.abs(wanted).max(initial=0))
                np.testing.assert_allclose(got, wanted, rtol=0, atol=close, err_msg=f"{t.label} of\n{program}")

    def test_a_network_learns_what_numpy_learns(self, bench: Bench) -> None:
        """Two layers, a softmax, some steps of gradient descent over batches selected by a static symbol."""
        if not bench.claims("float32"):
            pytest.skip("the backend claims no float32")
        random = np.random.default_rng(0)
        x = random.normal(size=(3, 10, 16)).astype(np.float32)
        digit = random.integers(0, 4, (3, 10))
        start = {"w": random.normal(size=(12, 16)) / 4, "b": np.zeros(12), "v": random.normal(size=(4, 12)) / 3}
        weights = {name: array.astype(np.float32) for name, array in start.items()}
        n = oc.symbol("n", 0, 3)
        one_hot = np.eye(4, dtype=np.float32)[digit]
        batch, wanted = (oc.tensor(array, batch_axes=2)[n] for array in (x, one_hot))
        w, b, v = oc.param("w", i=[16], o=[12]), oc.param("b", o=[12]), oc.param("v", i=[12], o=[4])
        logits = v @ oc.relu(w @ batch + b)
        shifted = logits - oc.stop_gradient(oc.einsum("...|... => ...|0", logits, reduce="max"))
        total = oc.einsum("...|... => ...|0", oc.exp(shifted))
        loss = ((oc.log(total) - shifted) * wanted).sum() / 10
        with settings(cache=False), Context(bench.backend.name) as ctx:
            for t, array in zip((w, b, v), weights.values(), strict=True):
                ctx[t] = array
            step = ctx.compile(seq(grad_update(loss), sgd(loss, 0.2)))
            for k in range(6):
                step(n=k % 3)
                by_hand = descend(weights, x[k % 3], digit[k % 3], 0.2)
                np.testing.assert_allclose(ctx[loss], by_hand, rtol=1e-4)
            for t, array in zip((w, b, v), weights.values(), strict=True):
                np.testing.assert_allclose(ctx[t], array, atol=1e-4)


def descend(weights: dict[str, Array], x: Array, digit: Array, rate: float) -> float:
    """One step in NumPy; returns the loss before it."""
    w, b, v = weights.values()
    hidden = x @ w.T + b
    active = np.maximum(hidden, 0)
    logits = active @ v.T
    shifted = logits - logits.max(1, keepdims=True)
    p = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    loss = -np.log(p[np.arange(len(x)), digit]).mean()
    slope = (p - np.eye(p.shape[1])[digit]) / len(x)
    back = (slope @ v) * (hidden > 0)
    weights["v"] = v - rate * (slope.T @ active).astype(np.float32)
    weights["w"] = w - rate * (back.T @ x).astype(np.float32)
    weights["b"] = b - rate * back.sum(0).astype(np.float32)
    return float(loss)
