"""Shape inference: specs, rows and sizes, constraints, their solution, and projections.

    spec, parse, logic                         relations between axes, as data
    terms                                      mutable terms, and the trail: undo log and propagation queue
    unify, broadcast                           unification and broadcasting inequalities
    size_equations, cell_count                 sums, products and windows of sizes
    broadcast_results                          results are exactly the broadcast of their operands
    operation_node, constraint_generation      operations and constraint generation
    solve                                      propagation and the stages of defaulting: read this first
    defaults, default_rows, default_axes       defaults for undecided terms
    leaf_growth, row_overlaps                  number of axes that leaves gain from their uses, and rows from their ends
    occurs_check, unsized_names                refusals: unbounded rows, names without a size
    transaction, mismatch, explain             atomic updates, contradictions, error messages
    tensor_description, size_provenance, rank_provenance   origin of tensors, sizes and numbers of axes
    shape, shape_view, capture, project        interface for the layers above
"""
