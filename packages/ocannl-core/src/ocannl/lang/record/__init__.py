"""Recorded code: assignments over nodes."""
