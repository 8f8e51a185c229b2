"""`python -m ocannl.cli` is `ocannl`."""

from __future__ import annotations

from ocannl.cli import main

main()
