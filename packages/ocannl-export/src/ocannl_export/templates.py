"""Templates with placeholders between at signs, as in `@NAME@_size`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ocannl_export.error_codes import CODES, constant


def fill(template: str, texts: Mapping[str, str]) -> str:
    """Replaces all placeholders. The texts are not searched for placeholders."""
    return re.sub(r"@([A-Z_0-9]+)@", lambda match: texts[match[1]], template)


def names(library: str) -> Mapping[str, str]:
    """The placeholders that stand for the name of a library, and for its error codes, as in `@CODE_OK@`."""
    return {"NAME": library, **{f"CODE_{code}": constant(library, code) for code, _ in CODES}}
