"""Compares the code that two checkouts generate for the workloads of the benchmarks, up to names.

    python benchmarks/generated_code.py ../before                       this checkout beside another one
    python benchmarks/generated_code.py ../before ../after --workload W2 'W5*'

A change that only renames or moves code of the compiler must not change the LLVM IR that it generates, except for the
names of functions, labels and values. Each workload is compiled in a process per checkout, with the workloads, the core
and the LLVM backend of this checkout. Comments are left out, and each name is replaced by the number of its first
occurrence; names of intrinsics are kept. The exit status is 1 if the code of a workload differs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from itertools import zip_longest
from pathlib import Path

from compare.workloads import WORKLOADS

WORKER = """
import sys
import ocannl as oc
from compare.models import model
from compare.workloads import TRAINING, WORKLOADS
workload = WORKLOADS[sys.argv[1]]()
built = model(workload)
context = oc.Context("llvm", threads=2)
if workload["kind"] in TRAINING:
    context.init(built.results[0])
print(context.compile(built.code, keep=built.results).source())
"""
COMMENT = re.compile(r";.*")
LABEL = re.compile(r"^([\w.$-]+):", re.MULTILINE)
NAME = re.compile(r'[%@](?:"[^"]*"|[\w.$-]+)')


def without_names(text: str) -> list[str]:
    """The instructions of LLVM IR, with each name replaced by the number of its first occurrence."""
    numbers: dict[str, int] = {}

    def number(name: re.Match[str]) -> str:
        kept = name[0].startswith("@llvm.")
        return name[0] if kept else f"{name[0][0]}{numbers.setdefault(name[0], len(numbers))}"

    text = LABEL.sub(r"%\1:", COMMENT.sub("", text))
    return [line for line in (NAME.sub(number, line).strip() for line in text.splitlines()) if line]


def source(checkout: Path, workload: str, cache: str) -> str:
    """The LLVM IR that a checkout generates for a workload."""
    folders = [checkout / "benchmarks", *sorted((checkout / "packages").glob("*/src"))]
    variables = {"PYTHONPATH": os.pathsep.join(map(str, folders)), "OCANNL_CACHE_DIR": cache}
    command = [sys.executable, "-c", WORKER, workload]
    ran = subprocess.run(command, env={**os.environ, **variables}, check=True, stdout=subprocess.PIPE, text=True)
    return ran.stdout


def difference(before: list[str], after: list[str]) -> str:
    """The first line that differs, of both texts; empty if they are equal."""
    for number, (old, new) in enumerate(zip_longest(before, after), 1):
        if old != new:
            heading = f"line {number}: "
            return f"{heading}{old}\n{' ' * len(heading)}{new}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=Path(__file__).resolve().parents[1])
    parser.add_argument("--workload", nargs="+", default=["*"], help="patterns of names")
    arguments = parser.parse_args()
    status = 0
    with tempfile.TemporaryDirectory() as cache:  # one description of the processor for both
        for name in filter(lambda name: any(fnmatch(name, p) for p in arguments.workload), WORKLOADS):
            texts = [source(path.resolve(), name, cache) for path in (arguments.before, arguments.after)]
            before, after = map(without_names, texts)
            first = difference(before, after)
            print(f"{name:14}{len(after):6} lines  {first or 'equal'}", flush=True)
            status |= bool(first)
    return status


if __name__ == "__main__":
    sys.exit(main())
