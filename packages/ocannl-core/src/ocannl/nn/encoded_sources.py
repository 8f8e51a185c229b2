"""The sources of a decoder with cross attention: an encoder runs once for them, and its results stay in the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ocannl.base.errors import ArgumentError, DataError
from ocannl.lang import api as oc
from ocannl.lang.api import Block, Tensor
from ocannl.lang.dtypes import float32, int32
from ocannl.nn.masks import padding_mask
from ocannl.runtime import compiled_function
from ocannl.runtime.context import Context

Array = np.ndarray[Any, Any]
Encoder = Block | Callable[[Tensor, Tensor], Tensor]

SOURCE_STEP = 32
"""Sources are padded to a multiple of this many positions, so that few routines serve all of them."""


class EncodedSources:
    """The memory of `batch` sources, of up to `length` tokens, or with `width` of as many vectors.

    `encoder(sources, mask)` returns the memory, `b, s|c`; sources are padded at their ends. `memory` has `length`
    positions, of which `mask` shows those of the sources.
    """

    def __init__(
        self, encoder: Encoder, *, length: int, width: int | None, batch: int, ctx: Context, limit: int
    ) -> None:
        self.length, self.width, self.batch, self.ctx = length, width, batch, ctx
        self.is_set = False
        self._lengths = oc.placeholder("source_lengths", batch=[batch], output=[], dtype=int32)
        row, self._dtype = ([], int32) if width is None else ([width], float32)
        operand = oc.placeholder("sources", batch=[batch, length], output=row, dtype=self._dtype)
        with oc.training(False):
            encoded = encoder(operand, padding_mask(self._lengths, length))
            if not isinstance(encoded, Tensor) or len(encoded.dims) != 3 or encoded.dims[:2] != (batch, length):
                raise ArgumentError(
                    "the encoder of a decoder returns a tensor `b, s|c` for sources of `s` positions, not "
                    + (f"one of {encoded.dims}" if isinstance(encoded, Tensor) else f"{encoded!r}")
                )
            self.memory = oc.placeholder("memory", batch=encoded.dims[:2], output=encoded.dims[2:], dtype=encoded.dtype)
            self.mask = padding_mask(self._lengths, length)
        ctx.init(encoded)

        def masked(sources: Tensor, lengths: Tensor) -> Any:
            return encoder(sources, padding_mask(lengths, sources.dims[1]))

        features = "" if width is None else width
        self._encode = compiled_function.compile(masked, sizes=[f"b, s|{features}", "b|"], ctx=ctx, limit=limit)

    def encode(self, sources: Sequence[Any]) -> None:
        """Computes the memory of sources, of any lengths.

        Raises: DataError for another number of sources, an empty source, one that is too long, or vectors of another
        width.
        """
        arrays = [np.asarray(source) for source in sources]
        if len(arrays) != self.batch or any(array.ndim == 0 or not len(array) for array in arrays):
            raise DataError(f"this decoder takes {self.batch} sources of one position or more, not {len(arrays)}")
        row = () if self.width is None else (self.width,)
        for array in arrays:
            if array.shape[1:] != row or (self.width is None and array.dtype.kind not in "iu"):
                kind = "a list of tokens" if self.width is None else f"an array of vectors of {self.width} features"
                raise DataError(f"a source is {kind}, not an array of {array.dtype} and the shape {array.shape}")
        lengths = np.array([len(array) for array in arrays], "int32")
        if lengths.max() > self.length:
            raise DataError(f"a source of {lengths.max()} positions is too long: `source_length` is {self.length}")
        count = min(-(-int(lengths.max()) // SOURCE_STEP) * SOURCE_STEP, self.length)
        padded = np.zeros((self.batch, count, *row), "int32" if self.width is None else "float32")
        for cells, array in zip(padded, arrays, strict=True):
            cells[: len(array)] = array
        encoded = self._encode(padded, lengths)
        memory = np.zeros(self.memory.dims, encoded.dtype)
        memory[:, :count] = encoded
        self.ctx.set(self.memory, memory)
        self.ctx.set(self._lengths, lengths)
        self.is_set = True
