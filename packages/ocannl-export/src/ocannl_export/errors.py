"""Errors of the export."""

from __future__ import annotations

from ocannl.base.errors import Unsupported


class ExportError(Unsupported):
    """A routine that has no form outside of this process, or a compiler that is missing for the form."""
