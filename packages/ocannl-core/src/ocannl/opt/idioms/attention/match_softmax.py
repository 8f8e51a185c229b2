"""Pattern matching of softmax: row maximum, exponentials, their sum, and the sums weighted by them.

    top[i] = max_t score(i, t)
    e[i, t] = exp(score(i, t) - top[i])            exponentials, stored or inlined into reductions
    total[i] = sum_t e[i, t]
    p[i, t] = e[i, t] / total[i]                   probabilities, stored or inlined
    y[i, d] = sum_t p[i, t] * v[t, d]              weighted sums, by exponentials or probabilities

One nest can compute all of them row by row. For each row it first reads the scores and the factors of the weighted
sums, then executes the epilogues of these sums in program order, and finally reads the scores again if exponentials or
probabilities are stored. This is legal if no dependence is reversed: the nest may not write scores or factors of any
row, and if the epilogues of two weighted sums access the same array and one of them writes it, the cells must belong to
the same row. A weighted sum that violates this does not match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import Apply, Buf, Cast, Const, Expr, For, Let, Load, Ref, Store, Update, is_full
from ocannl.ir.ops import ADD, BY_NAME, DIV, MAX, MUL, SUB
from ocannl.ir.precision import Family
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction
from ocannl.opt.analysis.nests import loads, unit_covering_loops

EXP = BY_NAME["exp"]
NEG_INF = -float("inf")

ReaderLookup = Callable[
    [int, Buf], Iterable[tuple[int, FusionGroup]]
]  # (position of a write, array) -> groups that read it


@dataclass(frozen=True, slots=True)
class Reader:
    """A group that reads a cell per row, or per row and key, in symbols of the rows, the key and its free loops."""

    position: int
    group: FusionGroup
    bound_syms: frozenset[Sym]  # the symbols that are replaced by rows or the key
    key: Sym | None  # the one that is replaced by the key

    @property
    def free_loops(self) -> tuple[For, ...]:
        return tuple([loop for loop in self.group.loops if loop.sym not in self.bound_syms])

    @property
    def key_sum(self) -> Reduction | None:
        """The reduction, if it is a single sum over all keys with initial value zero."""
        match self.group.reductions:
            case (Reduction(Const(start), (key,), when, Update(_, op)) as reduction,):
                if start == 0 and op is ADD and when.is_true and is_full(key) and key.sym is self.key:
                    return reduction
        return None

    def elementwise_store(self, loops: Sequence[For]) -> Store | None:
        """The store, if the group is a single pointwise store that covers the given loops."""
        has_same_loops = not self.group.reductions and len(self.group.loops) == len(loops)
        store = self.only_store if has_same_loops else None
        return (
            store
            if store is not None and unit_covering_loops(store.ref, loops) == {loop.sym for loop in loops}
            else None
        )

    @property
    def only_store(self) -> Store | None:
        """The epilogue, if it is a single store and there are no free loops."""
        match self.group.epilogue:
            case (Store() as store,) if not self.free_loops:
                return store
        return None


@dataclass(slots=True)
class SoftmaxMatch:
    """The score and the stores of a partially matched softmax."""

    score: Expr
    maximum: Store
    exponentials: Store | None = None
    denominator: Store | None = None
    probabilities: Store | None = None

    @property
    def stores(self) -> list[Store]:
        return [
            store
            for store in (self.maximum, self.exponentials, self.denominator, self.probabilities)
            if store is not None
        ]

    @property
    def has_disjoint_storage(self) -> bool:
        """Whether the matched stores share no storage with each other or with the scores."""
        written = [alias_class(store.ref.buf) for store in self.stores]
        return len(set(written)) == len(written) and not {alias_class(buf) for buf in read_buffers(self.score)} & set(
            written
        )

    def is_exponential(self, value: Expr) -> bool:
        """Whether the value is an exponential, or a load of a stored one."""
        match strip_float_casts(value):
            case Load(ref):
                return self.exponentials is not None and ref == self.exponentials.ref
            case Apply(op, (inner,)) if op is EXP:
                match strip_float_casts(inner):
                    case Apply(minus, (score, top)) if minus is SUB:
                        return strip_float_casts(score) == self.score and strip_float_casts(top) == Load(
                            self.maximum.ref
                        )
        return False

    def is_probability(self, value: Expr) -> bool:
        match strip_float_casts(value):
            case Load(ref):
                return self.probabilities is not None and ref == self.probabilities.ref
            case Apply(op, (power, total)) if op is DIV and self.denominator is not None:
                return self.is_exponential(power) and strip_float_casts(total) == Load(self.denominator.ref)
        return False


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """A sum over keys of a weight, which is an exponential or a probability, times a factor."""

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
        """References that the epilogue reads or writes."""
        return [*self.writes, *(ref for stmt in self.epilogue for ref in loads(stmt.value))]


@dataclass(frozen=True, slots=True)
class Softmax:
    """A matched softmax in symbols of the rows and the key; `positions` are its statements but the weighted sums."""

    rows: tuple[For, ...]
    key: For
    match: SoftmaxMatch
    reduction: Reduction
    denominator: Store
    weighted_sums: tuple[WeightedSum, ...]
    positions: tuple[int, ...]


def read_buffers(value: Expr) -> set[Buf]:
    return {ref.buf for ref in loads(value)}


def strip_float_casts(value: Expr) -> Expr:
    """Strips casts between floating-point types."""
    while isinstance(value, Cast) and value.precision.family is value.value.precision.family is Family.FLOAT:
        value = value.value
    return value


def match_softmax(position: int, group: FusionGroup, readers: ReaderLookup) -> Softmax | None:
    """Matches the softmax whose row maximum the group computes, or returns None."""
    match group:
        case FusionGroup(
            rows, cond, (Reduction(Const(init), (key,), when, Update(acc, op, score)),), (Store() as max_store,)
        ):
            ref, stored_value = max_store.ref, max_store.value
            if op is not MAX or init != NEG_INF or not cond.is_true or not when.is_true:
                return None
            if strip_float_casts(stored_value) != Load(acc):
                return None
            if score.precision.family is not Family.FLOAT or not all(map(is_full, (*rows, key))):
                return None
            if unit_covering_loops(ref, rows) != set(group.syms):
                return None
        case _:
            return None
    softmax_match, positions = SoftmaxMatch(strip_float_casts(score), max_store), [position]
    candidates = list(_readers_of(ref, readers(position, ref.buf), key.sym, has_key_index=False))
    all_loops = (*rows, key)
    for reader in candidates:
        if (
            softmax_match.exponentials is None
            and (store := reader.elementwise_store(all_loops)) is not None
            and softmax_match.is_exponential(store.value)
        ):
            softmax_match.exponentials = store
            positions.append(reader.position)
    if softmax_match.exponentials is not None:
        ref = softmax_match.exponentials.ref
        candidates = list(_readers_of(ref, readers(positions[-1], ref.buf), key.sym))
    denominator = next((reader for reader in candidates if _is_denominator(reader, rows, softmax_match)), None)
    if denominator is None or denominator.key_sum is None or denominator.only_store is None:
        return None
    softmax_match.denominator = denominator.only_store
    positions.append(denominator.position)
    for reader in candidates:
        if (
            softmax_match.probabilities is None
            and (store := reader.elementwise_store(all_loops)) is not None
            and softmax_match.is_probability(store.value)
        ):
            softmax_match.probabilities = store
            positions.append(reader.position)
            candidates += _readers_of(store.ref, readers(reader.position, store.ref.buf), key.sym)
    if not softmax_match.has_disjoint_storage:
        return None
    sums = [_match_weighted_sum(reader, softmax_match) for reader in candidates if reader.position not in positions]
    fusable = _fusable_sums(softmax_match, rows, [weighted for weighted in sums if weighted is not None])
    return Softmax(rows, key, softmax_match, denominator.key_sum, denominator.only_store, fusable, tuple(positions))


def _is_denominator(reader: Reader, rows: Sequence[For], softmax_match: SoftmaxMatch) -> bool:
    key_sum, store = reader.key_sum, reader.only_store
    if key_sum is None or store is None or not softmax_match.is_exponential(key_sum.update.value):
        return False
    if len(reader.group.loops) != len(rows) or unit_covering_loops(store.ref, rows) != {loop.sym for loop in rows}:
        return False
    return strip_float_casts(store.value) == Load(key_sum.update.ref)


def _match_weighted_sum(reader: Reader, softmax_match: SoftmaxMatch) -> WeightedSum | None:
    arrays = {store.ref.buf for store in softmax_match.stores}
    if reader.key_sum is None or any(read_buffers(stmt.value) & arrays for stmt in reader.group.epilogue):
        return None
    match reader.key_sum.update.value:
        case Apply(op, (left, right)) if op is MUL:
            for weight, factor in ((left, right), (right, left)):
                is_normalized = softmax_match.is_probability(weight)
                if (is_normalized or softmax_match.is_exponential(weight)) and not read_buffers(factor) & arrays:
                    return WeightedSum(
                        reader.position,
                        reader.free_loops,
                        reader.key_sum,
                        weight,
                        factor,
                        is_normalized,
                        reader.group.epilogue,
                    )
    return None


def _fusable_sums(
    softmax_match: SoftmaxMatch, rows: Sequence[For], candidates: Sequence[WeightedSum]
) -> tuple[WeightedSum, ...]:
    """Greedily selects weighted sums, in program order, that one nest can legally compute."""
    selected: list[WeightedSum] = []
    # arrays that the nest reads before it writes
    read_storage = {alias_class(buf) for buf in read_buffers(softmax_match.score)}
    for candidate in sorted(candidates, key=lambda candidate: candidate.position):
        all_reads = read_storage | {alias_class(buf) for buf in read_buffers(candidate.factor)}
        written = {alias_class(store.ref.buf) for store in softmax_match.stores}
        written |= {alias_class(ref.buf) for previous in (*selected, candidate) for ref in previous.writes}
        if all_reads & written:
            continue
        if all(_are_in_same_row(previous.writes, candidate.epilogue_refs, rows) for previous in selected) and all(
            _are_in_same_row(candidate.writes, previous.epilogue_refs, rows) for previous in selected
        ):
            selected.append(candidate)
            read_storage = all_reads
    return tuple(selected)


def _are_in_same_row(writes: Iterable[Ref], accesses: Sequence[Ref], rows: Sequence[For]) -> bool:
    """Whether all dependences between the writes and the accesses are within one row."""
    return all(
        ref.buf is access.buf and all(_share_axis_index(ref, access, row.sym) for row in rows)
        for ref in writes
        for access in accesses
        if alias_class(ref.buf) == alias_class(access.buf)
    )


def _share_axis_index(left: Ref, right: Ref, sym: Sym) -> bool:
    """Whether both references have an axis whose index is the symbol."""
    return any(
        left_index.only_sym is sym and right_index.only_sym is sym
        for left_index, right_index in zip(left.indices, right.indices, strict=True)
    )


def _readers_of(
    ref: Ref, readers: Iterable[tuple[int, FusionGroup]], key: Sym, *, has_key_index: bool = True
) -> Iterator[Reader]:
    """Yields the readers in the symbols of the cell. If the cell has no key index, the only remaining symbol with the
    range of the key is matched with the key."""
    for position, group in readers:
        reads = {read_ref for read_ref in group.reads if read_ref.buf is ref.buf}
        if len(reads) != 1 or not group.cond.is_true or not all(map(is_full, group.loops)):
            continue
        values: dict[Sym, Affine] = {}
        for cell_index, read_index in zip(ref.indices, reads.pop().indices, strict=True):
            cell_sym, read_sym = cell_index.only_sym, read_index.only_sym
            if cell_sym is None or read_sym is None:
                if read_index != cell_index:
                    break
            elif read_sym in values or (cell_sym.lo, cell_sym.hi) != (read_sym.lo, read_sym.hi):
                break
            else:
                values[read_sym] = cell_index
        else:
            unmatched = [
                s
                for s in (*group.syms, *(s for reduction in group.reductions for s in reduction.syms))
                if s not in values
            ]
            if not has_key_index and len(unmatched) == 1 and (unmatched[0].lo, unmatched[0].hi) == (key.lo, key.hi):
                values[unmatched[0]] = Affine.of(key)
            matched_key = next((sym for sym, value in values.items() if value.only_sym is key), None)
            yield Reader(position, group.substituted(values), frozenset(values), matched_key)
