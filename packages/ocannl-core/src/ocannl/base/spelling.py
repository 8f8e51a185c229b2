"""Names that users of NumPy, PyTorch, JAX and Keras expect, and what to write here instead."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from ocannl.base.errors import ArgumentError, UnknownName

Names = Mapping[str, str]
T = TypeVar("T")


def rows(names: str, answer: str) -> Names:
    """The same answer for several names; `{}` in it stands for the name."""
    return {name: answer.replace("{}", name) for name in names.split()}


AXES = 'axes have names: write a spec, such as oc.einsum("{}", x)'
_NO_COPY = "an expression needs no copy: use the tensor itself"
_READ = "write t.numpy() for the values, or ctx[t] after a run"
_IN_PLACE = "assignments are recorded: write `t += ...` or `t[...] = ...` inside `with oc.cd():`"
CONTEXT_ANSWER = "tensors have no device: values live in a context, as in ctx = oc.Context(\"llvm\")"
_DTYPES = {"float": "float32", "half": "float16", "double": "float64", "long": "int64", "int": "int32", "bool": "bool",
           "short": "int16", "byte": "uint8"}  # fmt: skip
_SPECS: dict[str, str] = {
    **rows("reshape view flatten ravel", AXES.replace("{}", "...|a,b => ...|(a b)")),
    **rows("permute transpose swapaxes moveaxis",
            AXES.replace("{}", "...|a,b => ...|b,a") + "; x.T swaps the input and output rows"),
    **rows("squeeze unsqueeze expand_dims", AXES.replace("{}", "...|a => ...|a,0")),
    **rows("expand broadcast_to",
            "operands broadcast by themselves; " + AXES.replace("{}", "...|a => ...|b,a") + " with b=size"),
    **rows("unbind array_split", "write oc.split(x, sizes, spec) or oc.chunk(x, count, spec), or"
            ' oc.concat("a^b => b", x, a=size) for each part'),
}  # fmt: skip
_OPERATORS = {
    "add": "+", "sub": "-", "subtract": "-", "mul": "*", "multiply": "*", "div": "/", "divide": "/", "pow": "**",
    "power": "**",
    "remainder": "%", "matmul": "@", "mm": "@", "bmm": "@",
}  # fmt: skip
FUNCTIONS = {
    "clamp": "clip", "power": "pow", "multiply": "mul", "subtract": "sub", "divide": "div", "negative": "neg",
    "logical_and": "and_", "logical_or": "or_", "logical_not": "not_", "equal": "eq", "not_equal": "ne",
    "greater": "gt", "less": "lt", "greater_equal": "ge", "less_equal": "le", "absolute": "abs", "rsqrt": "recip_sqrt",
    "reciprocal": "recip", "mse_loss": "squared_error", "l1_loss": "absolute_error", "huber_loss": "huber",
    "nll_loss": "cross_entropy", "bce_loss": "binary_cross_entropy", "mean_squared_error": "squared_error",
    "mean_absolute_error": "absolute_error", "binary_cross_entropy_with_logits": "binary_cross_entropy",
    "binary_crossentropy": "binary_cross_entropy", "categorical_crossentropy": "cross_entropy",
    "sparse_categorical_crossentropy": "cross_entropy", "softmax_cross_entropy": "cross_entropy",
    "sigmoid_cross_entropy": "binary_cross_entropy", "kl_divergence": "kl_div", "mse": "squared_error",
    "mae": "absolute_error",
    "logcosh": "log_cosh", "focal_loss": "sigmoid_focal_loss",
    "jaccard_loss": "iou_loss", "ctc": "ctc_loss", "CTCLoss": "ctc_loss", "swish": "silu", "array": "tensor",
    "asarray": "tensor",
    "as_tensor": "tensor", "from_numpy": "tensor", "from_dlpack": "tensor", "constant": "tensor", "Parameter": "param",
    "Variable": "param", "rand": "uniform", "randn": "normal", "diagflat": "diag",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "fabs": "abs", "rad2deg": "degrees", "deg2rad": "radians", "logsigmoid": "log_sigmoid",
    "hardtanh": "hard_tanh", "hardsigmoid": "hard_sigmoid", "hardswish": "hard_swish", "gammaln": "lgamma",
    "psi": "digamma", "soft_sign": "softsign", "xor": "logical_xor",
}  # fmt: skip
_NOT_PROVIDED = "it is not provided; oc.defop declares operations, and oc.init computes constants with NumPy"

TENSOR: Names = {
    **_SPECS,
    **{name: f"write x {sign} y" for name, sign in _OPERATORS.items()},
    **{name: f"write oc.{function}(...)" for name, function in FUNCTIONS.items()},
    **{name: f"write t.astype(oc.{dtype})" for name, dtype in _DTYPES.items()},
    **rows("repeat tile split chunk roll flip rot90 pad unfold fold", "write oc.{}(x, ...)"),
    **rows("repeat_interleave", "write oc.repeat(x, times, spec)"),
    **rows("tan asin acos atan atan2 sinh cosh asinh acosh atanh hypot sinc erf erfc erfinv lgamma digamma logit",
            "write oc.{}(...)"),
    **rows("log10 log1p expm1 square lerp fmod logical_xor isclose copysign signbit heaviside nan_to_num logaddexp",
            "write oc.{}(...)"),
    **rows("isnan isinf isfinite", "write oc.{}(...)"),
    **rows("eq ne lt le gt ge dot cross_entropy where maximum minimum dropout stack one_hot diag outer",
            "write oc.{}(...)"),
    **rows("add_ sub_ mul_ div_ fill_ copy_ clamp_ normal_ uniform_ unsqueeze_", _IN_PLACE),
    **rows("item tolist block_until_ready cpu", _READ),
    **rows("clone copy contiguous", _NO_COPY),
    **rows("cuda device is_cuda devices", CONTEXT_ANSWER),
    **rows("ndim dim rank", "write len(t.dims)"),
    **rows("size sizes len", "write t.dims, the sizes in memory order, or math.prod(t.dims) for their product"),
    **rows("argsort sort topk kthvalue median quantile unique nonzero bincount", "write oc.{}(x, ...)"),
    **rows("scatter scatter_add scatter_reduce scatter_",
            'write oc.put_along_axis(x, ids, values, spec, mode="add")'),
    **rows("index_add index_copy index_put index_fill", "write oc.index_update(x, ids, values, mode=\"add\")"),
    **rows("set feed", "write ctx[t] = array"), "cumlogsumexp": _NOT_PROVIDED,
    "power": "write x ** y", "mm": "write x @ y", "numel": "write math.prod(t.dims)", "t": "write x.T",
    "backward": "write ctx.run(train.grad_update(loss)), then read ctx[w.grad]",
    "zero_": "write ctx.run(t.zero_grads) for gradients, or `t[...] = 0` inside `with oc.cd():`",
    "detach": "write oc.stop_gradient(x)", "to": 'write t.astype(oc.float16) to convert; ' + CONTEXT_ANSWER,
    "type": "write t.astype(oc.float32), or t.dtype to read the type",
    "data": "write t.value for the node, or ctx[t] for its array",
    "requires_grad": "write t.has_gradient, and oc.param or oc.tensor(data, grad=True) for a tensor with a gradient",
    "requires_grad_": "write oc.tensor(data, grad=True) when the tensor is built", "name": "write t.label",
    "gradient": "write t.grad", "parameters": "write t.params",
    "masked_fill": "write oc.where(mask, value, x)",
    "gather": "write x.take(ids) for rows, or oc.take_along_axis(x, ids, spec)",
    "index_select": "write x.take(ids)", "at": "write oc.index_update(x, ids, values)",
    "matmul": "write x @ y", "ones_like": "write oc.full(1.0)",
    "zero_grad": "train.grad_update(loss) sets gradients to zero; t.zero_grads is code that does nothing else",
    **rows("assign assign_add set_value update", f"write ctx[t] = array for a value, else {_IN_PLACE}"),
    "trainable": "write t.has_gradient",
    **rows("register_hook retain_grad", "code reads gradients: write ctx.compile(code, keep=[t.grad])"),
    "grad_fn": "write t.operation",
    **rows("minimize fit", "write train.fit(ctx, loss, train.adam(loss), batches)"),
    **rows("state_dict save", "write oc.save(path, ctx, t)"),
    "reset_parameters": "write ctx.init(loss) in another context, or with another seed=",
    **rows("mT mH H adjoint", "write x.T, which swaps the input and output rows;"
            ' two axes of a row are swapped by oc.einsum("...|a,b => ...|b,a", x)'),
    **rows("real imag conj angle", "cells are real numbers"),
    **rows("stride strides storage nbytes itemsize flat layout is_contiguous base",
            "an expression has no memory; write t.numpy(), whose array has it"),
    "nelement": "write math.prod(t.dims)", "element_size": "write t.dtype.nbytes",
    "is_leaf": "write t.operation is None",
}  # fmt: skip

_SHAPES_FROM_USE = "; a shape that is not given is inferred from use"
MODULE: Names = {
    **_SPECS,
    **{name: f"write oc.{function}" for name, function in FUNCTIONS.items()},
    **{name: f"write oc.{dtype}" for name, dtype in _DTYPES.items() if name != dtype},
    **rows("zeros zeros_like empty empty_like", "write oc.full(0.0, output=[3])" + _SHAPES_FROM_USE),
    **rows("ones ones_like", "write oc.full(1.0, output=[3])" + _SHAPES_FROM_USE),
    "full_like": "write oc.full(value)" + _SHAPES_FROM_USE, "linspace": "write oc.init(lambda i: ..., output=[n])",
    **rows("eye identity", "write oc.diag(oc.full(1.0, output=[n]))"),
    **rows("cat concatenate hstack vstack", 'write oc.concat("a; b => a^b", x, y)'),
    **rows("sum mean max min any all round", "write x.{}(spec)"),
    "repeat_interleave": "write oc.repeat(x, times, spec)",
    **rows("upsample Upsample UpSampling2D upsampling2d", "write oc.resize(x, scale=2) or oc.interpolate(x, scale=2)"),
    **rows("global_avg_pool global_average_pool GlobalAveragePooling2D",
            'write x.mean("...|h,w,c => ...|c"), or x.max(...) for the maximum'),
    **rows("im2col col2im extract_image_patches", "write oc.unfold(x, window), or oc.fold(patches, window)"),
    **rows("flipud fliplr", 'write oc.flip(x, "h,w => w")'),
    **rows("lrn LRN", "write oc.local_response_norm(x, size)"),
    **rows("amax amin", "write x.max(spec) or x.min(spec)"),
    **rows("layer_norm rms_norm batch_norm group_norm instance_norm", "write nn.{}, after `from ocannl import nn`"),
    **rows("LayerNorm BatchNorm", "write nn.layer_norm() or nn.batch_norm(), after `from ocannl import nn`"),
    **rows("linear Linear Dense dense", "write nn.linear(width=10), after `from ocannl import nn`, or w @ x + b"),
    **rows("fori_loop for_loop foreach", "write oc.scan(lambda c, _: (step(c), None), init, length=n)"),
    **rows("switch case if_else", "write oc.cond(condition, if_true, if_false)"),
    **rows("lstm gru rnn LSTM GRU RNN LSTMCell GRUCell",
           "write nn.lstm(width=64), nn.gru or nn.rnn, or oc.scan(cell, init, xs)"),
    **rows("Module Sequential Layer", "write a function decorated with @oc.op: its oc.param are the parameters"),
    **rows("embedding Embedding", "write nn.embedding(count=1000, width=64), after `from ocannl import nn`"),
    **rows("gather", "write table.take(ids), or oc.take_along_axis(x, ids, spec)"),
    **rows("scatter scatter_add scatter_reduce", "write oc.put_along_axis(x, ids, values, spec, mode=\"add\")"),
    **rows("histc bucketize", "write oc.histogram(x, bins, range), or oc.digitize(x, bins)"),
    **rows("percentile nanquantile", "write oc.quantile(x, q, spec), with q from 0 to 1"),
    **rows("optim optimizers sgd adam SGD Adam",
            "write train.sgd(loss, 0.1) or train.adam(loss), after `from ocannl import train`"),
    **rows("grad value_and_grad vjp autograd backward", "write train.grad_update(loss), then read w.grad"),
    **rows("jit function", "write ctx.compile(t.forward), with ctx = oc.Context()"),
    **rows("vmap pmap", "operations broadcast over the batch row, as in oc.tensor(data, batch_axes=1)"),
    **rows("manual_seed seed PRNGKey random", "write `with oc.settings(seed=1):`, or ctx.init(t, seed=1)"),
    **rows("device cuda cpu to", CONTEXT_ANSWER),
    **rows("save_checkpoint state_dict", "write oc.save(path, ctx, block)"),
    **rows("load_checkpoint restore load_state_dict", "write oc.load(path, ctx, block)"),
    "transpose": "write x.T, or oc.einsum(\"...|a,b => ...|b,a\", x)", "power": "write oc.pow, or x ** y",
    "multiply": "write oc.mul, or x * y", "subtract": "write oc.sub, or x - y", "divide": "write oc.div, or x / y",
    "mm": "write x @ y", "bmm": "write x @ y",
    "vdot": "write oc.dot(x, y), or (x * y).sum() over all axes",
    "inner": 'write oc.dot(x, y), or oc.einsum("...|i,k; ...|j,k => ...|i,j", x, y)',
    **rows("var_mean std_mean", "write oc.moments(x, spec), which returns the mean and the variance"),
    "randperm": "write oc.permutation(n)", "shuffle": "write x.take(oc.permutation(n))",
    **rows("ReLU Sigmoid Tanh GELU SiLU Softmax LogSoftmax Softplus ELU SELU Mish Hardtanh",
                  "operations are functions: write oc.relu(x), oc.sigmoid(x), oc.gelu(x)"),
    **rows("Conv1d Conv2d Conv3d Conv1D Conv2D Conv3D",
                  'write oc.conv2d(x, kernel), with kernel = oc.param("kernel", output=[3, 3, n])'),
    **rows("MaxPool2d MaxPooling2D MaxPool1d", "write oc.max_pool2d(x, window)"),
    **rows("AvgPool2d AveragePooling2D AvgPool1d", "write oc.avg_pool2d(x, window)"),
    **rows("Dropout", "write oc.dropout(x, 0.5)"),
    **rows("SeparableConv2D separable_conv2d",
            "write oc.depthwise_conv2d(x, kernel), then oc.conv2d with a kernel of one cell, or nn.conv2d(window=1)"),
    **rows("Flatten Reshape rearrange", AXES.replace("{}", "...|a,b => ...|(a b)")),
    **rows("reduce", 'write x.sum("...|a,b => ...|a"), or x.mean, x.max, x.min'),
    **rows("BatchNorm1d BatchNorm2d BatchNormalization RunningMean",
                  "write (x - mean) * oc.recip_sqrt(variance + 1e-5); oc.state keeps running statistics, as in"
                  " docs/blocks.md"),
    **rows("MultiheadAttention MultiHeadAttention attention multi_head_attention multihead_attention",
            "write nn.attention(heads=8), or oc.scaled_dot_product_attention(q, k, v)"),
    **rows("Transformer transformer", "write nn.transformer(layers=6, heads=8, inner=2048), or nn.encoder"),
    **rows("ModuleList ParameterList", "a list of blocks in Python: [layer(width=n) for n in widths]"),
    **rows("functional F", "operations are functions of the module: oc.relu(x), oc.cross_entropy(z, t)"),
    **rows("CrossEntropyLoss", "write oc.cross_entropy(logits, t)"),
    **rows("MSELoss", "write oc.squared_error(y, t)"), **rows("L1Loss", "write oc.absolute_error(y, t)"),
    **rows("BCELoss BCEWithLogitsLoss", "write oc.binary_cross_entropy(logits, t)"),
    **rows("inference_mode enable_grad set_grad_enabled",
                  "write `with oc.no_grad():` where tensors are built; t.forward computes no gradients"),
    **rows("eval", "code of t.forward is for evaluation; net(x, training=False) decides for an application"),
    **rows("remat", "write oc.recompute(function)"),
    **rows("Buffer buffer register_buffer", "write oc.state(name, init) in a function decorated with @oc.op"),
    **rows("set_default_dtype set_floatx", "write `with oc.use_precision(...)`, or dtype= of a tensor"),
    **rows("set_num_threads", 'write oc.Context("llvm", threads=2)'),
    **rows("get_default_device set_default_device", "write oc.use_backend(...), or oc.default_context()"),
    **rows("set_seed random_seed set_random_seed", "write `with oc.settings(seed=1):`, or ctx.init(t, seed=1)"),
    **rows("DataLoader Dataset utils data", "write train.batches(source, size, shuffle=0)"),
    **rows("autocast amp GradScaler",
                  "write `with oc.use_precision(...)`, and train.fit(..., scale=train.LossScale())"),
    **rows("lax numpy np jax", "operations are functions of the module: oc.exp(x), oc.scan(f, init, xs)"),
    **rows("tree_map tree_util", "parameters are a mapping: {path: f(p) for path, p in loss.params.items()}"),
    **rows("stop_grad", "write oc.stop_gradient(x)"), "is_tensor": "write isinstance(x, oc.Tensor)",
    **rows("save_model save_weights", "write oc.save(path, ctx, net)"),
    **rows("load_model safetensors", "write oc.load(path, ctx, net), or oc.load_weights(path, net)"),
    "remainder": "write oc.mod, or x % y",
    "floor_divide": "write oc.floor(x / y)", "divmod": "write oc.floor(x / y) and x % y",
    **rows("fmax fmin", "write oc.maximum or oc.minimum, which are NaN where an operand is"),
    **rows("invert bitwise_not", "write oc.not_(x), or oc.bitwise_xor(x, -1) for the bits of integers"),
    "float_power": "write x.astype(oc.float64) ** y", "modf": "write x - oc.trunc(x) and oc.trunc(x)",
    **rows("conjugate conj", "cells are real numbers"), "fit": "write train.fit, after `from ocannl import train`",
    **rows("pi e inf nan", "write math.{}"), "newaxis": 'write oc.einsum("...|a => ...|a,0", x)',
    **rows("inv svd qr cholesky solve det slogdet pinv eigh lstsq matrix_power", "write oc.linalg.{}"),
    "Input": "write oc.placeholder(output=[3])", "config": "write `with oc.settings(...):`",
    "diff": 'write oc.concat("a^b => b", x, a=1) - oc.concat("b^a => b", x, a=1)',
    "tensordot": 'write oc.einsum("...|i,k; ...|k,j => ...|i,j", x, y)',
    **rows("custom_vjp custom_jvp custom_gradient", "write oc.defop, which declares an operation with its gradient"),
    "use_deterministic_algorithms": "results are deterministic",
    "set_printoptions": "write np.set_printoptions, which formats x.numpy()",
    **rows("devices list_devices device_count get_device_count is_available", "write oc.backends()"),
    **rows("set_backend get_backend", "write `with oc.use_backend(\"llvm\"):`, or oc.Context(\"llvm\")"),
    **rows("finfo iinfo", "write np.{}(dtype.numpy), or ml_dtypes.{} for the types of ml_dtypes"),
    **rows("print debug", "write print(t.numpy())"), "version": "write oc.__version__",
    "distributions": "write oc.normal, oc.uniform or oc.randint",
}  # fmt: skip

CONTEXT: Names = {
    **rows("seed manual_seed", "write ctx.init(t, seed=1), or `with oc.settings(seed=1):`"),
    **rows("precision dtype", "write `with oc.use_precision(...)`, or dtype= of a tensor"),
    **rows("to cuda cpu", 'a context is made for a device: oc.Context("llvm", device=0)'),
    **rows("sync wait block_until_ready flush", "write ctx.synchronize()"),
    **rows("execute eval call forward", "write ctx.run(t.forward)"),
    **rows("jit build", "write ctx.compile(t.forward)"),
    **rows("read value download item numpy fetch get_tensor", "write ctx[t]"),
    **rows("write upload put update feed assign", "write ctx[t] = array"),
    "to_device": 'a context is made for a device: oc.Context("llvm", device=0)',
    **rows("backward grad value_and_grad zero_grad", "write ctx.run(train.grad_update(loss)), then ctx[w.grad]"),
    **rows("train fit", "write train.fit(ctx, loss, train.adam(loss), batches)"),
    **rows("step train_step", "write step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss)))"),
    **rows("save state_dict", "write oc.save(path, ctx, block)"),
    **rows("load load_state_dict restore", "write oc.load(path, ctx, block)"),
    **rows("parameters params", "write loss.params, and ctx[p] for the value of a parameter"),
    "no_grad": "write `with oc.no_grad():` where tensors are built",
}  # fmt: skip

ROUTINE: Names = rows("run execute call eval forward", "a routine is called: routine()")

SHAPE: Names = {
    **rows("numel size num_elements", "write math.prod(t.dims)"), **rows("ndim rank", "write len(t.dims)"),
    **rows("as_list tolist", "write list(t.dims)"),
}  # fmt: skip

PRECISION: Names = {
    **rows("itemsize alignment", "write dtype.nbytes"), **rows("is_floating_point kind", "write dtype.is_float"),
    **rows("type as_numpy_dtype char str", "write dtype.numpy"),
    **rows("min max eps", "write ml_dtypes.finfo(dtype.numpy), or np.iinfo of an integer type"),
}  # fmt: skip

LINALG: Names = {
    **rows("eig eigvals", "write oc.linalg.eigh or oc.linalg.eigvalsh, of a symmetric matrix"),
    **rows("matrix_rank cond", "write oc.linalg.svdvals, the singular values"),
    **rows("multi_dot chain_matmul", "write a @ b @ c, or oc.einsum, which chooses the order"),
    **rows("vector_norm matrix_norm", "write oc.linalg.norm"), "inverse": "write oc.linalg.inv",
    **rows("cho_solve lu_solve", "write oc.linalg.solve"),
    **rows("outer cross diagonal", "write oc.{}"), "matmul": "write x @ y",
    "trace": 'write oc.einsum("...|i,i => ...|", x)',
}  # fmt: skip

FFT: Names = {
    **rows("fftn ifftn", "write oc.fft.fft2, or oc.fft.fft along each axis"),
    **rows("rfftn irfftn hfft ihfft", "write oc.fft.rfft or oc.fft.rfft2"),
    **rows("fftfreq rfftfreq", "frequencies are constants: write oc.tensor(np.fft.{}(n))"),
    **rows("fftshift ifftshift", "write oc.roll(x, n // 2, spec)"), **rows("abs absolute", "write oc.fft.magnitude"),
    "istft": "it is not provided; write oc.fold of the frames of oc.fft.irfft",
}  # fmt: skip

NODE: Names = {
    "merge": "write t.merge, of the tensor", "numpy": "write t.numpy(), of the tensor",
    "grad": "write t.grad, of the tensor",
    "T": "write t.T, of the tensor", "shape": "write t.shape, of the tensor", "params": "write t.params, of the tensor",
}  # fmt: skip

_GIVEN_SHAPE = 'give output=[...] where the tensor is built; axes are rearranged by a spec, as in oc.einsum("{}", x)'
READ_ONLY: Names = {
    "label": 'write t.with_label("name"), or label="name" where the tensor is built',
    "value": "write ctx[t] = array for a value, or " + "`t[...] = ...` inside `with oc.cd():`",
    "dtype": "write t.astype(oc.float64), or dtype= where the tensor is built",
    **rows("shape dims", _GIVEN_SHAPE.replace("{}", "...|a,b => ...|(a b)")),
    "params": "the parameters are those of the expression; write ctx[p] = array for the value of a parameter",
    **rows("threads backend device", 'a context is made with it: oc.Context("llvm", threads=2, device=0)'),
}
"""What to write instead of an assignment to an attribute."""


def refused(error: str) -> Callable[..., Any]:
    """A special method, such as `__getitem__`, of a class that has no such operation."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise ArgumentError(error)

    return refuse


class Missing:
    """A class attribute that answers for a name which the class does not have; `hasattr` is false."""

    def __init__(self, name: str, answers: Names) -> None:
        self._name, self._answers = name, answers

    def __get__(self, owner: object, kind: type) -> NoReturn:
        try:
            raise missing(kind if owner is None else owner, self._name, self._answers)
        except AttributeError as error:
            error.__traceback__ = None  # the frames of the user are added when it is raised again
            raise

    def __set__(self, owner: object, value: object) -> NoReturn:
        self.__get__(owner, type(owner))

    def __delete__(self, owner: object) -> NoReturn:
        self.__get__(owner, type(owner))


def with_answers(answers: Names) -> Callable[[type[T]], type[T]]:
    """Decorator of a class that answers for names which it does not have. `__getattr__` would slow down all its
    attributes."""

    def decorate(kind: type[T]) -> type[T]:
        for name in answers:
            assert not hasattr(kind, name), f"{kind.__name__} has the attribute {name!r}"
            setattr(kind, name, Missing(name, answers))

        for name in dir(kind):
            attribute = inspect.getattr_static(kind, name)
            if isinstance(attribute, property) and not name.startswith("_"):
                setter = attribute.fset or _refusal(kind, name, "assigned")
                remover = attribute.fdel or _refusal(kind, name, "deleted")
                setattr(kind, name, property(attribute.fget, setter, remover, attribute.__doc__))

        def names(self: object) -> list[str]:
            return [name for name in object.__dir__(self) if name not in answers]

        kind.__dir__ = names  # type: ignore[method-assign]
        return kind if "__slots__" in vars(kind) else sealed(answers)(kind)

    return decorate


def sealed(answers: Names = MappingProxyType({})) -> Callable[[type[T]], type[T]]:
    """Decorator of a class whose instances get no new attributes from outside, where they would have no effect."""

    def decorate(kind: type[T]) -> type[T]:
        def assign(self: object, name: str, value: object) -> None:
            caller = str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0]
            if caller != "ocannl" and type(self) is kind and not name.startswith("_"):
                try:
                    if not hasattr(self, name):
                        raise missing(self, name, answers)
                    if name in READ_ONLY:
                        _refusal(kind, name, "assigned")(self)
                except AttributeError as error:
                    error.__traceback__ = None  # the frames of the user are added when it is raised again
                    raise
            object.__setattr__(self, name, value)

        kind.__setattr__ = assign  # type: ignore[method-assign]
        return kind

    return decorate


def _refusal(kind: type, name: str, action: str) -> Callable[..., None]:
    """The setter of an attribute that cannot be assigned, or its deleter."""

    def refuse(owner: object, value: object = None) -> NoReturn:
        remedy = READ_ONLY.get(name, "it is computed")
        try:
            raise UnknownName(f"{name!r} of a {kind.__name__} cannot be {action}: {remedy}")
        except AttributeError as error:
            error.__traceback__ = None  # the frames of the user are added when it is raised again
            raise

    return refuse


def missing(owner: object, name: str, answers: Names) -> AttributeError:
    """The error of `__getattr__` for an attribute that an object does not have."""
    kind = type(owner)
    if name.startswith("_") or (name in vars(kind) and name not in answers):
        return AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
    return unknown_name(f"a{'n' * (kind.__name__[0] in 'AEIO')} {kind.__name__}", name, lambda: dir(kind), answers)


def unknown_name(
    owner: str, name: str, known: Callable[[], Iterable[str]], answers: Names
) -> UnknownName:
    """The error for an attribute that `owner` does not have."""
    return UnknownName(f"{owner} has no attribute {name!r}: ", lambda: answer(name, known(), answers))


def of_module(functions: Iterable[str]) -> Names:
    """Answers of a module to the names of `ocannl`: its functions, and what it answers itself."""
    return {**MODULE, **{name: f"write oc.{name}" for name in functions}}


def answer(name: str, known: Iterable[str], answers: Names) -> str:
    """What to write instead of a name: its entry in the table, or the nearest of the known names."""
    if name in answers:
        return answers[name]
    names = [n for n in known if not n.startswith("_")]
    close = difflib.get_close_matches(name, names, 1, 0.75)
    return f"did you mean `{close[0]}`?" if close else "dir() lists the names"
