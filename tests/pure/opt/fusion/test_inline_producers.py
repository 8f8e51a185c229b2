"""What moves into its readers, and what must not."""

from __future__ import annotations

import re

import pytest

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Call, Comp, Convert, Index, Number, Piece, Read, Seq, Value
from ocannl.ir.loops import Proc
from ocannl.ir.ops import ADD, BY_NAME, MUL, Op
from ocannl.ir.precision import Precision, bfloat16, float32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.lower.lower import lower
from ocannl.opt.fusion.inline_producers import inline_producers
from ocannl.opt.memory.decide_placement import decide_placement
from ocannl.opt.simplify.eliminate_dead_code import eliminate_dead_code


def node(label: str, *dims: int, role: Role = Role.RESULT, kind: Precision = float32) -> TNode:
    return TNode(label, role, lambda: dims, lambda: kind)


def loops(*sizes: int) -> tuple[Sym, ...]:
    return tuple(Sym(name, 0, n - 1) for name, n in zip("ijkl", sizes, strict=False))


def at(*indices: Affine | Sym | int) -> tuple[Affine, ...]:
    return tuple(map(Affine.of, indices))


def op(name: str, *args: Value) -> Value:
    return Call(BY_NAME[name], args)


def put(
    lhs: TNode, over: tuple[Sym, ...], value: Value, accum: Op | None = None, clear: bool = True, to: int | None = None
) -> Assign:
    indices = at(*over[: len(lhs.dims) if to is None else to])
    return Assign(lhs, accum, clear, (Piece(over, indices, value),))


def left(*code: Comp, shares: bool = True) -> list[str]:
    """The statements that remain, without their loops."""
    proc = eliminate_dead_code(inline_producers(decide_placement(lower(Seq(code), "step"), {}), shares))
    return [line.strip() for line in body(proc) if not line.strip().startswith("for ")]


def body(proc: Proc) -> list[str]:
    return [line for line in print_proc(proc).splitlines()[1:] if " : " not in line]


X, Y, T, W = node("x", 5), node("y", 5), node("t", 5), node("w", 5, role=Role.PARAMETER)
(I,), (K,) = loops(5), loops(5)
x_i, t_k, w_i, w_k = Read(X, at(I)), Read(T, at(K)), Read(W, at(I)), Read(W, at(K))
twice_t = op("mul", t_k, Number(2))


def test_reads_take_the_value_at_their_own_index() -> None:
    t = node("t", 3, 5)
    i, j = loops(3, 5)
    k, m = loops(5, 3)
    first = put(t, (i, j), op("add", Read(X, at(j)), Index(Affine.of(i) * 10)))
    last = put(node("y", 5, 3), (k, m), Read(t, at(m, Affine.of(4) - k)))
    assert left(first, last) == ["y[i_2, j_2] = x[-i_2+4] + (10*j_2)"]


def test_constants_indices_and_copies_go_everywhere() -> None:
    i, j, k = loops(2, 3, 5)
    y = node("y", 2, 3)
    fill = put(T, (I,), Number(3))
    assert left(fill, put(y, (i, j, k), op("mul", Read(T, at(k)), Read(X, at(k))), ADD)) == [
        "y[i_2, j] = 0", "y[i_3, j_2] += 3 * x[k]",
    ]  # fmt: skip
    copy = put(T, (I,), x_i)
    assert left(copy, put(y, (i, j, k), Read(T, at(k)), ADD))[-1] == "y[i_3, j_2] += x[k]"
    ramp = put(T, (I,), Index(Affine.of(I) + 1))
    assert left(ramp, put(y, (i, j, k), Read(T, at(k)), ADD))[-1] == "y[i_3, j_2] += k+1"


def test_guards_stay_around_what_they_guard() -> None:
    padded = Read(T, at(Affine.of(K) - 1), outside=0.0)
    assert left(put(T, (I,), op("mul", x_i, Number(2))), put(Y, (K,), padded)) == [
        "y[i_2] = x[i_2-1] * 2 if i_2-1 >= 0 else 0"
    ]


def test_chains_collapse_and_stop_growing() -> None:
    nodes = [X, *(node(f"t{n}", 5) for n in range(100))]
    code = []
    for n, node_n in enumerate(nodes[1:]):
        (i,) = loops(5)
        code.append(put(node_n, (i,), op("max", Read(nodes[n], at(i)), Number(n))))
    remaining = left(*code)
    assert 2 <= len(remaining) <= 5
    assert max(map(len, remaining)) < 600


@pytest.mark.parametrize(
    ("value", "readers", "moves"),
    [
        ("tanh", 1, True), ("tanh", 2, False), ("sqrt", 2, True), ("exp", 1, True), ("relu", 3, True), ("div", 1, True),
    ],
)  # fmt: skip
def test_several_readers_take_only_what_is_cheap(value: str, readers: int, moves: bool) -> None:
    first = put(T, (I,), op(value, *[x_i, w_i][: BY_NAME[value].arity]))
    readers_of_t = [put(node(f"y{n}", 5), (K,), twice_t) for n in range(readers)]
    assert (len(left(first, *readers_of_t)) == readers) is moves


def test_a_reader_that_mentions_it_twice_needs_somebody_who_shares() -> None:
    code = (put(T, (I,), op("tanh", x_i)), put(Y, (K,), op("mul", t_k, t_k)))
    assert len(left(*code, shares=True)) == 1
    assert len(left(*code, shares=False)) == 2
    reversed_copy = put(Y, (K,), op("mul", t_k, Read(T, at(-Affine.of(K) + 4))))
    assert len(left(code[0], reversed_copy, shares=True)) == 2


@pytest.mark.parametrize(
    ("size", "shifts", "axis", "function", "moves"),
    [(3, (-2, 1), 0, "tanh", True), (3, (-1, 2), 0, "tanh", True), (3, (-1, 1), 0, "tanh", False),
     (5, (-1, 1), 0, "tanh", False), (40, (-39, 1), 0, "tanh", False), (3, (-2, 1), 1, "tanh", False),
     (3, (-2, 1), 1, "mul", True)],
)  # fmt: skip
def test_guards_along_short_loops_select_one_of_several_uses(
    size: int, shifts: tuple[int, int], axis: int, function: str, moves: bool
) -> None:
    """The axis of a roll. Guards that hold in the same iterations select no use, neither do those along long loops, nor
    elementary functions along contiguous cells."""
    dims = (size, 100) if axis == 0 else (100, size)
    t, x, y = (node(label, *dims) for label in "txy")
    over, z = loops(*dims), node("z", *dims)
    cells = [(Affine.of(over[0]), Affine.of(over[1]) + shift) for shift in shifts]
    if axis == 0:
        cells = [(Affine.of(over[0]) + shift, Affine.of(over[1])) for shift in shifts]
    value = op("tanh", Read(x, at(*over))) if function == "tanh" else _products(Read(x, at(*over)), Read(z, at(*over)))
    code = put(t, over, value), put(y, over, op("add", *(Read(t, cell, 0.0) for cell in cells)))
    assert (len(left(*code)) == 1) is moves


def _products(x: Value, z: Value) -> Value:
    """More than several readers recompute."""
    return op("add", op("mul", x, z), op("mul", op("add", x, z), z))


def test_nothing_is_computed_more_often_than_it_has_cells() -> None:
    i, j = loops(3, 5)
    first = put(T, (I,), op("add", x_i, w_i))
    matrix = put(node("y", 3, 5), (i, j), Read(T, at(j)))
    assert left(first, matrix) == ["t[i] = x[i] + w[i]", "y[i_2, j] = t[j]"]
    sum_ = put(node("s"), (K,), t_k, ADD)
    assert left(first, sum_) == ["s = 0", "s += x[i_2] + w[i_2]"]


def test_narrow_casts_are_not_free() -> None:
    i, j = loops(3, 5)
    narrow = node("narrow", 5, kind=bfloat16)
    first = put(T, (I,), Convert(Read(narrow, at(I)), float32))
    assert len(left(first, put(node("y", 3, 5), (i, j), Read(T, at(j))))) == 2
    assert left(first, put(Y, (K,), twice_t)) == ["y[i_2] = f32(narrow[i_2]) * 2"]


def test_sums_stay() -> None:
    i, j = loops(5, 7)
    wide = node("wide", 5, 7)
    first = put(T, (i, j), Read(wide, at(i, j)), ADD)
    assert left(first, put(Y, (K,), twice_t)) == ["t[i] = 0", "t[i_2] += wide[i_2, j]", "y[i_3] = t[i_3] * 2"]


def test_not_across_a_write_of_what_it_reads() -> None:
    first = put(T, (I,), op("mul", w_i, Number(2)))
    change = put(W, (K,), Number(0))
    last = put(Y, (K,), twice_t)
    assert left(first, change, last) == ["t[i] = w[i] * 2", "w[i_2] = 0", "y[i_3] = t[i_3] * 2"]
    assert left(first, last, change) == ["y[i_2] = w[i_2] * 2 * 2", "w[i_3] = 0"]


def test_into_an_update_of_what_it_reads_cell_by_cell() -> None:
    step = put(T, (I,), op("mul", w_i, Number(0.1)))
    assert left(step, put(W, (K,), t_k, ADD, clear=False)) == ["w[i_2] += w[i_2] * 0.1"]
    mirrored = put(W, (K,), Read(T, at(-Affine.of(K) + 4)), ADD, clear=False)
    assert len(left(step, mirrored)) == 2
    i, j = loops(5, 3)
    product = put(W, (i, j), Read(T, at(i)), MUL, clear=False)
    assert len(left(step, product)) == 2  # every step would read what the one before wrote


def test_all_readers_or_none() -> None:
    first = put(T, (I,), op("add", x_i, w_i))
    good = put(node("y1", 5), (K,), twice_t)
    change = put(W, (K,), Number(0))
    late = put(node("y2", 5), (K,), twice_t)
    assert left(first, good, change, late)[:2] == ["t[i] = x[i] + w[i]", "y1[i_2] = t[i_2] * 2"]


def test_a_copy_moves_on_rather_than_taking_part() -> None:
    i, j, k = loops(3, 5, 5)
    c = node("c", 5)
    first = put(T, (I,), op("add", x_i, w_i))
    copy = put(c, (K,), t_k)
    matrix = put(node("y1", 3, 5), (i, j), Read(c, at(j)))
    vector_copy = put(node("y2", 5), (k,), Read(T, at(k)))
    assert left(first, copy, matrix, vector_copy) == ["t[i] = x[i] + w[i]", "y1[i_3, j] = t[j]", "y2[k] = t[k]"]


def test_what_was_overwritten_before_does_not_matter() -> None:
    first = put(T, (I,), Number(0))
    (m,) = loops(5)
    again = put(T, (m,), op("mul", Read(X, at(m)), Number(2)))
    assert left(first, again, put(Y, (K,), t_k)) == ["y[i_3] = x[i_3] * 2"]


def test_what_is_changed_in_place_is_known_before_and_after() -> None:
    (m,) = loops(5)
    twice = put(T, (m,), op("mul", Read(T, at(m)), Number(2)))
    assert left(put(T, (I,), op("neg", x_i)), twice, put(Y, (K,), t_k)) == ["y[i_3] = -x[i_3] * 2"]


def test_each_reader_takes_the_value_of_its_time() -> None:
    first, early = put(T, (I,), op("neg", x_i)), put(node("y1", 5), (K,), twice_t)
    again, late = put(T, (I,), Number(3)), put(node("y2", 5), (K,), twice_t)
    assert left(first, early, again, late) == ["y1[i_2] = -x[i_2] * 2", "y2[i_4] = 6"]


def test_what_is_changed_in_part_stays() -> None:
    (m,) = loops(3)
    part = Assign(T, None, False, (Piece((m,), at(m), Number(0)),))
    assert left(put(T, (I,), op("neg", x_i)), part, put(Y, (K,), t_k)) == [
        "t[i] = -x[i]", "t[i_2] = 0", "y[i_3] = t[i_3]",
    ]  # fmt: skip


def test_what_is_written_several_times_stays() -> None:
    (m, n) = loops(5, 3)
    again = Assign(T, BY_NAME["relu_gate"], False, (Piece((m, n), at(m), Read(W, at(m))),))
    assert left(put(T, (I,), op("neg", x_i)), again, put(Y, (K,), t_k)) == [
        "t[i] = -x[i]", "t[i_2] = relu_gate(t[i_2], w[i_2])", "y[i_3] = t[i_3]",
    ]  # fmt: skip


def test_what_is_added_to_stays() -> None:
    more = put(T, (I,), w_i, ADD, clear=False)
    assert left(put(T, (I,), op("neg", x_i)), put(Y, (K,), t_k), more, put(node("z", 5), (K,), t_k)) == [
        "t[i] = -x[i]", "y[i_2] = t[i_2]", "t[i_3] += w[i_3]", "z[i_4] = t[i_4]",
    ]  # fmt: skip


def test_a_gradient_in_a_narrow_type_begins_with_a_number() -> None:
    """And what is rounded stays with the sum, so that the wide one is nobody else's."""
    (j,) = loops(7)
    g, w = node("g", 5, kind=bfloat16), node("w", 5, 7)
    more = Assign(g, ADD, False, (Piece((I, j), at(I), Read(w, at(I, j))),))
    assert left(put(g, (I,), Number(0)), more, put(Y, (K,), op("neg", Read(g, at(K))))) == [
        "g_sum[i_2] = 0", "g_sum[i_3] += w[i_3, i_4]", "g[i_5] = bfloat16(g_sum[i_5])", "y[i_6] = -f32(g[i_6])",
    ]  # fmt: skip


def test_parts_of_a_concatenation_stay() -> None:
    t = node("t", 8)
    (a,), (b,), (k,) = loops(5), loops(3), loops(8)
    code = Assign(t, None, True, (
        Piece((a,), at(a), Read(X, at(a))), Piece((b,), at(Affine.of(b) + 5), Number(1)),
    ))  # fmt: skip
    assert len(left(code, put(node("y", 8), (k,), Read(t, at(k))))) == 3


def test_kept_nodes_stay() -> None:
    y = node("kept", 5, role=Role.STATE)
    code = Seq((put(y, (I,), x_i), put(Y, (K,), Read(y, at(K)))))
    proc = decide_placement(lower(code, "step"), {})
    assert inline_producers(proc, True) is proc


def test_what_comes_to_read_what_it_writes_stays() -> None:
    """A copy of the old values moves into the statement that makes new ones of them, and this one no further."""
    a, c = node("a", 5), node("c", 5)
    (j,) = loops(7)
    statements = left(
        Assign(a, ADD, True, (Piece((I, j), at(I), Read(node("v", 5, 7), at(I, j))),)),
        put(c, (I,), Read(a, at(I))),
        put(a, (I,), op("sub", w_i, Read(c, at(I)))),
        put(Y, (I,), op("neg", Read(a, at(I)))),
    )
    assert statements == [
        "a[i] = 0", "a[i_2] += v[i_2, i_3]", "a[i_5] = w[i_5] - a[i_5]", "y[i_6] = -a[i_6]",
    ]  # fmt: skip


def merged(x: TNode, i: Sym, j: Sym) -> Assign:
    """Products, along the axis `8*i+j`."""
    product = op("mul", Read(x, at(i)), Read(node("v", 8), at(j)))
    return Assign(node("t", 32), None, True, (Piece((i, j), at(Affine.of(i) * 8 + j), product),))


def test_the_loops_of_readers_are_split_along_merged_axes() -> None:
    x, (i, j), (n,) = node("x", 4), loops(4, 8), loops(32)
    products = merged(x, i, j)
    t, w, z = products.lhs, node("w", 32), node("z", 32)

    def remaining(*readers: Comp) -> list[str]:
        return [re.sub(r"_\d", "", line) for line in left(products, *readers)]

    total = put(node("y"), (n,), Read(t, at(n)), ADD, to=0)
    assert remaining(total) == ["y = 0", "y += x[i] * v[j]"]
    scaled = put(z, (n,), op("mul", Read(t, at(n)), Read(w, at(n))))
    assert remaining(scaled) == ["z[8*i+j] = x[i] * v[j] * w[8*i+j]"]
    place = at(Affine.of(i) * 8 + j)
    assert remaining(Assign(z, None, True, (Piece((i, j), place, Read(t, place)),)), total) == [
        "z[8*i+j] = x[i] * v[j]", "y = 0", "y += x[i] * v[j]",
    ]  # fmt: skip


def test_copies_that_merge_axes_move_into_one_reader_of_each_cell() -> None:
    x, (i, j), (n, m) = node("x", 4, 8), loops(4, 8), loops(32, 32)
    copy = Assign(node("t", 32), None, True, (Piece((i, j), at(Affine.of(i) * 8 + j), Read(x, at(i, j))),))
    t = copy.lhs
    total = put(node("y"), (n,), Read(t, at(n)), ADD, to=0)
    scaled = put(node("z", 32), (n,), op("mul", Read(t, at(n)), Number(2.0)))
    often = put(node("z", 32, 32), (n, m), Read(t, at(m)))
    assert [re.sub(r"_\d", "", line) for line in left(copy, total)] == ["y = 0", "y += x[i, j]"]
    assert left(copy, often)[0].startswith("t[")
    assert left(copy, total, scaled)[0].startswith("t[")


def test_arrays_of_merged_axes_that_are_read_in_another_way_remain() -> None:
    x, (i, j), (n, m) = node("x", 4), loops(4, 8), loops(32, 32)
    products = merged(x, i, j)
    t = products.lhs
    total = put(node("y"), (n,), Read(t, at(n)), ADD, to=0)
    backwards = put(node("z", 32), (n,), Read(t, at(Affine.of(31) - n)))
    often = put(node("z", 32, 32), (n, m), Read(t, at(m)))
    reshaped = Assign(node("z", 8, 4), None, True, (Piece((j, i), at(j, i), Read(t, at(Affine.of(j) * 4 + i))),))
    for reader in (backwards, often, reshaped):
        assert left(products, total, reader)[0].startswith("t[")
