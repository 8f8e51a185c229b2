"""Key-value caches: the keys and values of all positions that a decoder has seen."""

from __future__ import annotations

from dataclasses import dataclass, field

from ocannl.base.traceback_filtering import public_class
from ocannl.lang import api as oc
from ocannl.lang.api import Symbol, Tensor
from ocannl.lang.blocks import Block


def _stored(k: Tensor, v: Tensor, position: Symbol | None, *, length: int) -> tuple[Tensor, Tensor] | None:
    """Writes keys and values at a position, and returns those of all; or at the first positions, without a result."""
    (*batch, steps), row = k.dims[:-2], k.dims[-2:]
    stored = []
    for name, t in (("keys", k), ("values", v)):
        state = oc.state(name, 0.0, b=[length, *batch], o=row, dtype=t.dtype, when="always")
        if position is None:
            rest = f"^{length - steps}" if length > steps else ""
            state[...] = oc.concat(f"..., t|..o.. => t{rest}, ...|..o..", t)
        else:
            state[position][...] = oc.einsum("..., 0|..o.. => ...|..o..", t)
        stored.append(oc.einsum("s, ...|..o.. => ..., s|..o..", state))
    return None if position is None else (stored[0], stored[1])


def _stored_memory(k: Tensor, v: Tensor, position: Symbol | None) -> tuple[Tensor, Tensor]:
    """Writes the keys and values of a memory with the first positions, and returns them with all others."""
    stored = []
    for name, t in (("keys", k), ("values", v)):
        state = oc.state(name, 0.0, b=t.dims[:-2], o=t.dims[-2:], dtype=t.dtype, when="always")
        if position is None:
            state[...] = t
        stored.append(t if position is None else state)
    return stored[0], stored[1]


class _Storage(Block):
    """A block of states. Layers of attention do not own it: without a cache, they have the same members."""

    __slots__ = ()
    is_shared = True


@public_class()
@dataclass
class KeyValueCache:
    """The keys and values of up to `length` positions of each layer of attention, and those of the memory of each layer
    of cross attention.

    Sequences end together: `starts`, of the shape `..b..|`, is where each of them begins. `cache.prompt(count)` is the
    view of the cache for the first `count` positions, `cache.step(position)` that of one position, a static symbol.
    """

    length: int
    starts: Tensor
    blocks: list[Block] = field(default_factory=list)
    memory_blocks: list[Block] = field(default_factory=list)

    def prompt(self, count: int) -> CacheView:
        return CacheView(self, None, oc.einsum("t => t|", oc.iota(count)), count)

    def step(self, position: Symbol) -> CacheView:
        return CacheView(self, position, oc.einsum("t => t|", oc.iota(1)) + position, self.length)

    def block(self, number: int) -> Block:
        """That of a layer of attention within the sequence."""
        if number == len(self.blocks):
            name = f"cache_{number}"
            self.blocks.append(_Storage(_stored, {"length": self.length}, name, name, name))
        return self.blocks[number]

    def memory_block(self, number: int) -> Block:
        """That of a layer of attention to a memory."""
        if number == len(self.memory_blocks):
            name = f"memory_{number}"
            self.memory_blocks.append(_Storage(_stored_memory, {}, name, name, name))
        return self.memory_blocks[number]


class CacheView:
    """A cache as seen by one application of a model, which calls `extended` in each layer of attention, and `of_memory`
    in each layer of cross attention.

    `positions` are those of the tokens in their sequences, `..b.., t|`, 0 for padding before the first of them.
    `query_positions` and `key_positions` count the padding below 0.
    """

    def __init__(self, cache: KeyValueCache, position: Symbol | None, slots: Tensor, count: int) -> None:
        self._cache, self._position, self._count, self._layers, self._memories = cache, position, count, 0, 0
        starts = oc.einsum("...| => ..., 0|", cache.starts)
        self.query_positions = slots - starts
        self.positions = oc.maximum(self.query_positions, 0)
        keys = oc.einsum("s => s|", oc.iota(count))
        self.key_positions = keys - starts
        ended = oc.einsum("t|; s| => 0, t, s", slots, keys, combine="ge")
        begun = oc.einsum("..., s| => ...|0, 0, s", self.key_positions) >= 0
        before = oc.einsum("..., t| => ...|0, t, 0", self.query_positions) < 0  # padding, whose results nothing reads
        self.mask = ended & (begun | before)

    def extended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The keys and values of all positions so far, with those of this application, and a mask of them."""
        all_keys, all_values = self._cache.block(self._layers)(k, v, self._position) or (k, v)
        self._layers += 1
        return all_keys, all_values, self.mask

    def of_memory(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values of a memory: those given with a prompt, and the same ones in the steps that follow."""
        stored: tuple[Tensor, Tensor] = self._cache.memory_block(self._memories)(k, v, self._position)
        self._memories += 1
        return stored
