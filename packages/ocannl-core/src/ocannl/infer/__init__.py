"""Shape inference: specs, rows and sizes, constraints, their solution, and projections.

    spec, parse, logic        relations between axes, as data
    terms, trail              mutable terms, and the undo log
    unify, broadcast          unification and broadcasting inequalities
    size_equations, cell_count                 sums, products and windows of sizes
    broadcast_results         results are exactly the broadcast of their operands
    relation, generate        operations and constraint generation
    solve                     propagation and the stages of defaulting: read this first
    defaults, default_rows, default_axes, growth       defaults for undecided terms
    divergence, unsized       refusals: unbounded rows, axes that nothing sizes
    transaction, mismatch, explain             atomic updates, disagreements, error messages
    size_provenance, rank_provenance           provenance of sizes and of numbers of axes
    shape, tensor_shape, capture, project      interface for the layers above
"""
