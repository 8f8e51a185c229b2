"""Lowering of computations to unoptimized loop programs."""
