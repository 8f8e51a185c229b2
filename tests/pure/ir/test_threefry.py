"""Threefry-4x32 against the published answers, and against the paper in Python's integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocannl.ir.ops import BY_NAME
from ocannl.ir.threefry import ROUNDS, threefry4x32, word

ZEROS, ONES = "00000000 " * 4, "ffffffff " * 4
PI = "243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0 082efa98 ec4e6c89"

# Source: Random123 1.14, tests/kat_vectors: counter, key, result. It has none of 12 rounds.
PUBLISHED = [
    (ZEROS, ZEROS, "9c6ca96a e17eae66 fc10ecd4 5256a7d8"),
    (ONES, ONES, "2a881696 57012287 f6c7446e a16a6732"),
    (*PI, "59cd1dbb b8879579 86b5d00c ac8b6d84"),
]


def words(text: str) -> list[int]:
    return [int(w, 16) for w in text.split()]


@pytest.mark.parametrize(("counter", "key", "result"), PUBLISHED, ids=["zeros", "ones", "pi"])
def test_the_published_answers(counter: str, key: str, result: str) -> None:
    assert [f"{w:08x}" for w in threefry4x32(words(key), words(counter))] == result.split()


def of_the_paper(key: list[int], counter: list[int], rounds: int) -> list[int]:
    """Section 3.3, in Python's integers."""
    mask = 0xFFFFFFFF
    rotations = [(10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)]
    ks = [*key, 0x1BD11BDA ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
    x = [(c + k) & mask for c, k in zip(counter, key, strict=True)]

    def mix(a: int, b: int, r: int) -> None:
        x[a] = (x[a] + x[b]) & mask
        x[b] = ((x[b] << r | x[b] >> (32 - r)) & mask) ^ x[a]

    for n in range(rounds):
        r0, r1 = rotations[n % 8]
        if n % 2 == 0:
            mix(0, 1, r0)
            mix(2, 3, r1)
        else:
            mix(0, 3, r0)
            mix(2, 1, r1)
        if n % 4 == 3:
            s = n // 4 + 1
            x = [(v + ks[(s + i) % 5]) & mask for i, v in enumerate(x)]
            x[3] = (x[3] + s) & mask
    return x


@pytest.mark.parametrize("rounds", ROUNDS)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=8, max_size=8))
def test_it_is_that_of_the_paper(rounds: int, numbers: list[int]) -> None:
    want = of_the_paper(numbers[:4], numbers[4:], rounds)
    assert [int(w) for w in threefry4x32(numbers[:4], numbers[4:], rounds)] == want


@given(st.lists(st.integers(0, 2**32 - 1), min_size=8, max_size=8))
def test_one_by_one_and_together_it_is_the_same(numbers: list[int]) -> None:
    key, counter = numbers[:4], numbers[4:]
    vectorized = [np.array([c, c ^ (lane == 0), c], np.uint32) for lane, c in enumerate(counter)]
    together = threefry4x32(key, vectorized)
    assert (
        [int(x[0]) for x in together] == [int(x[2]) for x in together] == [int(x) for x in threefry4x32(key, counter)]
    )
    assert [int(x[0]) for x in together] != [int(x[1]) for x in together]


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_word_is_named_by_the_last_operand(rounds: int) -> None:
    rng = np.random.default_rng(0)
    operands = [rng.integers(0, 2**32, 20, np.uint32) for _ in range(8)]
    four = threefry4x32(operands[:4], operands[4:], rounds)
    for lane in range(8):
        got = BY_NAME[f"threefry4x32_{rounds}"].numpy(*operands, np.full(20, lane, np.uint32))
        assert got.dtype == np.uint32 and np.array_equal(got, four[lane % 4])
    assert np.array_equal(word(rounds, *operands, np.arange(20)), [four[n % 4][n] for n in range(20)])
