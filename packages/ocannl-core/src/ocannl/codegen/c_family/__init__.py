"""Printers of loop programs for C-like languages."""
