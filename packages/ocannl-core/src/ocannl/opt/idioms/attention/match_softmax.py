"""Softmax among the groups of a program: a largest score, powers of what each is below it, and sums of these.

    top[i] = max_t score(i, t)
    e[i, t] = exp(score(i, t) - top[i])            powers, in an array or within the terms of sums
    total[i] = sum_t e[i, t]
    p[i, t] = e[i, t] / total[i]                   parts, if somebody asks for them
    y[i, d] = sum_t p[i, t] * v[t, d]              mixtures, of powers or of parts

One nest can make all of it row by row. In each row it reads scores and the factors of mixtures first; what is done with
the sums comes after that, in the order of the program, and in the end scores are read once more if powers or parts are
kept. That is legal where no dependence is turned round: nothing that the nest writes may be among the scores or the
factors, be they those of another row, and what two mixtures touch after their sums, if one of them writes it, must be
cells of one row. A mixture for which this does not hold is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import Apply, Buf, Cast, Expr, For, Let, Load, Const, Ref, Store, Update
from ocannl.ir.ops import ADD, BY_NAME, DIV, MAX, MUL, SUB
from ocannl.ir.precision import Family
from ocannl.ir.accesses import storage
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction
from ocannl.opt.analysis.nests import unit_covering_loops, is_full, loads

EXP = BY_NAME["exp"]
NEG_INF = -float("inf")

ReaderLookup = Callable[[int, Buf], Iterable[tuple[int, FusionGroup]]]  # of what a statement writes to an array


@dataclass(frozen=True, slots=True)
class Reader:
    """A group that reads cells which rows, or rows and a key, tell; in symbols of these, but for loops of its own."""

    position: int
    group: FusionGroup
    bound_syms: frozenset[Sym]  # its symbols that are rows or the key
    key: Sym | None  # that of them which is the key

    @property
    def free_loops(self) -> tuple[For, ...]:
        return tuple([loop for loop in self.group.loops if loop.sym not in self.bound_syms])

    @property
    def key_sum(self) -> Reduction | None:
        """Its only sum, from zero on, over keys alone."""
        match self.group.reductions:
            case (Reduction(Const(start), (key,), when, Update(_, op)) as found,):
                if start == 0 and op is ADD and when.is_true and is_full(key) and key.sym is self.key:
                    return found
        return None

    def elementwise_store(self, loops: Sequence[For]) -> Store | None:
        """All that it does, if that is to write something for each iteration of the loops."""
        same = not self.group.reductions and len(self.group.loops) == len(loops)
        store = self.only_store if same else None
        return store if store is not None and unit_covering_loops(store.ref, loops) == {loop.sym for loop in loops} else None

    @property
    def only_store(self) -> Store | None:
        """All that it does in the end, if that is to write something."""
        match self.group.epilogue:
            case (Store() as only,) if not self.free_loops:
                return only
        return None


@dataclass(slots=True)
class SoftmaxMatch:
    """What is known by which expression, so far."""

    score: Expr
    maximum: Store
    exponentials: Store | None = None
    denominator: Store | None = None
    probabilities: Store | None = None

    @property
    def stores(self) -> list[Store]:
        return [store for store in (self.maximum, self.exponentials, self.denominator, self.probabilities) if store is not None]

    @property
    def has_disjoint_storage(self) -> bool:
        """Whether no word is written to where scores or other words are."""
        written = [storage(store.ref.buf) for store in self.stores]
        return len(set(written)) == len(written) and not {storage(buf) for buf in read_buffers(self.score)} & set(written)

    def is_exponential(self, value: Expr) -> bool:
        """Whether it is one, or where one is kept."""
        match bare(value):
            case Load(ref):
                return self.exponentials is not None and ref == self.exponentials.ref
            case Apply(op, (inner,)) if op is EXP:
                match bare(inner):
                    case Apply(minus, (score, top)) if minus is SUB:
                        return bare(score) == self.score and bare(top) == Load(self.maximum.ref)
        return False

    def is_probability(self, value: Expr) -> bool:
        match bare(value):
            case Load(ref):
                return self.probabilities is not None and ref == self.probabilities.ref
            case Apply(op, (power, total)) if op is DIV and self.denominator is not None:
                return self.is_exponential(power) and bare(total) == Load(self.denominator.ref)
        return False


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """`sum` adds up products of a weight, which is a power or a part, and a factor."""

    position: int
    output_loops: tuple[For, ...]
    reduction: Reduction
    weight: Expr
    factor: Expr
    is_normalized: bool
    epilogue: tuple[Let | Store | Update, ...]

    @property
    def writes(self) -> list[Ref]:
        return [stmt.ref for stmt in self.epilogue if not isinstance(stmt, Let)]

    @property
    def epilogue_refs(self) -> list[Ref]:
        """By what is done with the sum."""
        return [*self.writes, *(ref for stmt in self.epilogue for ref in loads(stmt.value))]


@dataclass(frozen=True, slots=True)
class Softmax:
    """All in symbols of the rows and of the key; `places` are those of its statements, but for the mixtures."""

    rows: tuple[For, ...]
    key: For
    match: SoftmaxMatch
    reduction: Reduction
    denominator: Store
    weighted_sums: tuple[WeightedSum, ...]
    positions: tuple[int, ...]


def read_buffers(value: Expr) -> set[Buf]:
    return {ref.buf for ref in loads(value)}


def bare(value: Expr) -> Expr:
    """Without roundings."""
    while isinstance(value, Cast) and value.precision.family is value.value.precision.family is Family.FLOAT:
        value = value.value
    return value


def softmax_at(place: int, group: FusionGroup, readers: ReaderLookup) -> Softmax | None:
    """The one whose maximum the group is."""
    match group:
        case FusionGroup(rows, cond, (Reduction(Const(least), (key,), when, Update(acc, op, score)),), (Store() as top,)):
            ref, made = top.ref, top.value
            if op is not MAX or least != NEG_INF or not cond.is_true or not when.is_true or bare(made) != Load(acc):
                return None
            if score.precision.family is not Family.FLOAT or not all(map(is_full, (*rows, key))):
                return None
            if unit_covering_loops(ref, rows) != set(group.syms):
                return None
        case _:
            return None
    words, places = SoftmaxMatch(bare(score), top), [place]
    seen = list(_seen(ref, readers(place, ref.buf), key.sym, is_named=False))
    every = (*rows, key)
    for each in seen:
        if words.exponentials is None and (store := each.elementwise_store(every)) is not None and words.is_exponential(store.value):
            words.exponentials = store
            places.append(each.position)
    if words.exponentials is not None:
        seen = list(_seen(words.exponentials.ref, readers(places[-1], words.exponentials.ref.buf), key.sym))
    total = next((each for each in seen if _is_total(each, rows, words)), None)
    if total is None or total.key_sum is None or total.only_store is None:
        return None
    words.denominator = total.only_store
    places.append(total.position)
    for each in seen:
        if words.probabilities is None and (store := each.elementwise_store(every)) is not None and words.is_probability(store.value):
            words.probabilities = store
            places.append(each.position)
            seen += _seen(store.ref, readers(each.position, store.ref.buf), key.sym)
    if not words.has_disjoint_storage:
        return None
    mixed = [_mixture(each, words) for each in seen if each.position not in places]
    found = _together(words, rows, [each for each in mixed if each is not None])
    return Softmax(rows, key, words, total.key_sum, total.only_store, found, tuple(places))


def _is_total(seen: Reader, rows: Sequence[For], words: SoftmaxMatch) -> bool:
    if seen.key_sum is None or seen.only_store is None or not words.is_exponential(seen.key_sum.update.value):
        return False
    whole = len(seen.group.loops) == len(rows) and unit_covering_loops(seen.only_store.ref, rows) == {loop.sym for loop in rows}
    return whole and bare(seen.only_store.value) == Load(seen.key_sum.update.ref)


def _mixture(seen: Reader, words: SoftmaxMatch) -> WeightedSum | None:
    arrays = {store.ref.buf for store in words.stores}
    if seen.key_sum is None or any(read_buffers(stmt.value) & arrays for stmt in seen.group.epilogue):
        return None
    match seen.key_sum.update.value:
        case Apply(op, (left, right)) if op is MUL:
            for weight, factor in ((left, right), (right, left)):
                is_part = words.is_probability(weight)
                if (is_part or words.is_exponential(weight)) and not read_buffers(factor) & arrays:
                    return WeightedSum(seen.position, seen.free_loops, seen.key_sum, weight, factor, is_part, seen.group.epilogue)
    return None


def _together(words: SoftmaxMatch, rows: Sequence[For], mixtures: Sequence[WeightedSum]) -> tuple[WeightedSum, ...]:
    """Those that one nest can make, the first ones rather than others."""
    taken: list[WeightedSum] = []
    before = {storage(buf) for buf in read_buffers(words.score)}  # the sums are there
    for each in sorted(mixtures, key=lambda each: each.position):
        early = before | {storage(buf) for buf in read_buffers(each.factor)}
        written = {storage(store.ref.buf) for store in words.stores}
        written |= {storage(ref.buf) for other in (*taken, each) for ref in other.writes}
        if early & written:
            continue
        if all(_of_one_row(other.writes, each.epilogue_refs, rows) for other in taken) and all(
            _of_one_row(each.writes, other.epilogue_refs, rows) for other in taken
        ):
            taken.append(each)
            before = early
    return tuple(taken)


def _of_one_row(writes: Iterable[Ref], touched: Sequence[Ref], rows: Sequence[For]) -> bool:
    """Whether cells that are written, and touched elsewhere, are those of the same row."""
    return all(
        ref.buf is other.buf and all(_tells(ref, other, row.sym) for row in rows)
        for ref in writes
        for other in touched
        if storage(ref.buf) == storage(other.buf)
    )


def _tells(one: Ref, other: Ref, sym: Sym) -> bool:
    """Whether the same axis of both is counted by the symbol."""
    return any(a.only_sym is sym and b.only_sym is sym for a, b in zip(one.indices, other.indices, strict=True))


def _seen(ref: Ref, readers: Iterable[tuple[int, FusionGroup]], key: Sym, *, is_named: bool = True) -> Iterator[Reader]:
    """The readers in the symbols of a cell. Where the cell does not name the key, one more symbol of theirs that is
    like the key is taken for it."""
    for place, group in readers:
        reads = {each for each in group.reads if each.buf is ref.buf}
        if len(reads) != 1 or not group.cond.is_true or not all(map(is_full, group.loops)):
            continue
        values: dict[Sym, Affine] = {}
        for mine, its in zip(ref.indices, reads.pop().indices, strict=True):
            one, other = mine.only_sym, its.only_sym
            if one is None or other is None:
                if its != mine:
                    break
            elif other in values or (one.lo, one.hi) != (other.lo, other.hi):
                break
            else:
                values[other] = mine
        else:
            rest = [s for s in (*group.syms, *(s for each in group.reductions for s in each.syms)) if s not in values]
            if not is_named and len(rest) == 1 and (rest[0].lo, rest[0].hi) == (key.lo, key.hi):
                values[rest[0]] = Affine.of(key)
            named = next((sym for sym, value in values.items() if value.only_sym is key), None)
            yield Reader(place, group.substituted(values), frozenset(values), named)
