"""The only owner of memory and order: contexts, routines, and the path from a computation to compiled code."""
