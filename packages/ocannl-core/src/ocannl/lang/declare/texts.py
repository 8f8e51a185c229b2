"""Tokens in the documentation of declarations: `{name}` in a text stands for the name of the operation.

    {name}       cube                    {inputs}     x, y
    {title}      powers.cube             {settings}   scale
    {namespace}  powers                  {outputs}    v

All remaining braces are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ocannl.lang.declare.declaration import Declaration

TOKEN = re.compile(r"\{(name|title|namespace|inputs|settings|outputs)\}")


def with_expanded_texts(declared: Declaration) -> Declaration:
    """The declaration with the tokens in its texts replaced, except in those of configurations, which several
    operations may share."""
    expand = expansion(declared)
    return replace(
        declared,
        doc=expand(declared.doc),
        inputs={n: replace(spec, doc=expand(spec.doc)) for n, spec in declared.inputs.items()},
        settings={n: replace(setting, doc=expand(setting.doc)) for n, setting in declared.settings.items()},
        results={n: replace(output, doc=expand(output.doc)) for n, output in declared.results.items()},
        where=tuple(replace(condition, fix=expand(condition.fix)) for condition in declared.where),
        backend_where=tuple(expand(c) if isinstance(c, str) else c for c in declared.backend_where),
    )


def expansion(declared: Declaration) -> Callable[[str], str]:
    """The function that replaces the tokens in a text about an operation."""
    values = {
        "name": declared.name, "title": declared.title, "namespace": declared.namespace,
        "inputs": ", ".join(declared.inputs), "settings": ", ".join(declared.settings),
        "outputs": ", ".join(declared.outputs),
    }  # fmt: skip
    return partial(TOKEN.sub, lambda token: values[token[1]])
