"""Prints the folder of the template of a backend, for copier: `python -m ocannl.testing.template`."""

from __future__ import annotations

from pathlib import Path

TEMPLATE = Path(__file__).with_name("backend_template")

if __name__ == "__main__":
    print(TEMPLATE)
