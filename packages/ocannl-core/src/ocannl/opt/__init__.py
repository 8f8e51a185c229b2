"""The optimizer: passes from `Proc` to `Proc` that preserve results. `pipeline` is the table of passes."""
