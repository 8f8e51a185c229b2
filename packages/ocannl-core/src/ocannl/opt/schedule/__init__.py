"""Scheduling of fusion groups: `plan` chooses a plan for each group, `build` generates its loops."""
