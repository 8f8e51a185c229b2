"""The random order of NumPy's `Generator.choice`, faster where SciPy is installed."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MIN_EXCHANGED = 10_001  # NumPy exchanges so many numbers or more, and draws fewer in another way
BLOCK_DRAWS = 1 << 14  # drawn at a time, they stay in the cache


def shuffled_range(n: int, seed: Array, out: Array) -> None:
    """Writes the numbers below `n` in the order of `choice`, the fastest of NumPy's functions for it.

    NumPy draws and exchanges one number at a time, so each exchange waits for its draw; here, all draws come first.
    LAPACK exchanges rows of any values of four bytes.
    """
    bits = np.random.SFC64(seed)
    swap_rows = _swap_rows() if n >= MIN_EXCHANGED else None
    if swap_rows is None or not out.flags.carray:
        out[...] = np.random.Generator(bits).choice(n, n, replace=False)
        return
    out[...] = np.arange(n, dtype=out.dtype)
    swap_rows(out.view(np.float32).reshape(n, 1), random_partners(n, bits), inc=-1, overwrite_a=1)  # from the last row


def _swap_rows() -> Any:
    """LAPACK's exchange of rows of float32; None without SciPy."""
    try:
        from scipy.linalg.lapack import slaswp
    except ImportError:
        return None
    return slaswp


def random_partners(n: int, bits: np.random.SFC64) -> Array:
    """For each i below `n`, a random number up to i, drawn in descending order of i.

    A draw of 32 bits times i + 1 has the number in its upper half. Lower halves that would make some numbers likelier
    are refused, and the next draw is taken. Source: Lemire 2019, "Fast random integer generation in an interval".
    """
    partners = np.zeros(n, np.int32)
    remaining, draws = partners[:0:-1], np.zeros(0, np.uint32)
    while len(remaining):
        if not len(draws):
            draws = bits.random_raw(BLOCK_DRAWS // 2).astype("<u8", copy=False).view("<u4")  # the lower half is first
        sizes = np.arange(len(remaining) + 1, max(len(remaining) + 1 - len(draws), 1), -1, dtype=np.uint64)
        products = sizes * draws[: len(sizes)].astype(np.uint64)
        low = products.astype(np.uint32)
        small = np.flatnonzero(low < sizes.astype(np.uint32))
        refused = small[low[small] < (1 << 32) % sizes[small]]
        accepted = int(refused[0]) if len(refused) else len(sizes)
        remaining[:accepted] = products[:accepted] >> np.uint64(32)
        remaining, draws = remaining[accepted:], draws[accepted + (len(refused) > 0) :]
    return partners
