"""A toolkit for backends that print text: documents, signatures, and programs cut into nests."""

from ocannl.codegen.alike import distinct
from ocannl.codegen.document import Document, printable
from ocannl.codegen.nests import Claim, Nest, nests, with_parts
from ocannl.codegen.params import Region, Signature, brief, pool_bufs, signature

__all__ = [
    "Claim",
    "Document",
    "Nest",
    "Region",
    "Signature",
    "brief",
    "distinct",
    "nests",
    "pool_bufs",
    "printable",
    "signature",
    "with_parts",
]
