"""Compares the errors of gradients in float32 with those of PyTorch, for the networks of `tests/networks_of_papers`.

    python benchmarks/gradient_accuracy.py                                        all networks
    python benchmarks/gradient_accuracy.py highway real_nvp --draws 20 --backend c

The errors are those of `tests/networks_of_papers/gradient_errors.py`: of each array, the median of several draws of the
weights. The exit status is 1 if the error of an array is more than four times that of PyTorch.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from networks_of_papers.gradient_errors import MAX_RATIO, draws, medians, ratios
from networks_of_papers.network import NETWORKS


def main() -> int:
    import_module("networks_of_papers.test_networks_of_papers")  # which declares the networks
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), help=f"of them: {' '.join(NETWORKS)}")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--backend", default="llvm")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arrays = inexact = 0
    for name in arguments.networks:
        errors = medians(list(draws(name, arguments.backend, arguments.draws)))
        times = ratios(errors)
        arrays, above = arrays + len(times), sorted(path for path, ratio in times.items() if ratio > MAX_RATIO)
        inexact += len(above)
        values = list(times.values())
        ours, torchs = np.median(list(errors.values()), axis=0)
        print(
            f"{name:16} {len(times):4} arrays, median error {ours:.1e}, PyTorch {torchs:.1e}; "
            f"ratio: median {np.median(values):.2f}, largest {max(values):.2f}",
            flush=True,
        )
        for path in above:
            ours, torchs = errors[path]
            print(f"    {path:60} {ours:.1e}, PyTorch {torchs:.1e}, ratio {times[path]:.1f}", flush=True)
    print(f"{inexact} of {arrays} arrays have more than {MAX_RATIO:g} times the error of PyTorch")
    return int(inexact > 0)


if __name__ == "__main__":
    sys.exit(main())
