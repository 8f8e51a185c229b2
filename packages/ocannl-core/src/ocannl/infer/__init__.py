"""Shape inference: specs, rows and sizes, constraints, their solution, and projections.

    spec, parse, logic        relations between axes, as data
    terms, trail              mutable terms, and the undo log
    unify, broadcast          unification and broadcasting inequalities
    arithmetic, totals        size equations and cell counts
    relation, generate        operations and constraint generation
    solve                     propagation and the stages of defaulting: read this first
    close, close_rows, close_axes, growth      defaults for undecided terms
    finish, explain, reasons  transactions, error messages, and provenance of sizes
    shape, capture, project   interface for the layers above
"""
