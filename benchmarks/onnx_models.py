"""Runs real ONNX models, shipped by packages, beside ONNX Runtime: agreement, time, import and compile time.

    python benchmarks/onnx_models.py [--threads N] [--backend llvm] [--folder FOLDER] [PATTERN ...]

The models are those of installed packages (`pip install --no-deps magika silero-vad rapidocr rapidocr-onnxruntime
ddddocr basic-pitch`), or of packages installed with `--target FOLDER`. Inputs are random, or strokes for detectors of
text, at batch size 1. Times are the least of alternating runs, in milliseconds: of the processor with one thread, of
the clock with several. Errors are relative to the largest value of each output.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import ocannl as oc

PACKAGES = ("magika", "silero_vad", "rapidocr", "rapidocr_onnxruntime", "ddddocr", "basic_pitch")
RANDOM = np.random.default_rng(0)


def noise(*dims: int) -> np.ndarray:
    return RANDOM.normal(size=dims).astype("float32")


def text(*dims: int) -> np.ndarray:
    """A white picture with dark strokes in lines, as text has: detectors find nothing in noise."""
    array = np.ones(dims, "float32")
    for top in range(20, dims[2] - 20, 40):
        for left in range(20, dims[3] - 20, 8):
            height, width = RANDOM.integers(8, 16), RANDOM.integers(2, 5)
            array[..., top : top + height, left : left + width] = -1.0
    return array


SPEECH = {"input": lambda: noise(1, 576), "state": lambda: noise(2, 1, 128), "sr": lambda: np.array(16000)}
INPUTS: Mapping[str, Mapping[str, Callable[[], np.ndarray]]] = {
    "model": {"bytes": lambda: RANDOM.integers(0, 256, (1, 2048)).astype("int32")},
    "nmp": {"serving_default_input_2:0": lambda: noise(1, 43844, 1)},
    "common": {"input1": lambda: noise(1, 1, 64, 160)},
    "common_old": {"input1": lambda: noise(1, 1, 64, 160)},
    "common_det": {"images": lambda: noise(1, 3, 416, 416)},
    "ch_PP-OCRv4_det_infer": {"x": lambda: text(1, 3, 320, 320)},
    "ch_PP-OCRv4_rec_infer": {"x": lambda: noise(1, 3, 48, 320)},
    "ch_ppocr_mobile_v2.0_cls_infer": {"x": lambda: noise(1, 3, 48, 192)},
    "ch_ppocr_mobile_v2.0_cls_mobile": {"x": lambda: noise(1, 3, 48, 192)},
    "PP-OCRv6_det_small": {"x": lambda: text(1, 3, 320, 320)},
    "PP-OCRv6_rec_small": {"x": lambda: noise(1, 3, 48, 320)},
    "silero_vad": SPEECH,
    "silero_vad_16k_op15": SPEECH,
    "silero_vad_half": SPEECH,
    "silero_vad_op18_ifless": SPEECH,
    "silero_vad_openvino_16k": SPEECH,
    "silero_vad_16k_sequence": {
        "input": lambda: noise(10, 576), "h": lambda: noise(1, 1, 128), "c": lambda: noise(1, 1, 128),
    },
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """Times of a model in milliseconds, and seconds of its import and first run, without and with cached code."""

    error: float
    ours: float
    peer: float
    cold: float
    warm: float


def files(folder: Path) -> Iterator[Path]:
    for package in PACKAGES:
        for root in (folder / package, folder / package.replace("_", "-") / package):
            yield from sorted(root.rglob("*.onnx"))


def measured(path: Path, threads: int, folder: Path) -> Result:
    """Raises: OcannlError when the model cannot be imported."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    arrays = {name: INPUTS[path.stem][name]() for name in names}
    expected = session.run(None, arrays)
    with oc.settings(threads=threads, cache_dir=folder):
        seconds = []
        for _ in range(2):
            begin = time.perf_counter()
            function = oc.onnx.load(path).compile(oc.Context())
            outputs = function.run(arrays)
            seconds.append(time.perf_counter() - begin)
        error = max(
            float(np.abs(np.asarray(ours, "float64") - peer).max() / max(np.abs(peer).max(), 1e-30))
            for ours, peer in zip(outputs, expected, strict=True)
        )
        clock = time.process_time if threads == 1 else time.perf_counter
        ours, peer = alternated(lambda: function.run(arrays), lambda: session.run(None, arrays), clock=clock)
    return Result(error, ours, peer, *seconds)


def alternated(
    *functions: Callable[[], Any], clock: Callable[[], float], rounds: int = 7, seconds: float = 0.15
) -> list[float]:
    """The least time of each function in milliseconds, over alternating rounds."""
    least = [float("inf")] * len(functions)
    for _ in range(rounds):
        for n, function in enumerate(functions):
            end = clock() + seconds
            while True:
                begin = clock()
                function()
                now = clock()
                least[n] = min(least[n], 1e3 * (now - begin))
                if now > end:
                    break
    return least


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--backend", default="llvm")
    parser.add_argument("--folder", type=Path, default=Path(sysconfig.get_paths()["purelib"]))
    options = parser.parse_args(arguments)
    print(f"{'model':34} {'error':>8} {'ocannl':>9} {'ORT':>9} {'ratio':>6} {'cold s':>7} {'warm s':>7}")
    ratios = []
    for path in files(options.folder):
        if path.stem not in INPUTS or not any(fnmatch.fnmatch(path.stem, pattern) for pattern in options.patterns):
            continue
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), oc.use_backend(options.backend):
            warnings.simplefilter("ignore")
            try:
                row = measured(path, options.threads, Path(folder))
            except Exception as error:
                print(f"{path.stem:34} {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
                continue
        ratios.append(row.peer / row.ours)
        print(
            f"{path.stem:34} {row.error:8.1e} {row.ours:9.3f} {row.peer:9.3f} {ratios[-1]:6.2f} "
            f"{row.cold:7.2f} {row.warm:7.2f}",
            flush=True,
        )
    if ratios:
        print(f"geometric mean of ONNX Runtime's time over ocannl's: {prod(ratios) ** (1 / len(ratios)):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
