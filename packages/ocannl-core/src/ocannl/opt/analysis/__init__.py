"""Analyses of loop nests, shared by the passes: dependences, fusion groups, conditions, costs."""
