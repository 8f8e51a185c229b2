"""Passes on memory: placement, layouts, padding, prefetching, non-temporal stores and allocation."""
