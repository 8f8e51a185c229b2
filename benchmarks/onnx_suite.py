"""Runs the official node cases of ONNX (`onnx.backend.test`) through the importer, beside other runtimes.

    python benchmarks/onnx_suite.py [--backend llvm] [--peers] [--show] [--write] [--sample N] [PATTERN ...]
    python benchmarks/onnx_suite.py --conversions

Each case is `passed`, `refused` (an error of ocannl, or of the peer), `wrong` (other values than expected), or
`crashed` (any other error). The tolerances are those of ONNX. `--sample N` runs every case whose position modulo N is
the day's; `--conversions` runs the models that PyTorch exported, and those of sequences and strings, instead; `--peers`
also runs ONNX Runtime and tinygrad, and `--write` replaces the table of `docs/onnx.md` by the results of this run, with
the versions of all systems. Where clang is missing, tinygrad runs with `DEV=PYTHON` in the
environment.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import ocannl as oc
from ocannl_onnx import backend

RANDOM = ("bernoulli",)  # cases whose expected outputs are random numbers of another generator

PAGE = Path(__file__).parents[1] / "docs" / "onnx.md"
HEADER = "| system | passed | refused | wrong | random numbers |\n|---|---|---|---|---|\n"

CONVERSIONS = ("pytorch-converted", "pytorch-operator", "simple")
Run = Callable[[onnx.ModelProto, Sequence[Any]], Sequence[Any]]


def node_cases() -> list[Any]:
    """The cases of the suite, made by the package itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(load_model_tests(kind="node"), key=lambda case: case.name)


def conversions() -> list[Any]:
    """Models that PyTorch exported, of version 6 of the operators, and models of sequences and strings."""
    return sorted((case for kind in CONVERSIONS for case in load_model_tests(kind=kind)), key=lambda case: case.name)


def data_sets(case: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """Inputs and expected outputs of a case."""
    if case.data_sets is not None:
        yield from case.data_sets
        return
    model = onnx.load(Path(case.model_dir) / "model.onnx")
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        inputs = [_read(path, value.type) for path, value in _files(folder, "input", model.graph.input)]
        outputs = [_read(path, value.type) for path, value in _files(folder, "output", model.graph.output)]
        yield inputs, outputs


def _files(folder: Any, kind: str, values: Any) -> Iterator[tuple[Any, Any]]:
    for n, value in enumerate(values):
        path = folder / f"{kind}_{n}.pb"
        if path.exists():
            yield path, value


def _read(path: Any, type_: onnx.TypeProto) -> Any:
    content = path.read_bytes()
    kind = type_.WhichOneof("value")
    if kind == "sequence_type":
        sequence = onnx.SequenceProto()
        sequence.ParseFromString(content)
        return numpy_helper.to_list(sequence)
    if kind == "optional_type":
        optional = onnx.OptionalProto()
        optional.ParseFromString(content)
        return numpy_helper.to_optional(optional)
    tensor = onnx.TensorProto()
    tensor.ParseFromString(content)
    return numpy_helper.to_array(tensor)


def model_of(case: Any) -> onnx.ModelProto:
    if case.model is not None:
        return case.model
    return onnx.load(Path(case.model_dir) / "model.onnx")


def as_array(value: Any) -> Any:
    """The array of a message or of a number; other values, such as sequences, as they are."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def judged(case: Any, run: Run, refusals: tuple[type[BaseException], ...]) -> tuple[str, str]:
    """The result of a case, and the reason for results other than `passed`."""
    try:
        model = model_of(case)
        for inputs, expected in data_sets(case):
            outputs = run(model, [as_array(value) for value in inputs])
            expected = [as_array(value) for value in expected]
            try:
                Runner.assert_similar_outputs(expected, outputs, case.rtol, case.atol, model_dir=case.model_dir)
            except AssertionError as error:
                if any(name in case.name for name in RANDOM):
                    return "random", "the expected outputs are other random numbers"
                return "wrong", " ".join(str(error).split())[:300]
    except refusals as error:
        return "refused", f"{type(error).__name__}: " + " ".join(str(error).split())[:300]
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error} {traceback.format_exc()[-600:]}"
    return "passed", ""


def run_ocannl(model: onnx.ModelProto, inputs: Sequence[Any]) -> Sequence[Any]:
    return backend.run_model(model, inputs)


def run_onnxruntime(model: onnx.ModelProto, inputs: Sequence[Any]) -> Sequence[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=False)))


def run_tinygrad(model: onnx.ModelProto, inputs: Sequence[Any]) -> Sequence[Any]:
    import ml_dtypes
    from tinygrad import Tensor, dtypes  # type: ignore[import-not-found]
    from tinygrad.nn.onnx import OnnxRunner  # type: ignore[import-not-found]

    runner = OnnxRunner(Tensor(model.SerializeToString(), device="PYTHON"))
    results = runner(dict(zip(runner.graph_inputs, inputs, strict=False)))
    arrays = [value.numpy() if hasattr(value, "numpy") else value for value in results.values()]
    return [  # NumPy gets bfloat16 of tinygrad as float32
        array.astype(ml_dtypes.bfloat16) if getattr(value, "dtype", None) == dtypes.bfloat16 else array
        for value, array in zip(results.values(), arrays, strict=True)
    ]


def with_table(page: str, counts: Mapping[str, Counter[str]]) -> str:
    """The text of a page with the counts of each system in its table. Cases that crashed count as refused."""
    before, header, after = page.partition(HEADER)
    if not header:
        raise SystemExit(f"{PAGE} has no table with the columns of this program")
    rows = [
        f"| {title(system)} | {count['passed']:,} | {count['refused'] + count['crashed']:,} | {count['wrong']:,} "
        f"| {count['random']:,} |\n"
        for system, count in counts.items()
    ]
    return before + header + "".join(rows) + after[after.index("\n\n") + 1 :]


def title(system: str) -> str:
    """A system with its version, as the page states it."""
    match system:
        case "onnxruntime":
            return f"ONNX Runtime {version('onnxruntime')}"
        case "tinygrad":
            return f"tinygrad {version('tinygrad')}"
        case backend_name:
            return f"ocannl {version('ocannl-core')} on `{backend_name}`"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--backend", default="llvm")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--conversions", action="store_true", help="run the models of other kinds in place of nodes")
    parser.add_argument("--show", action="store_true", help="print the reason of each case that did not pass")
    parser.add_argument("--write", action="store_true", help="write the results to the table of docs/onnx.md")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="run every N-th case")
    options = parser.parse_args(arguments)
    if options.conversions and options.write:
        parser.error("the table has the results of node cases, without --conversions")
    cases = conversions() if options.conversions else node_cases()
    cases = [case for case in cases if any(fnmatch.fnmatch(case.name, f"*{p}*") for p in options.patterns)]
    systems: dict[str, tuple[Run, tuple[type[BaseException], ...]]] = {options.backend: (run_ocannl, (oc.OcannlError,))}
    if options.peers:
        systems |= {"onnxruntime": (run_onnxruntime, (Exception,)), "tinygrad": (run_tinygrad, (Exception,))}
    results_of: dict[str, Counter[str]] = {}
    for system, (run, refusals) in systems.items():
        begin, counts = time.perf_counter(), Counter[str]()
        for case in cases[:: options.sample]:
            with warnings.catch_warnings(), np.errstate(all="ignore"), oc.use_backend(options.backend):
                warnings.simplefilter("ignore")
                result, reason = judged(case, run, refusals)
            counts[result] += 1
            if options.show and result != "passed":
                print(f"{result:8} {case.name}  {reason}", flush=True)
        results_of[system] = counts
        total = sum(counts.values())
        counted = ", ".join(f"{counts[result]} {result}" for result in ("refused", "wrong", "random", "crashed"))
        seconds = time.perf_counter() - begin
        print(f"{system:12} {counts['passed']} of {total} passed, {counted}; {seconds:.0f} s", flush=True)
    if options.write:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), results_of), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
