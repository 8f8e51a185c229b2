"""Transports: messages, gathered bytes and shared windows. All processes execute the same tests in the same order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pytest

from ocannl.transport.api import Bytes, PersistentRequest, Transport
from ocannl.transport.registry import connect

OPTION = "--ocannl-transport"
LIMIT_SECONDS = 20.0  # of a single request, on a loaded machine
SIZES_BYTES = (0, 1, 7, 4096, 70_001, 1 << 22)  # messages that are copied at once, and others


class Communication:
    """The claims of `ocannl.transport.Transport`, except `abort`, in a world of any size."""

    transport: ClassVar[str | None] = None

    @pytest.fixture(scope="class")
    @classmethod
    def tested(cls, request: pytest.FixtureRequest) -> Iterator[Transport]:
        connection = connect(cls.transport or request.config.getoption(OPTION))
        yield connection
        connection.close()

    @pytest.fixture
    def ring(self, tested: Transport) -> tuple[int, int]:
        """The ranks that this process sends to and receives from."""
        if tested.size == 1:
            pytest.skip("a single process sends no messages")
        return (tested.rank + 1) % tested.size, (tested.rank - 1) % tested.size

    def test_ranks_and_hosts_are_the_same_in_all_processes(self, tested: Transport) -> None:
        described = np.array([tested.rank, tested.size, *tested.hosts])
        rows = gathered(tested, described.view(np.uint8)).view(described.dtype).reshape(tested.size, -1)
        assert [*rows[:, 0]] == [*range(tested.size)], "each process has a rank of its own"
        assert (rows[:, 1:] == described[1:]).all(), "all processes know the same size and hosts"

    @pytest.mark.parametrize("size_bytes", SIZES_BYTES)
    def test_a_message_arrives_each_time_it_is_started(
        self, tested: Transport, ring: tuple[int, int], size_bytes: int
    ) -> None:
        sent, received = np.zeros(size_bytes, np.uint8), np.zeros(size_bytes, np.uint8)
        sender, receiver = tested.sender(sent, ring[0], 5), tested.receiver(received, ring[1], 5)
        for number in range(3):
            sent[:] = content(size_bytes, tested.rank, number)
            receiver.start()
            complete(sender)
            finish(receiver)
            np.testing.assert_array_equal(received, content(size_bytes, ring[1], number))

    def test_messages_with_one_tag_arrive_in_order(self, tested: Transport, ring: tuple[int, int]) -> None:
        received = [np.zeros(3, np.uint8) for _ in range(20)]
        senders = [tested.sender(content(3, tested.rank, n), ring[0], 6) for n in range(20)]
        receivers = [tested.receiver(memory, ring[1], 6) for memory in received]
        for request in (*senders, *receivers):
            request.start()
        for request in (*senders, *receivers):
            finish(request)
        for number, memory in enumerate(received):
            np.testing.assert_array_equal(memory, content(3, ring[1], number))

    def test_a_receiver_takes_only_messages_with_its_tag(self, tested: Transport, ring: tuple[int, int]) -> None:
        tags = (0, 1, 257, 32767)
        senders = [tested.sender(content(9, tested.rank, tag % 100), ring[0], tag) for tag in tags]
        for sender in senders:
            sender.start()
        for tag in reversed(tags):
            received = np.zeros(9, np.uint8)
            complete(tested.receiver(received, ring[1], tag))
            np.testing.assert_array_equal(received, content(9, ring[1], tag % 100))
        for sender in senders:
            finish(sender)

    def test_requests_do_not_block(self, tested: Transport, ring: tuple[int, int]) -> None:
        memory, received = np.zeros(1 << 22, np.uint8), np.zeros(1 << 22, np.uint8)
        sender, receiver = tested.sender(memory, ring[0], 7), tested.receiver(received, ring[1], 7)
        assert sender.is_done() and receiver.is_done(), "a request that was never started is done"
        receiver.start()
        assert not receiver.is_done(), "nothing has been sent"
        gathered(tested, np.zeros(1, np.uint8))
        sender.start()  # returns although the message is large and all processes send first
        finish(sender)
        finish(receiver)
        assert sender.is_done() and receiver.is_done()

    @pytest.mark.parametrize("size_bytes", [1, 24, 100_000])
    def test_bytes_are_gathered_in_the_order_of_ranks(self, tested: Transport, size_bytes: int) -> None:
        memory, out = np.zeros(size_bytes, np.uint8), np.zeros(size_bytes * tested.size, np.uint8)
        gatherer = tested.gatherer(memory, out)
        for number in range(3):
            memory[:] = content(size_bytes, tested.rank, number)
            complete(gatherer)
            expected = [content(size_bytes, rank, number) for rank in range(tested.size)]
            np.testing.assert_array_equal(out, np.concatenate(expected))
            np.testing.assert_array_equal(memory, expected[tested.rank])

    @pytest.mark.parametrize("is_equal", [True, False])
    def test_all_processes_of_a_host_access_a_window(self, tested: Transport, is_equal: bool) -> None:
        if len(set(tested.hosts)) > 1:
            pytest.skip("the processes are on several hosts")
        sizes = [1000 if is_equal else 1000 * rank + rank for rank in range(tested.size)]
        parts = tested.window(range(tested.size), sizes)
        assert [part.nbytes for part in parts] == sizes
        assert all(part.ctypes.data % 64 == 0 for part in parts if part.nbytes)
        for writer in range(tested.size):  # each process writes the parts of all
            if writer == tested.rank:
                for rank, part in enumerate(parts):
                    part[:] = content(part.nbytes, writer, rank)
            gathered(tested, np.zeros(1, np.uint8))
            for rank, part in enumerate(parts):
                np.testing.assert_array_equal(part, content(part.nbytes, writer, rank))
            gathered(tested, np.zeros(1, np.uint8))

    def test_some_processes_of_a_host_access_a_window(self, tested: Transport) -> None:
        rank, size = tested.rank, tested.size
        if len(set(tested.hosts)) > 1:
            pytest.skip("the processes are on several hosts")
        pairs = [sorted({first, (first + step) % size}) for first in range(size) for step in (0, 1)]
        windows = [(ranks, tested.window(ranks, [100, 200][: len(ranks)])) for ranks in pairs if rank in ranks]
        assert all([part.nbytes for part in parts] == [100, 200][: len(ranks)] for ranks, parts in windows)
        for writer in range(size):
            for ranks, parts in windows if rank == writer else []:
                for part in parts:
                    part[:] = content(part.nbytes, writer, len(ranks))
            gathered(tested, np.zeros(1, np.uint8))
            for ranks, parts in windows if rank != writer else []:
                for part in parts if writer in ranks else []:
                    np.testing.assert_array_equal(part, content(part.nbytes, writer, len(ranks)))
            gathered(tested, np.zeros(1, np.uint8))

    def test_a_fence_orders_writes_and_reads_of_a_window(self, tested: Transport) -> None:
        if len(set(tested.hosts)) > 1:
            pytest.skip("the processes are on several hosts")
        ranks = range(tested.size)
        counters, values = tested.window(ranks, [8] * tested.size), tested.window(ranks, [1000] * tested.size)
        counters[tested.rank][:] = 0
        gathered(tested, np.zeros(1, np.uint8))
        for number in range(1, 21):
            values[tested.rank][:] = number
            tested.fence()
            counters[tested.rank].view(np.int64)[0] = 2 * number - 1
            for is_reading in (True, False):
                end = time.monotonic() + LIMIT_SECONDS
                while min(counter.view(np.int64)[0] for counter in counters) < 2 * number - is_reading:
                    assert time.monotonic() < end, f"a write was not seen for {LIMIT_SECONDS:g} seconds"
                    time.sleep(0)
                tested.fence()
                if is_reading:
                    assert all((value == number).all() for value in values)
                    counters[tested.rank].view(np.int64)[0] = 2 * number

    def test_several_threads_communicate(self, tested: Transport, ring: tuple[int, int]) -> None:
        failures: list[BaseException] = []

        def exchange(tag: int) -> None:
            try:
                sent, received = np.zeros(500, np.uint8), np.zeros(500, np.uint8)
                sender, receiver = tested.sender(sent, ring[0], tag), tested.receiver(received, ring[1], tag)
                for number in range(50):
                    sent[:] = content(500, tested.rank + tag, number)
                    receiver.start()
                    complete(sender)
                    finish(receiver)
                    np.testing.assert_array_equal(received, content(500, ring[1] + tag, number))
            except BaseException as failure:  # of a thread, for the test
                failures.append(failure)

        threads = [threading.Thread(target=exchange, args=(tag,)) for tag in (10, 20, 30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


def content(size_bytes: int, rank: int, number: int) -> Bytes:
    """Bytes that depend on the rank, the number of a message, and the position."""
    return ((np.arange(size_bytes) * 31 + rank * 97 + number * 13 + 1) % 251).astype(np.uint8)


def complete(request: PersistentRequest) -> None:
    request.start()
    finish(request)


def finish(request: PersistentRequest) -> None:
    """Waits for a request; fails if it takes too long, so that a lost message ends the test in all processes."""
    end = time.monotonic() + LIMIT_SECONDS
    while not request.is_done():
        assert time.monotonic() < end, f"a request was not done after {LIMIT_SECONDS:g} seconds"
        time.sleep(0)


def gathered(tested: Transport, memory: Bytes) -> Bytes:
    """Gathers bytes, which all processes wait for."""
    out = np.zeros(memory.nbytes * tested.size, np.uint8)
    complete(tested.gatherer(memory, out))
    return out
