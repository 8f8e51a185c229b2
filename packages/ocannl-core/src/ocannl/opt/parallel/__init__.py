"""Passes for multiple threads: split reductions, parallel loops and polls."""
