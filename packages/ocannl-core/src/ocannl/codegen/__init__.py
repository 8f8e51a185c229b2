"""A toolkit for backends that print text: documents, signatures, and programs cut into nests."""

from ocannl.codegen.abi import Region, Signature, holds_gil, pool_bufs, signature
from ocannl.codegen.deduplicate import deduplicated
from ocannl.codegen.document import Document, printable
from ocannl.codegen.nests import Nest, ParallelLoop, nests, with_callees

__all__ = [
    "ParallelLoop",
    "Document",
    "Nest",
    "Region",
    "Signature",
    "holds_gil",
    "deduplicated",
    "nests",
    "pool_bufs",
    "printable",
    "signature",
    "with_callees",
]
