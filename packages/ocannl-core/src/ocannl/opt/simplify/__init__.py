"""Scalar simplification, common-subexpression elimination, value numbering, and dead-code elimination."""
