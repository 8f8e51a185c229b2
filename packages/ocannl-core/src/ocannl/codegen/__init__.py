"""A toolkit for backends that print text: documents, signatures, and programs cut into nests."""

from ocannl.codegen.abi import Region, Signature, brief, pool_bufs, signature
from ocannl.codegen.deduplicate import distinct
from ocannl.codegen.document import Document, printable
from ocannl.codegen.nests import Claim, Nest, nests, with_parts

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
