"""A toolkit for backends that print text: documents, signatures, and programs cut into nests."""

from ocannl.codegen.alike import distinct
from ocannl.codegen.document import Document, printable
from ocannl.codegen.nests import Claim, Nest, nests
from ocannl.codegen.params import UNLOCKED, Region, Signature, pool_bufs, signature

__all__ = [
    "UNLOCKED",
    "Claim",
    "Document",
    "Nest",
    "Region",
    "Signature",
    "distinct",
    "nests",
    "pool_bufs",
    "printable",
    "signature",
]
