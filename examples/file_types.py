"""The types of files by their content, with the model of magika (Google, 214 types).

pip install --no-deps magika && python examples/file_types.py FILE ...
"""

import json
import sys
from pathlib import Path

import numpy as np
from shipped_models import ComparedModel, file_of

BLOCK, WIDTH, PADDING = 4096, 1024, 256  # bytes that are read at each end, tokens of each end, the token of no byte


def tokens(path):
    """`2048`: the first and the last bytes of a file without the white space around them."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        count = min(BLOCK, size)
        file.seek(0)
        first = file.read(count).lstrip()[:WIDTH]
        file.seek(size - count)
        last = file.read(count).rstrip()[-WIDTH:]
    row = np.full(2 * WIDTH, PADDING, "int32")
    row[: len(first)] = list(first)
    row[2 * WIDTH - len(last) :] = list(last)
    return row


def load(ctx=None):
    """The model, and the names of the types."""
    folder = file_of("magika", "models", "standard_v3_3")
    names = json.loads((folder / "config.min.json").read_text())["target_labels_space"]
    return ComparedModel(folder / "model.onnx", ctx), names


def main(paths, ctx=None):
    """Prints the type of each file and its probability; returns the types."""
    model, names = load(ctx)
    (probabilities,) = model(bytes=np.stack([tokens(path) for path in paths]))
    types = [names[row.argmax()] for row in probabilities]
    for path, name, row in zip(paths, types, probabilities, strict=True):
        print(f"{name:12} {row.max():.3f}  {path}")
    print(model.report)
    return types


if __name__ == "__main__":
    main(sys.argv[1:] or sorted(Path(__file__).parent.glob("*.py")))
