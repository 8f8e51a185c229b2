"""Proc -> Proc: everything that may change a program but not its results. `pipeline` is the table of passes."""
