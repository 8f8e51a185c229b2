"""Queues and events, in both modes: order, waiting, failure."""

from __future__ import annotations

import threading
import time
from functools import partial

import numpy as np
import pytest

from ocannl.backend.api import Location, Queue
from ocannl.ir.affine import Sym, SymKind
from ocannl.ir.loops import Apply, IndexValue, Store, Update, loop
from ocannl.ir.ops import ADD, MUL
from ocannl.testing.kit.backend_tests import Area
from ocannl.testing.kit.cases import A, Array, Case, case, cell, load, pool, sym
from ocannl.testing.kit.harness import Bench, call
from ocannl.testing.kit.memory import KINDS, quietly, read, slabs

LIMIT = 20  # seconds


class Gate:
    """Work that blocks a queue until the gate is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    def __call__(self) -> None:
        assert self.opened.wait(LIMIT), "the gate was not opened"

    def open(self) -> None:
        self.opened.set()


def note(seen: list[float], out: Array) -> None:
    seen.append(float(out[0]))


def fail() -> None:
    raise ZeroDivisionError("on purpose")


def counted(bench: Bench) -> Case:
    """`y[0] = 2 * y[0] + n`: the result depends on the order and number of calls."""
    p = bench.number
    n = Sym("n", 0, 9, SymKind.STATIC)
    y = pool("y", np.zeros(1, p.numpy))
    body = (Store(cell(y, 0), Apply(ADD, (Apply(ADD, (load(y, 0), load(y, 0))), IndexValue(A(n), p)))),)
    return case("counted", [(y, np.zeros(1, p.numpy))], body, syms=(n,), values=(1,))


class Queues(Area):
    """Queues are FIFO; waiting for an event orders queues; a failure is raised once."""

    @pytest.fixture(params=[False, True], ids=["inline", "threaded"])
    def queue(self, bench: Bench, request: pytest.FixtureRequest) -> Queue:
        return bench.device.queue(request.param)

    def test_a_queue_knows_its_device(self, bench: Bench, queue: Queue) -> None:
        assert queue.device is bench.device
        assert isinstance(queue.immediate, bool)

    def test_work_is_done_in_order(self, queue: Queue) -> None:
        seen: list[int] = []
        for n in range(300):
            queue.submit(lambda n: seen.append(n), n)
        queue.synchronize()
        assert seen == list(range(300))

    def test_a_queue_has_read_what_it_was_given(self, bench: Bench, queue: Queue) -> None:
        """Immediate queues copy during the call, others until they are synchronized."""
        array, out = np.arange(1000, dtype=np.uint8), np.zeros(1000, np.uint8)
        pool = bench.device.alloc_pool(array.nbytes)
        queue.from_host(Location(pool, 0), array)
        if not queue.immediate:
            queue.synchronize()
        inputs = array.copy()
        array[...] = 0
        queue.to_host(Location(pool, 0), out)
        queue.synchronize()
        bench.device.free_pool(pool)
        assert np.array_equal(out, inputs)

    def test_values_reach_the_work(self, queue: Queue) -> None:
        seen: list[tuple[int, ...]] = []
        for values in ((), (1,), (2, 3), (-4, 5, 6)):
            queue.submit(lambda *inputs: seen.append(inputs), *values)
        queue.synchronize()
        assert seen == [(), (1,), (2, 3), (-4, 5, 6)]

    def test_programs_copies_and_work_keep_one_order(self, bench: Bench, queue: Queue) -> None:
        example = counted(bench)
        code = bench.code(example.proc)
        kind = example.inputs[0].dtype
        seen: list[float] = []
        with bench.placed(example.proc, example.inputs, queue) as placed, slabs(bench.device, 64) as (spare,):
            entry, y = bench.link(code, example.proc, placed), placed.locations[0]
            outs = [np.zeros(1, kind) for _ in range(12)]
            for n, out in enumerate(outs):
                call(queue, entry, n % 10)
                queue.to_host(y, out)
                queue.submit(quietly(partial(note, seen, out)))
                if n == 4:
                    queue.copy(y, Location(spare, 0), kind.itemsize)
                if n == 7:
                    queue.zero(y, kind.itemsize)
                if n == 9:
                    queue.copy(Location(spare, 0), y, kind.itemsize)
            queue.synchronize()
        want, y_now, kept = [], 0, 0
        for n in range(12):
            y_now = 2 * y_now + n % 10
            want.append(y_now)
            kept = y_now if n == 4 else kept
            y_now = 0 if n == 7 else kept if n == 9 else y_now
        assert [int(out[0]) for out in outs] == want
        assert seen == want

    def test_a_threaded_queue_does_not_make_its_caller_wait(self, bench: Bench) -> None:
        queue, gate, seen = bench.device.queue(threaded=True), Gate(), list[int]()
        queue.submit(gate)
        for n in range(50):
            queue.submit(lambda n: seen.append(n), n)
        point = queue.record()
        assert not seen and not point.is_done()
        gate.open()
        point.synchronize()
        assert len(seen) == 50 and point.is_done()
        queue.synchronize()

    def test_an_event_lies_after_what_came_before(self, queue: Queue) -> None:
        seen: list[int] = []
        queue.submit(quietly(partial(time.sleep, 0.02)))
        queue.submit(lambda n: seen.append(n), 1)
        point = queue.record()
        point.synchronize()
        assert seen == [1] and point.is_done()

    def test_an_event_does_not_lie_after_what_comes_later(self, bench: Bench) -> None:
        queue, gate = bench.device.queue(threaded=True), Gate()
        point = queue.record()
        queue.submit(gate)
        point.synchronize()
        assert point.is_done()
        gate.open()
        queue.synchronize()

    @KINDS
    def test_a_queue_waits_for_another(self, bench: Bench, threaded: bool) -> None:
        first, second = bench.device.queue(threaded=True), bench.device.queue(threaded)
        gate, seen = Gate(), list[int]()
        first.submit(gate)
        first.submit(lambda n: seen.append(n), 1)
        if threaded:
            second.wait(first.record())
            second.submit(lambda n: seen.append(n), 2)
            time.sleep(0.05)
            assert not seen, "work began before the event that it waits for"
            gate.open()
        else:
            opener = threading.Timer(0.05, gate.open)
            opener.start()
            second.wait(first.record())  # the calling thread waits
            second.submit(lambda n: seen.append(n), 2)
            opener.join()
        second.synchronize()
        first.synchronize()
        assert seen == [1, 2]

    def test_a_queue_does_not_wait_for_what_it_was_not_told_of(self, bench: Bench) -> None:
        first, second, gate = bench.device.queue(threaded=True), bench.device.queue(threaded=True), Gate()
        first.submit(gate)
        second.submit(quietly(lambda: None))
        second.synchronize()
        gate.open()
        first.synchronize()

    def test_queues_of_devices_wait_for_each_other(self, bench: Bench) -> None:
        example, spare = bench.two()
        first, second, gate, seen = example.queue(threaded=True), spare.queue(threaded=True), Gate(), list[int]()
        first.submit(gate)
        first.submit(lambda n: seen.append(n), 1)
        second.wait(first.record())
        second.submit(lambda n: seen.append(n), 2)
        first.wait(second.record())
        first.submit(lambda n: seen.append(n), 3)
        time.sleep(0.02)
        assert not seen
        gate.open()
        first.synchronize()
        assert seen == [1, 2, 3]

    def test_copies_wait_as_well(self, bench: Bench) -> None:
        first, second, gate = bench.device.queue(threaded=True), bench.device.queue(threaded=True), Gate()
        with slabs(bench.device, 64, 64) as (source, target):
            second.zero(Location(target, 0), 64)
            first.zero(Location(source, 0), 64)
            first.submit(gate)
            first.from_host(Location(source, 0), np.full(64, 7, np.uint8))
            second.wait(first.record())
            second.copy(Location(source, 0), Location(target, 0), 64)
            time.sleep(0.02)
            gate.open()
            assert (read(second, Location(target, 0), 64) == 7).all()
            first.synchronize()

    def test_a_failure_drops_what_follows_and_is_told_once(self, bench: Bench) -> None:
        queue, gate, seen = bench.device.queue(threaded=True), Gate(), list[int]()
        queue.submit(gate)
        queue.submit(fail)
        queue.submit(lambda n: seen.append(n), 1)
        point = queue.record()
        gate.open()
        with pytest.raises(Exception, match="on purpose"):
            point.synchronize()
        with pytest.raises(Exception, match="on purpose"):
            queue.synchronize()
        assert not seen, "work went on after a failure"
        queue.submit(lambda n: seen.append(n), 2)
        queue.synchronize()
        assert seen == [2]

    def test_a_failure_in_the_call_itself_is_raised_there(self, bench: Bench) -> None:
        queue, seen = bench.device.queue(threaded=False), list[int]()
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            queue.submit(fail)
            queue.synchronize()
        queue.submit(lambda n: seen.append(n), 2)
        queue.synchronize()
        assert seen == [2]

    def test_a_failure_reaches_who_waits_for_it(self, bench: Bench) -> None:
        first, second = bench.device.queue(threaded=True), bench.device.queue(threaded=True)
        gate, seen = Gate(), list[int]()
        first.submit(gate)
        first.submit(fail)
        second.wait(first.record())
        second.submit(lambda n: seen.append(n), 1)
        gate.open()
        with pytest.raises(Exception, match="on purpose"):
            second.synchronize()
        assert not seen
        with pytest.raises(Exception, match="on purpose"):
            first.synchronize()

    def test_queues_come_and_go(self, bench: Bench) -> None:
        before = threading.active_count()
        for _ in range(30):
            queue = bench.device.queue(threaded=True)
            queue.submit(quietly(lambda: None))
            queue.synchronize()
            del queue
        for _ in range(200):
            if threading.active_count() <= before + 8:
                break
            time.sleep(0.02)
        assert threading.active_count() <= before + 8, "queues leave their threads behind"

    @KINDS
    def test_many_calls(self, bench: Bench, threaded: bool) -> None:
        """More calls than a queue may hold."""
        p, queue = bench.number, bench.device.queue(threaded)
        y, i = pool("y", np.zeros(4, p.numpy)), sym("i", 4)
        example = case("many", [(y, np.zeros(4, p.numpy))], (loop(i, (Update(cell(y, i), ADD, IndexValue(A(i), p)),)),))
        code = bench.code(example.proc)
        with bench.placed(example.proc, example.inputs, queue) as placed:
            entry = bench.link(code, example.proc, placed)
            for _ in range(6000):
                call(queue, entry)
            assert placed.read()[0].tolist() == [0, 6000, 12000, 18000]

    def test_two_queues_work_at_the_same_time(self, bench: Bench) -> None:
        """Each waits until the other has reached a barrier."""
        first, second = bench.device.queue(threaded=True), bench.device.queue(threaded=True)
        meeting = threading.Barrier(2, timeout=LIMIT)
        first.submit(quietly(meeting.wait))
        second.submit(quietly(meeting.wait))
        first.synchronize()
        second.synchronize()

    def test_numbers_multiply_in_order(self, bench: Bench) -> None:
        """Two alternating programs: sums and products do not commute."""
        p, queue = bench.number, bench.device.queue(threaded=True)
        start = np.ones(1, p.numpy)
        y = pool("y", start)
        double = case("double", [(y, start)], (Update(cell(y, 0), ADD, load(y, 0)),))
        square = case("square", [(y, start)], (Update(cell(y, 0), MUL, load(y, 0)),))
        code = bench.backend.compile([double.proc, square.proc])
        with bench.placed(double.proc, [start], queue) as placed:
            entries = [bench.link(code, example.proc, placed) for example in (double, square)]
            for n in (0, 1, 0, 1):  # 2, 4, 8, 64
                call(queue, entries[n])
            assert placed.read()[0].tolist() == [64]
