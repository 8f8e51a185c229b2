"""Layers and networks: functions declared with `oc.op`."""

from typing import TYPE_CHECKING
from typing import Any as _Any

from ocannl.base import training_names as _training_names
from ocannl.base.spelling import unknown_name as _unknown_name
from ocannl.nn.attention import attention
from ocannl.nn.cache import KeyValueCache
from ocannl.nn.decoding import Decoder
from ocannl.nn.dropout import dropout
from ocannl.nn.embedding import embedding
from ocannl.nn.experts import experts
from ocannl.nn.linear import linear, mlp
from ocannl.nn.masks import causal_mask, padding_mask, window_mask
from ocannl.nn.models.bert import bert, bert_layout
from ocannl.nn.models.gpt import gpt, gpt_layout
from ocannl.nn.models.llama import llama, llama_layer, llama_layout
from ocannl.nn.models.vit import vit
from ocannl.nn.norms import layer_norm, rms_norm
from ocannl.nn.positions import alibi, position_embedding, positions_of, rotary, sinusoids
from ocannl.nn.recurrent import gru, gru_cell, lstm, lstm_cell, rnn, rnn_cell
from ocannl.nn.transformers import (
    decoder,
    decoder_layer,
    encoder,
    encoder_layer,
    feed_forward,
    swiglu,
    transformer,
)

__all__ = [
    "KeyValueCache",
    "Decoder",
    "alibi",
    "attention",
    "bert",
    "bert_layout",
    "causal_mask",
    "decoder",
    "decoder_layer",
    "dropout",
    "embedding",
    "encoder",
    "encoder_layer",
    "experts",
    "feed_forward",
    "gpt",
    "gpt_layout",
    "gru",
    "gru_cell",
    "layer_norm",
    "linear",
    "llama",
    "llama_layer",
    "llama_layout",
    "lstm",
    "lstm_cell",
    "mlp",
    "padding_mask",
    "position_embedding",
    "positions_of",
    "rms_norm",
    "rnn",
    "rnn_cell",
    "rotary",
    "sinusoids",
    "swiglu",
    "transformer",
    "vit",
    "window_mask",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> _Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'ocannl.nn' has no attribute {name!r}")
        raise _unknown_name("nn", name, lambda: __all__, _training_names.NN)
