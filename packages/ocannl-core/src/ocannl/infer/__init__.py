"""Shape inference: specs, rows and sizes, constraints, their solution, and projections.

    spec, parse, logic        what operations say, as data
    terms, trail              cells that learn, and the log that takes changes back
    unify, broadcast          equality and order: what follows at once
    arithmetic, totals        sizes that are computed from sizes
    relation, generate        one operation, and the constraints it emits
    solve                     the stages that decide what is left open: read this first
    close, close_rows, close_axes, growth
    finish, explain, reasons  all or nothing, errors in the user's words, and why sizes are what they are
    shape, capture, project   what the layers above use
"""
