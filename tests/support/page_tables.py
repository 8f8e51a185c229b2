"""Tables of documentation pages whose rows are executed by tests."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

ROW = re.compile(r"^\| `(.+)` \| `(.+)` \|$", re.MULTILINE)
"""A row of two columns of code."""


def arrays_of(page: str) -> dict[str, np.ndarray]:
    """The dictionary `arrays` that the first block of code of a page creates."""
    block = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {}
    exec(block[1], names)
    return names["arrays"]
