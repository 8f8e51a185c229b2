"""Transports over MPI that break a claim each; `lying_transports.txt` lists the tests of the kit that must fail."""

from __future__ import annotations

import pytest

from ocannl.testing import kit
from ocannl.testing.kit import communication
from ocannl.transport.registry import connect

communication.LIMIT_SECONDS = 5.0  # many requests are never done


class Connection:
    """A correct connection, for the methods that a subclass does not replace."""

    def __init__(self, correct):
        self._correct = correct

    def __getattr__(self, name):
        return getattr(self._correct, name)


class Request:
    """A correct request, which runs `after` once when it is done."""

    def __init__(self, correct, after=lambda: None):
        self._correct, self._after, self._is_running = correct, after, False

    def start(self):
        self._is_running = True
        self._correct.start()

    def is_done(self):
        is_done = self._correct.is_done()
        if is_done and self._is_running:
            self._is_running = False
            self._after()
        return is_done


class LostByte(Connection):
    def receiver(self, memory, source, tag):
        def lose():
            memory[-1:] = 255

        return Request(self._correct.receiver(memory, source, tag), lose)


class Tagless(Connection):
    def sender(self, memory, target, tag):
        return self._correct.sender(memory, target, 0)

    def receiver(self, memory, source, tag):
        return self._correct.receiver(memory, source, 0)


class Reversed(Connection):
    def gatherer(self, memory, out):
        def reverse():
            out[:] = out[::-1].copy()

        return Request(self._correct.gatherer(memory, out), reverse)


class Misaligned(Connection):
    def window(self, ranks, sizes_bytes):
        return [part[1:] for part in self._correct.window(ranks, [size + 1 for size in sizes_bytes])]


class Private(Connection):
    def window(self, ranks, sizes_bytes):
        return [part.copy() for part in self._correct.window(ranks, sizes_bytes)]


class Lying(kit.Communication):
    lie = Connection

    @pytest.fixture(scope="class")
    @classmethod
    def tested(cls):
        connection = connect("mpi")
        yield cls.lie(connection)
        connection.close()


class TestLostByte(Lying):
    lie = LostByte


class TestTagless(Lying):
    lie = Tagless


class TestReversed(Lying):
    lie = Reversed


class TestMisaligned(Lying):
    lie = Misaligned


class TestPrivate(Lying):
    lie = Private
