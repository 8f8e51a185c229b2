"""Named views of expressions, and edits that return new ones."""
