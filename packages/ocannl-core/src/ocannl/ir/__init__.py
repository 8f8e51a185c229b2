"""The two languages that everything else speaks: `Comp` says what to compute, `Proc` says how."""
