"""The tensor puzzles of Sasha Rush (2022): twenty-one NumPy functions, each as an expression of a line or two.

python examples/tensor_puzzles.py

Comparisons of a row of positions 0, 1, 2, ... with a column of positions give 0/1 matrices; contracting a vector with
such a matrix selects, moves or adds cells. Puzzles whose result is an operation of ocannl use the operation.
"""

import numpy as np

import ocannl as oc


def size(a):
    return a.dims[-1]


def column(n):
    return oc.einsum("i => i0", oc.arange(n))


def row(n):
    return oc.einsum("j => 0j", oc.arange(n))


def ones(n):
    return oc.arange(n) * 0 + 1


def total(a):
    return a.sum()


def outer(a, b):
    return oc.einsum("i; j => ij", a, b)


def diag(a):
    return oc.einsum("ii => i", a)


def eye(n):
    return oc.eq(column(n), row(n))


def triu(n):
    return column(n) <= row(n)


def cumsum(a):
    return oc.einsum("i; io => o", a, triu(size(a)))


def diff(a):
    return oc.concat("1^o => o", a) - oc.concat("o^1 => o", a)


def vstack(a, b):
    return oc.stack([a, b])


def roll(a):
    return oc.concat("a; b => a^b", oc.concat("1^a => a", a), oc.concat("b^a => b", a, b=1))


def flip(a):
    return oc.einsum("i; io => o", a, oc.eq(column(size(a)) + row(size(a)), size(a) - 1))


def compress(keep, a):
    selected = oc.eq(oc.einsum("i => i0", cumsum(keep)) - 1, row(size(a)))
    return oc.einsum("i; i; io => o", keep, a, selected)


def pad_to(a, n):
    return oc.einsum("i; io => o", a, oc.eq(column(size(a)), row(n)))


def sequence_mask(a, lengths):
    return oc.where(row(size(a)) < oc.einsum("i => i0", lengths), a, 0)


def bincount(ids, n):
    return oc.einsum("io => o", oc.eq(oc.einsum("i => i0", ids), row(n)))


def scatter_add(a, ids, n):
    return oc.einsum("i; io => o", a, oc.eq(oc.einsum("i => i0", ids), row(n)))


def flatten(a):
    return oc.einsum("i, j => (i j)", a)


def linspace(first, last, n):
    return first + (last - first) * oc.arange(n) / max(1, n - 1)


def heaviside(a, b):
    return oc.where(oc.eq(a, 0), b, a > 0)


def repeat(a, n):
    return oc.einsum("i; j => ij", ones(n), a)


def bucketize(a, bounds):
    return oc.einsum("ij => i", oc.einsum("i => i0", a) >= oc.einsum("j => 0j", bounds))


def compressed(keep, a):
    out = np.zeros(len(a))
    kept = a[keep != 0]
    out[: len(kept)] = kept
    return out


def added(a, ids, n):
    out = np.zeros(n)
    np.add.at(out, ids, a)
    return out


a, b = np.array([0, 1, 3, 6, 10.0]), np.array([4, -2, 0, 7, 5.0])
table, ids, keep = np.arange(9.0).reshape(3, 3), np.array([2, 0, 2, 1, 2]), np.array([0, 1, 0, 1, 1.0])

PUZZLES = [
    (ones, lambda n: np.ones(n), (4,)),
    (total, np.sum, (a,)),
    (outer, np.outer, (a, b)),
    (diag, np.diag, (table,)),
    (eye, np.eye, (3,)),
    (triu, lambda n: np.triu(np.ones((n, n))), (3,)),
    (cumsum, np.cumsum, (a,)),
    (diff, np.diff, (a,)),
    (vstack, lambda a, b: np.vstack([a, b]), (a, b)),
    (roll, lambda a: np.roll(a, -1), (a,)),
    (flip, np.flip, (a,)),
    (compress, compressed, (keep, a)),
    (pad_to, lambda a, n: np.resize(np.append(a, np.zeros(n)), n), (a, 7)),
    (sequence_mask, lambda a, n: a * (np.arange(3) < n[:, None]), (table, np.array([1, 3, 0.0]))),
    (bincount, lambda ids, n: np.bincount(ids, minlength=n), (ids, 4)),
    (scatter_add, added, (a, ids, 4)),
    (flatten, np.ravel, (table,)),
    (linspace, np.linspace, (2.0, 10.0, 5)),
    (heaviside, np.heaviside, (b, a)),
    (repeat, lambda a, n: np.tile(a, (n, 1)), (a, 2)),
    (bucketize, lambda a, bounds: np.digitize(a, bounds), (b, np.array([0, 3, 5.0]))),
]


def main():
    solved = {}
    for solution, numpy, arguments in PUZZLES:
        tensors = [oc.tensor(x) if isinstance(x, np.ndarray) else x for x in arguments]
        answer = solution(*tensors).numpy()
        np.testing.assert_allclose(answer, numpy(*arguments))
        solved[solution.__name__] = answer
        print(f"{solution.__name__:<14}{' '.join(f'{cell:g}' for cell in answer.flat)}")
    return solved


if __name__ == "__main__":
    main()
