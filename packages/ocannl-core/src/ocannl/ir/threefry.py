"""Threefry-4x32, a counter-based random number generator: its rounds as data, and a NumPy implementation.

All code generators share these steps: mixing pairs of words, and injecting words of the key.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011 (constants of Random123).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

PARITY = 0x1BD11BDA
ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
ROUNDS = (20, 12)  # as published; fewer for speed


@dataclass(frozen=True, slots=True)
class Mix:
    """x[left] += x[right]; x[right] = rotl(x[right], rotation) ^ x[left]."""

    left: int
    right: int
    rotation: int


@dataclass(frozen=True, slots=True)
class Inject:
    """x[lane] += key[word] + number; the key has five words, of which the last is the parity of the others."""

    lane: int
    word: int
    number: int


def steps(rounds: int) -> Iterator[Mix | Inject]:
    """The operations that turn the words of the counter into those of the result."""
    yield from (Inject(lane, lane, 0) for lane in range(4))
    for r in range(rounds):
        first, second = (1, 3) if r % 2 == 0 else (3, 1)
        rotations = ROTATIONS[r % 8]
        yield Mix(0, first, rotations[0])
        yield Mix(2, second, rotations[1])
        if r % 4 == 3:
            key = r // 4 + 1
            yield from (Inject(lane, (key + lane) % 5, key if lane == 3 else 0) for lane in range(4))


def threefry4x32(key: Sequence[Any], counter: Sequence[Any], rounds: int = 20) -> list[Any]:
    """The four words of the result, from four words of the key and four of the counter."""
    schedule = [np.asarray(k).astype(np.uint32) for k in key]
    schedule.append(np.uint32(PARITY) ^ schedule[0] ^ schedule[1] ^ schedule[2] ^ schedule[3])
    x = [np.asarray(c).astype(np.uint32) for c in counter]
    with np.errstate(over="ignore"):
        for step in steps(rounds):
            match step:
                case Mix(left, right, rotation):
                    x[left] = x[left] + x[right]
                    x[right] = (x[right] << np.uint32(rotation) | x[right] >> np.uint32(32 - rotation)) ^ x[left]
                case Inject(lane, word, number):
                    x[lane] = x[lane] + schedule[word] + np.uint32(number)
    return x


def word(rounds: int, *operands: Any) -> Any:
    """The word of the result selected by the ninth operand, modulo four."""
    x = threefry4x32(operands[:4], operands[4:8], rounds)
    lane = np.asarray(operands[8]).astype(np.uint32) & np.uint32(3)
    return np.select([lane == n for n in range(3)], x[:3], x[3])
