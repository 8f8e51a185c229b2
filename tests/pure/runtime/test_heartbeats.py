"""Heartbeats between two threads that stand for processes, and what counts as waiting for a processor."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from ocannl.runtime import heartbeats
from ocannl.runtime.heartbeats import Heartbeats, is_idle


class Channel:
    """A request of one side of a channel; arrays receive messages only while the request is active."""

    def __init__(self, memory, messages, is_sender):
        self.memory, self.messages, self.is_sender, self.is_active = memory, messages, is_sender, False

    def start(self):
        assert not self.is_active
        if self.is_sender:
            self.messages.put(self.memory.copy())
        else:
            self.is_active = True

    def is_done(self):
        if self.is_active and not self.messages.empty():
            self.memory[:] = self.messages.get()
            self.is_active = False
        return not self.is_active


class Pair:
    """The transport of one of two processes."""

    size = 2
    hosts = (0, 0)

    def __init__(self, rank, channels):
        self.rank, self.channels, self.receivers = rank, channels, []

    def sender(self, memory, target, tag):
        return Channel(memory, self.channels[target], True)

    def receiver(self, memory, source, tag):
        self.receivers.append(Channel(memory, self.channels[self.rank], False))
        return self.receivers[-1]


@pytest.fixture
def pair():
    channels = [queue.Queue(), queue.Queue()]
    return [Pair(rank, channels) for rank in range(2)]


@pytest.fixture(autouse=True)
def short_period(monkeypatch):
    monkeypatch.setattr(heartbeats, "PERIOD_SECONDS", 0.01)


@pytest.mark.parametrize("first", [0, 1])
def test_no_request_is_active_after_the_end(pair, first):
    failures = []
    both = [Heartbeats(transport, 30, failures.append) for transport in pair]
    time.sleep(0.05)
    both[first]._stopped.set()
    time.sleep(0.05)  # the other process goes on for a while
    for beats in reversed(both):
        beats._stopped.set()
    for beats in both:
        beats.stop()
    assert not failures and not any(request.is_active for transport in pair for request in transport.receivers)
    assert all(channel.empty() for channel in pair[0].channels)


@pytest.mark.parametrize("is_starved", [False, True])
def test_starved_processes_are_not_failed(pair, is_starved, monkeypatch):
    monkeypatch.setattr(heartbeats, "thread_states", lambda process: {5: {"S", "R"} if is_starved else {"S"}}[process])
    failures = []
    alone = Heartbeats(pair[0], 0.1, failures.append)
    alone.watch([4, 5])
    time.sleep(0.5)
    assert bool(failures) is not is_starved
    pair[0].channels[0].put(np.zeros(1, np.uint8))
    alone.stop()


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the system has no /proc")
def test_states_of_processes():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        time.sleep(0.3)
        assert not is_idle(busy.pid)
        busy.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        assert is_idle(busy.pid)
        busy.kill()
        time.sleep(0.1)
        assert not is_idle(busy.pid)  # it has ended, which is not yet reported to its parent
    assert not is_idle(busy.pid)
