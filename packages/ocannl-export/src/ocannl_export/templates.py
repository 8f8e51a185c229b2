"""Templates with placeholders between at signs, as in `@NAME@_size`."""

from __future__ import annotations

import re
from collections.abc import Mapping


def fill(template: str, texts: Mapping[str, str]) -> str:
    """Replaces all placeholders. The texts are not searched for placeholders."""
    return re.sub(r"@([A-Z_0-9]+)@", lambda match: texts[match[1]], template)


def names(library: str) -> Mapping[str, str]:
    """The placeholders that stand for the name of a library: as it is, and as the prefix of its error codes."""
    return {"NAME": library, "CODE": library.upper()}
