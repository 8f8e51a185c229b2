"""Checkpoints: the state of models and of their training in files."""
