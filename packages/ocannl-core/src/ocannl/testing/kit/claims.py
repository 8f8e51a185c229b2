"""Claims other than types and operations: what a backend claims must work, and what it leaves unclaimed be refused."""

from __future__ import annotations

from inspect import getattr_static
from math import log2

import numpy as np
import pytest

from ocannl.backend.api import (
    Backend,
    DirectCallable,
    HasSourceSuffix,
    Location,
    SupportsCancellation,
    SupportsDlpack,
    SupportsHostMemory,
    Tunable,
)
from ocannl.base.config import settings
from ocannl.ir.capabilities import ALL_OPERATIONS, Capabilities
from ocannl.ir.loops import AccessMode, Proc, ReadClock, Store, loop
from ocannl.ir.precision import int64
from ocannl.opt.simplify.compose_operations import COMPOSITIONS
from ocannl.runtime.context import Context
from ocannl.testing.kit.backend_tests import Area
from ocannl.testing.kit.cases import Case, case, cell, load, pool, sym
from ocannl.testing.kit.harness import Bench
from ocannl.testing.program import LANGUAGE as oc

PROTOCOLS = {
    Tunable: ("variants", "compile_variants"),
    SupportsDlpack: ("to_dlpack", "from_dlpack"),
    DirectCallable: ("vectorcall",),
    SupportsCancellation: ("cancel",),
    SupportsHostMemory: ("host_pool",),
    HasSourceSuffix: ("source_suffix",),
}
READINGS = 50


def contradictions(claimed: Capabilities) -> dict[str, bool]:
    """Claims that exclude each other or have no effect."""
    width = claimed.vector_bytes
    return {
        "`wants_schedule` and `wants_fusion_groups` exclude each other": (
            claimed.wants_schedule and claimed.wants_fusion_groups
        ),
        "`grid_threads` has no effect with `wants_schedule`": claimed.wants_schedule and claimed.grid_threads > 0,
        "`grid_threads` is negative": claimed.grid_threads < 0,
        "`wants_online_softmax` has no effect without `wants_fusion_groups`": (
            claimed.wants_online_softmax and not claimed.wants_fusion_groups
        ),
        "`vector_bytes` has no effect without `wants_schedule`": width > 0 and not claimed.wants_schedule,
        "`vector_bytes` is neither 0 nor a power of two": width < 0 or (width > 0 and log2(width) % 1 > 0),
        "`vector_registers` is not positive": claimed.vector_registers < 1,
        "`bfloat16_dots` needs `bfloat16`, `float32` and `vector_bytes`": claimed.bfloat16_dots
        and not (width and {"bfloat16", "float32"} <= claimed.precisions),
        "`bfloat16_tiles` needs `bfloat16`, `float32` and `vector_bytes`": claimed.bfloat16_tiles is not None
        and not (width and {"bfloat16", "float32"} <= claimed.precisions),
        "`int16_dots` needs `int16`, `int32` and `vector_bytes`": claimed.int16_dots
        and not (width and {"int16", "int32"} <= claimed.precisions),
    }


def readings() -> Proc:
    """`times[i]` is the time of iteration `i`."""
    times, i = pool("times", np.zeros(READINGS, np.int64), AccessMode.OUT), sym("i", READINGS)
    return case("readings", [(times, np.zeros(READINGS, np.int64))], (loop(i, (ReadClock(cell(times, i)),)),)).proc


def copied(bench: Bench) -> Case:
    p = bench.number
    a = np.arange(64).astype(p.numpy)
    x, y, i = pool("x", a, AccessMode.IN), pool("y", a, AccessMode.OUT), sym("i", 64)
    body = (loop(i, (Store(cell(y, i), load(x, i)),)),)
    return case("copied", [(x, a), (y, np.zeros_like(a))], body, want=(a, a))


class Claims(Area):
    """Capabilities and optional protocols work if they are claimed, and are refused or absent otherwise."""

    def test_capabilities_agree_with_each_other(self, tested: Backend) -> None:
        violations = [rule for rule, is_violated in contradictions(tested.capabilities).items() if is_violated]
        assert not violations, "; ".join(violations)

    def test_required_operations(self, tested: Backend) -> None:
        claimed = tested.capabilities.operations
        assert claimed <= ALL_OPERATIONS, f"there are no operations {sorted(claimed - ALL_OPERATIONS)}"
        missing = ALL_OPERATIONS - claimed - COMPOSITIONS.keys()
        assert not missing, f"the core cannot compose {sorted(missing)}; a backend must have them"

    def test_timestamps(self, bench: Bench) -> None:
        proc = readings()
        if not (bench.backend.capabilities.timestamps and bench.claims(int64)):
            bench.refuses(proc, "timestamps|precisions")
            return
        (times,) = bench.run(Case(proc, (np.zeros(READINGS, np.int64),)))
        assert (np.diff(times) >= 0).all(), "`timestamps` is claimed, and the clock runs backwards"
        (second,) = bench.run(Case(proc, (np.zeros(READINGS, np.int64),)))
        assert second[0] > times[-1], "`timestamps` is claimed, and the clock stands still"

    def test_protocols_are_complete(self, bench: Bench) -> None:
        example = copied(bench)
        with bench.placed(example.proc, example.inputs) as placed:
            entry = bench.link(bench.code(example.proc), example.proc, placed)
        for implementer in (bench.backend, bench.device, bench.queue, entry):
            for protocol, members in PROTOCOLS.items():
                present = [name for name in members if getattr_static(implementer, name, None) is not None]
                missing = set(members) - set(present)
                assert not present or not missing, (
                    f"{type(implementer).__name__} has {present[0]}, but not {', '.join(missing)} of "
                    f"{protocol.__name__}"
                )

    def test_variants(self, bench: Bench) -> None:
        backend = bench.backend
        if not isinstance(backend, Tunable):
            pytest.skip("the backend has no variants")
        example = copied(bench)
        numbers = list(backend.variants(example.proc))
        assert numbers and len(set(numbers)) == len(numbers), "`variants` must give distinct numbers, the default first"
        assert numbers == list(backend.variants(example.proc)), "`variants` gives other numbers each time"
        codes = [backend.compile_variants([example.proc], [[number]]) for number in numbers]
        for code in codes:
            bench.check(example, code=code)
        assert backend.compile([example.proc]).source == codes[0].source, "the first variant must be the default"
        assert len({code.source for code in codes}) == len(codes), "variants must differ in their code"

    def test_cancellation(self, bench: Bench) -> None:
        queue = bench.device.queue(threaded=True)
        if not isinstance(queue, SupportsCancellation):
            pytest.skip("work cannot be cancelled")
        queue.cancel()
        seen: list[int] = []
        queue.submit(lambda n: seen.append(n), 1)
        queue.synchronize()
        assert seen == [1], "a queue must be usable after `cancel`"

    def test_host_memory(self, bench: Bench) -> None:
        device = bench.device
        if not isinstance(device, SupportsHostMemory):
            pytest.skip("the device cannot use memory of the host")
        step = bench.backend.capabilities.alignment_bytes
        buffer = np.zeros(4 * step, np.uint8)
        start = -buffer.ctypes.data % step
        memory = buffer[start : start + 2 * step]
        target, out = Location(device.host_pool(memory), step), np.zeros(step, np.uint8)
        bench.queue.from_host(target, np.arange(step, dtype=np.uint8))
        bench.queue.to_host(target, out)
        bench.queue.synchronize()
        assert np.array_equal(memory[step:], out) and out[1] == 1, "`host_pool` must give the memory itself, not a copy"

    def test_shared_arrays(self, bench: Bench) -> None:
        queue, device = bench.queue, bench.device
        if not isinstance(queue, SupportsDlpack):
            pytest.skip("the queue shares no arrays")
        array = np.arange(24, dtype=np.float32)
        slab = device.alloc_pool(array.nbytes)
        queue.from_host(Location(slab, 0), array)
        queue.synchronize()
        shared = queue.to_dlpack(Location(slab, 0), (4, 6), array.dtype, slab)
        assert hasattr(shared, "__dlpack__") and hasattr(shared, "__dlpack_device__"), "the result must support DLPack"
        if shared.__dlpack_device__()[0] == 1:  # the memory of the host
            assert np.array_equal(np.from_dlpack(shared), array.reshape(4, 6))
        imported = queue.from_dlpack(shared)
        assert imported is None or imported[1:] == ((4, 6), array.dtype)
        del shared, imported
        device.free_pool(slab)

    @pytest.mark.parametrize("name", ["softmax", "long sum", "normalization"])
    def test_programs_that_claims_change(self, bench: Bench, name: str) -> None:
        """Fused reductions, online softmax and sums that are split for a grid have the results of NumPy."""
        if not bench.claims("float32"):
            pytest.skip("the backend claims no float32")
        data = np.random.default_rng(3).normal(size=(3, 5000)).astype(np.float32)
        wide = data.astype(np.float64)
        x = oc.tensor(data, batch_axes=1)
        exponentials = np.exp(wide - wide.max(1, keepdims=True))
        y, want = {
            "softmax": lambda: (oc.softmax(x), exponentials / exponentials.sum(1, keepdims=True)),
            "long sum": lambda: (x.sum(), wide.sum()),
            "normalization": lambda: (
                x / oc.sqrt(oc.einsum("b|i => b|0", x * x)), wide / np.sqrt((wide**2).sum(1, keepdims=True))
            ),
        }[name]()
        with settings(cache=False), Context(bench.backend.name) as ctx:
            ctx.run(y.forward)
            np.testing.assert_allclose(np.squeeze(ctx[y]), np.squeeze(want), rtol=1e-4, atol=1e-4)
