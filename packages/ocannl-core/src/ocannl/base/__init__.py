"""Foundations of all other layers: errors, settings, write-once values."""
