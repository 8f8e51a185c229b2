"""The forms of an exported library."""
