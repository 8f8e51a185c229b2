"""A toolkit for backends that print text: documents, signatures, and programs cut into nests."""

from ocannl.codegen.abi import SIGNAL_CHECK_INTERVAL_NS, MemoryRegion, Signature, holds_gil, pool_bufs, signature
from ocannl.codegen.identical_code_folding import deduplicated
from ocannl.codegen.numbers import rounded
from ocannl.codegen.outlining import Nest, ParallelLoop, outline_nests, with_callees
from ocannl.codegen.text_sections import Document, printable

__all__ = [
    "SIGNAL_CHECK_INTERVAL_NS",
    "ParallelLoop",
    "Document",
    "Nest",
    "MemoryRegion",
    "Signature",
    "holds_gil",
    "deduplicated",
    "outline_nests",
    "pool_bufs",
    "printable",
    "rounded",
    "signature",
    "with_callees",
]
