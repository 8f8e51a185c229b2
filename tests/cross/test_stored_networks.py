"""Weights of ready networks under the names of Hugging Face."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import ocannl as oc
from ocannl import nn

IDS = oc.tensor(np.zeros((1, 4), "int32"), batch_axes=2)
WIDTH, INNER = 6, 10


def stored(sizes: dict[str, tuple[int, ...]], folder: Path) -> tuple[Path, dict[str, Any]]:
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=dims).astype("float32") for name, dims in sizes.items()}
    save_file(arrays, folder / "model.safetensors")
    return folder / "model.safetensors", arrays


def dense(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def norm(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


def gpt_sizes() -> dict[str, tuple[int, ...]]:
    sizes = {"wte.weight": (11, WIDTH), "wpe.weight": (8, WIDTH), **norm("ln_f")}
    for n in range(2):
        layer = f"h.{n}"
        for name, inputs, outputs in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                      ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):  # fmt: skip
            sizes |= {f"{layer}.{name}.weight": (inputs, outputs), f"{layer}.{name}.bias": (outputs,)}
        sizes |= norm(f"{layer}.ln_1") | norm(f"{layer}.ln_2")
    return sizes


def bert_sizes() -> dict[str, tuple[int, ...]]:
    e = "embeddings"
    tables = {"word_embeddings": 11, "position_embeddings": 8, "token_type_embeddings": 2}
    sizes = {f"{e}.{name}.weight": (count, WIDTH) for name, count in tables.items()} | norm(f"{e}.LayerNorm")
    for n in range(2):
        layer = f"encoder.layer.{n}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            sizes |= dense(f"{layer}.attention.{name}", WIDTH, WIDTH)
        sizes |= dense(f"{layer}.intermediate.dense", WIDTH, INNER) | dense(f"{layer}.output.dense", INNER, WIDTH)
        sizes |= norm(f"{layer}.attention.output.LayerNorm") | norm(f"{layer}.output.LayerNorm")
    return sizes


def llama_sizes() -> dict[str, tuple[int, ...]]:
    sizes = {"model.embed_tokens.weight": (11, WIDTH), "model.norm.weight": (WIDTH,), "lm_head.weight": (11, WIDTH)}
    for n in range(2):
        layer = f"model.layers.{n}"
        sizes |= {f"{layer}.{name}.weight": (WIDTH,) for name in ("input_layernorm", "post_attention_layernorm")}
        sizes |= {f"{layer}.self_attn.{name}_proj.weight": (WIDTH, WIDTH) for name in "qkvo"}
        sizes |= {f"{layer}.mlp.{name}_proj.weight": (INNER, WIDTH) for name in ("gate", "up")}
        sizes[f"{layer}.mlp.down_proj.weight"] = (WIDTH, INNER)
    return sizes


def test_gpt_takes_the_names_of_gpt_2(tmp_path: Path) -> None:
    path, arrays = stored(gpt_sizes(), tmp_path)
    net = nn.gpt(vocabulary=11, length=8, width=WIDTH, layers=2, heads=2)
    net(IDS)
    assert oc.load_weights(path, net, **nn.gpt_layout(net)) == ()
    ctx = oc.Context("numpy")
    ctx.init(net)
    packed = arrays["h.1.attn.c_attn.weight"].T
    for number, part in enumerate("qkv"):
        rows = slice(number * WIDTH, (number + 1) * WIDTH)
        np.testing.assert_array_equal(ctx[net.params[f"decoder.layer_2.attention.w_{part}"]], packed[rows])
        bias = arrays["h.1.attn.c_attn.bias"][rows]
        np.testing.assert_array_equal(ctx[net.params[f"decoder.layer_2.attention.b_{part}"]], bias)
    np.testing.assert_array_equal(
        ctx[net.params["decoder.layer.feed_forward.outer.w"]], arrays["h.0.mlp.c_proj.weight"].T
    )


def test_bert_and_llama_take_the_names_of_hugging_face(tmp_path: Path) -> None:
    path, arrays = stored(bert_sizes(), tmp_path)
    net = nn.bert(vocabulary=11, length=8, width=WIDTH, layers=2, heads=2, inner=INNER)
    net(IDS)
    assert oc.load_weights(path, net, **nn.bert_layout()) == ()
    ctx = oc.Context("numpy")
    ctx.init(net)
    wanted = arrays["encoder.layer.1.output.LayerNorm.weight"]
    np.testing.assert_array_equal(ctx[net.params["encoder.layer_2.norm_2.gain"]], wanted)
    path, _ = stored(llama_sizes(), tmp_path)
    net = nn.llama(vocabulary=11, width=WIDTH, layers=2, heads=1, inner=INNER)
    net(IDS)
    assert oc.load_weights(path, net, **nn.llama_layout()) == ()


def test_parts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path, _ = stored({"packed": (7, 3)}, tmp_path)
    w = oc.param("w", 0.0, o=[2], i=[3])
    for part in (("packed", 0, 3), ("packed", 7, 7)):
        with pytest.raises(oc.CheckpointError, match=r"and is part . of . of 'packed', which has \(7, 3\)"):
            oc.load_weights(path, {"w": w}, names={"w": part})
    for name in (("packed", 0), ("packed", 0, 0), 3):
        with pytest.raises(oc.ArgumentError, match="names of arrays, or"):
            oc.load_weights(path, {"w": w}, names=lambda _, name=name: name)
