"""Scheduling of fusion groups: `plan` chooses a plan for each group, `loop_generation` builds its loops."""
