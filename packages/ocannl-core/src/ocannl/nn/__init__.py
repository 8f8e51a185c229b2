"""Layers and networks: functions declared with `oc.op`."""

from inspect import isfunction as _isfunction
from typing import TYPE_CHECKING
from typing import Any as _Any

from ocannl.base import training_names as _training_names
from ocannl.base.spelling import of_module as _of_module
from ocannl.base.spelling import unknown_name as _unknown_name
from ocannl.base.traceback_filtering import public as _public
from ocannl.lang.ops.functions import __all__ as _functions
from ocannl.nn.attention import attention
from ocannl.nn.cache import KeyValueCache
from ocannl.nn.convolutions import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    depthwise_conv1d,
    depthwise_conv2d,
    depthwise_conv3d,
)
from ocannl.nn.decoding import Decoder
from ocannl.nn.dropout import dropout
from ocannl.nn.embedding import embedding
from ocannl.nn.experts import experts, load_balancing_loss
from ocannl.nn.layer import checked_function as _checked_function
from ocannl.nn.linear import linear, mlp
from ocannl.nn.masks import causal_mask, padding_mask, window_mask
from ocannl.nn.models.bert import bert, bert_layout
from ocannl.nn.models.gpt import gpt, gpt_layout
from ocannl.nn.models.lenet import lenet
from ocannl.nn.models.llama import llama, llama_layer, llama_layout
from ocannl.nn.models.resnet import resnet
from ocannl.nn.models.unet import unet
from ocannl.nn.models.vae import vae
from ocannl.nn.models.vgg import vgg
from ocannl.nn.models.vit import vit
from ocannl.nn.norms import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from ocannl.nn.patches import patchify
from ocannl.nn.pooling import global_avg_pool, global_max_pool
from ocannl.nn.positions import alibi, position_embedding, positions_of, rotary, sinusoids
from ocannl.nn.recurrent import gru, gru_cell, lstm, lstm_cell, rnn, rnn_cell
from ocannl.nn.residual import residual
from ocannl.nn.squeeze_excite import squeeze_excite
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
    "Decoder",
    "KeyValueCache",
    "alibi",
    "attention",
    "batch_norm",
    "bert",
    "bert_layout",
    "causal_mask",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "decoder",
    "decoder_layer",
    "depthwise_conv1d",
    "depthwise_conv2d",
    "depthwise_conv3d",
    "dropout",
    "embedding",
    "encoder",
    "encoder_layer",
    "experts",
    "feed_forward",
    "global_avg_pool",
    "global_max_pool",
    "gpt",
    "gpt_layout",
    "group_norm",
    "gru",
    "gru_cell",
    "instance_norm",
    "layer_norm",
    "lenet",
    "linear",
    "load_balancing_loss",
    "llama",
    "llama_layer",
    "llama_layout",
    "lstm",
    "lstm_cell",
    "mlp",
    "padding_mask",
    "patchify",
    "position_embedding",
    "positions_of",
    "residual",
    "resnet",
    "rms_norm",
    "rnn",
    "rnn_cell",
    "rotary",
    "sinusoids",
    "squeeze_excite",
    "swiglu",
    "transformer",
    "unet",
    "vae",
    "vgg",
    "vit",
    "window_mask",
]

globals().update({name: _checked_function(globals()[name]) for name in __all__ if _isfunction(globals()[name])})

if not TYPE_CHECKING:

    @_public
    def __getattr__(name: str) -> _Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'ocannl.nn' has no attribute {name!r}")
        raise _unknown_name("nn", name, lambda: __all__, {**_of_module(_functions), **_training_names.NN})
