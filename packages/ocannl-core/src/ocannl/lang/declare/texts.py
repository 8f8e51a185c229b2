"""Tokens in the documentation of declarations: `{name}` in a text stands for the name of the operation.

    {name}       cube                    {inputs}     x, y
    {title}      powers.cube             {settings}   scale
    {namespace}  powers                  {outputs}    v

All remaining braces are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ocannl.lang.declare.declaration import Declaration

TOKEN = re.compile(r"\{(name|title|namespace|inputs|settings|outputs)\}")


def with_expanded_texts(declared: Declaration) -> Declaration:
    """The declaration with the tokens in all of its texts replaced."""
    values = {
        "name": declared.name, "title": declared.title, "namespace": declared.namespace,
        "inputs": ", ".join(declared.inputs), "settings": ", ".join(declared.settings),
        "outputs": ", ".join(declared.outputs),
    }  # fmt: skip
    return replace(
        declared,
        doc=_expanded(declared.doc, values),
        inputs={n: replace(spec, doc=_expanded(spec.doc, values)) for n, spec in declared.inputs.items()},
        settings={n: replace(setting, doc=_expanded(setting.doc, values)) for n, setting in declared.settings.items()},
        results={n: replace(output, doc=_expanded(output.doc, values)) for n, output in declared.results.items()},
    )


def _expanded(text: str, values: Mapping[str, str]) -> str:
    return TOKEN.sub(lambda token: values[token[1]], text)
