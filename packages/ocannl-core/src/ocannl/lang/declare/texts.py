"""Tokens in the documentation of declarations: `{name}` in a text stands for the name of the operation.

    {name}       cube                    {inputs}     x, y
    {title}      powers.cube             {settings}   scale
    {namespace}  powers                  {outputs}    v

All remaining braces are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

TOKENS = ("name", "title", "namespace", "inputs", "settings", "outputs")
TOKEN = re.compile(r"\{(" + "|".join(TOKENS) + r")\}")


def expand(text: str, values: Mapping[str, str]) -> str:
    """The text with tokens replaced by their values."""
    return TOKEN.sub(lambda token: values[token[1]], text)
