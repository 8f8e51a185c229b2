"""Shape inference: specs, rows and sizes, constraints, their solution, and projections."""
