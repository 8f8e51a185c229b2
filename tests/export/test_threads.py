"""Exports with threads: parallel loops run on the caller's threads, in any order, with the values of one thread."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported_library import Library

import ocannl as oc
from ocannl import nn, train

GCC = shutil.which("gcc")
pytestmark = pytest.mark.skipif(GCC is None, reason="there is no gcc")

RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, RUN, ctypes.c_void_p, ctypes.c_int64)


def wide_perceptron(threads: int) -> tuple[oc.Context, oc.Tensor, oc.Routine, dict[str, np.ndarray[Any, Any]]]:
    """A training step whose products are long enough to be parallel."""
    x, t = oc.placeholder("x", b=[64], o=[256]), oc.placeholder("t", b=[64], o=[10])
    loss = oc.cross_entropy(nn.mlp(x, widths=[256, 10]), t).mean()
    ctx = oc.Context("c", threads=threads)
    ctx.init(loss, seed=3)
    rng = np.random.default_rng(0)
    data = {"x": rng.standard_normal((64, 256)).astype("f4"), "t": np.eye(10, dtype="f4")[rng.integers(0, 10, 64)]}
    ctx[x], ctx[t] = data["x"], data["t"]
    step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss, 1e-3)), name="step")
    return ctx, loss, step, data


def test_values_do_not_depend_on_threads(tmp_path: Path) -> None:
    """The calling thread alone, chunks in reverse order, and two threads: the bits of the C backend on two threads."""
    ctx, loss, step, data = wide_perceptron(2)
    oc.export(step, tmp_path / "mlp.so", init=loss, target="native", threads=True)
    library = Library(tmp_path / "mlp.so", "mlp")
    chunk_counts: list[int] = []

    def in_reverse(pool: object, run: Any, loop: int, chunks: int) -> None:
        chunk_counts.append(chunks)
        for chunk in reversed(range(chunks)):
            run(loop, chunk)

    with ThreadPoolExecutor(2) as executor:

        def on_two_threads(pool: object, run: Any, loop: int, chunks: int) -> None:
            list(executor.map(lambda chunk: run(loop, chunk), range(chunks)))

        saved = []
        header = (tmp_path / "mlp.h").read_text()
        assert header.count("(*parallel_for)(void *pool") == 1
        for parallel_for in (None, PARALLEL_FOR(in_reverse), PARALLEL_FOR(on_two_threads)):
            assert library.init(3) == library.set("x", data["x"]) == library.set("t", data["t"]) == 0
            pointers = library.memory[-64:].view(np.uintp)
            assert not pointers.any()  # `parallel_for` and `pool`, which `init` sets to null, end the structure
            if parallel_for is not None:
                pointers[0] = ctypes.cast(parallel_for, ctypes.c_void_p).value
            for _ in range(20):
                assert library.call("step") == 0
            saved.append(library.save())
    assert chunk_counts and min(chunk_counts) > 1
    assert saved[0] == saved[1] == saved[2]
    for _ in range(20):
        step()
    assert library.get("loss").tobytes() == ctx[loss].tobytes()


MAIN = """\
#include <pthread.h>
#include <stdio.h>
#include "mlp.h"

struct job {
  void (*run)(void *loop, int64_t chunk);
  void *loop;
  int64_t next, chunks;
};

static void *work(void *argument)
{
  struct job *job = argument;
  for (int64_t n; (n = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < job->chunks;) job->run(job->loop, n);
  return 0;
}

static void on_two_threads(void *pool, void (*run)(void *loop, int64_t chunk), void *loop, int64_t chunks)
{
  struct job job = { run, loop, 0, chunks };
  pthread_t worker;
  ++*(int *)pool;
  if (pthread_create(&worker, 0, work, &job)) return;
  work(&job);
  pthread_join(worker, 0);
}

static struct mlp net;

int main(void)
{
  float losses[2];
  int loops = 0;
  for (int n = 0; n < 2; n++) {
    if (mlp_init(&net, 1)) return 1;
    for (int k = 0; k < 64 * 256; k++) net.x[k / 256][k % 256] = (float)(k % 13) / 13;
    for (int k = 0; k < 64; k++) net.t[k][k % 10] = 1;
    if (n) {
      net.parallel_for = on_two_threads;
      net.pool = &loops;
    }
    for (int k = 0; k < 5; k++)
      if (mlp_step(&net)) return 2;
    losses[n] = net.loss;
  }
  return loops > 0 && losses[0] == losses[1] ? 0 : 3;
}
"""


@pytest.mark.parametrize("vectors", [True, False])
def test_a_program_of_c_without_races(vectors: bool, tmp_path: Path) -> None:
    assert GCC is not None
    _, loss, step, _ = wide_perceptron(1)
    oc.export(step, tmp_path / "mlp.c", init=loss, vectors=vectors, threads=True)
    (tmp_path / "main.c").write_text(MAIN)
    flags = ["-Wall", "-Wextra", "-Werror", "-Wno-maybe-uninitialized", "-fsanitize=thread", "-fwrapv"]
    flags += ["-fno-strict-aliasing", "-ffp-contract=off", "-O1"]
    strict = [] if vectors else ["-std=c99", "-pedantic"]
    subprocess.run([GCC, *strict, *flags, "-c", "mlp.c"], cwd=tmp_path, check=True)
    subprocess.run([GCC, *flags, "-o", "main", "main.c", "mlp.o", "-lm", "-lpthread"], cwd=tmp_path, check=True)
    disabled = shutil.which("setarch")  # of random addresses, for which ThreadSanitizer may lack room
    command = [disabled, "-R"] if disabled else []
    environment = {**os.environ, "TSAN_OPTIONS": "exitcode=66"}
    subprocess.run([*command, tmp_path / "main"], check=True, env=environment)


def test_other_forms_run_on_one_thread(tmp_path: Path) -> None:
    _, loss, step, _ = wide_perceptron(1)
    for form in ("wheel", "wasm", "html"):
        with pytest.raises(oc.ArgumentError, match=f"`threads=True` is for the forms c, so, object, not for `{form}`"):
            oc.export(step, tmp_path, form, init=loss, threads=True)
