"""Mutations of small ONNX models: of their bytes, and of fields of their messages.

Run as a program, `mutated_models.py FOLDER FIRST COUNT`, it loads them under limits of memory and time, and prints
a line of JSON for each: the seed and the mutations, and another one for an error that is not one of ocannl.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper, parser

Message = Any
MEMORY, SECONDS = 2 * 2**30, 10
NUMBERS = (-(2**63), -(2**31), -5, -1, 0, 1, 2, 3, 7, 64, 4097, 2**16, 2**24, 2**31 - 1, 2**40, 2**62, 2**63 - 1)
PATHS = ("../data.bin", "/etc/passwd", "link.bin", "", ".", "absent.bin", "a\0b", "x" * 5000)

# --- valid models ------------------------------------------------------------------------------------------------

TEXTS = {
    "branches": """g (bool c, float[n, 3] x) => (float[n, 3] y)
    {
        y = If (c) <
            then_branch = a () => (float[n, 3] p) { p = Exp (x) },
            else_branch = b () => (float[n, 3] q) { q = Neg (x) }
        >
    }""",
    "loops": """g (float[3] x) => (float[3] y, float[s, 3] z, float[t] w)
    {
        m = Constant <value_int = 4> ()
        go = Constant <value = bool {1}> ()
        y, z = Loop (m, go, x) <
            body = b (int64 n, bool e, float[3] v) => (bool again, float[3] u, float[3] r)
            { again = Identity (e)  k = Cast <to = 1> (n)  u = Add (v, k)  r = Mul (u, u) }
        >
        w = Loop (m, , x) <
            body = d (int64 n, bool e, float[i] v) => (bool again, float[j] u)
            { again = Identity (e)  u = Concat <axis = 0> (v, x) }
        >
    }""",
    "sizes": """g (float[2, 3, 4] x) => (float[a, b] y, float[c] z, float[d, e, f] p, float[h, k] t, float[l, r, o] q)
    {
        dims = Shape (x)
        zero = Constant <value_ints = [0]> ()
        first = Gather (dims, zero)
        rest = Constant <value_ints = [-1]> ()
        target = Concat <axis = 0> (first, rest)
        y = Reshape (x, target)
        start = Constant <value_int = 0> ()
        limit = Constant <value_int = 9> ()
        delta = Constant <value_int = 2> ()
        numbers = Range (start, limit, delta)
        z = Cast <to = 1> (numbers)
        pads = Constant <value_ints = [0, 1, 0, 0, 0, 2]> ()
        p = Pad (x, pads)
        shape = Constant <value_ints = [2, 5]> ()
        ones = ConstantOfShape <value = float {1}> (shape)
        times = Constant <value_ints = [2, 3]> ()
        tiled = Tile (ones, times)
        t = EyeLike (tiled)
        wide = Constant <value_ints = [2, 3, 4]> ()
        row = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> ()
        q = Expand (row, wide)
    }""",
    "images": """g (float[1, 2, 6, 6] x, int64[3] i)
        => (float[a, b, c, d] y, float[e, f] h, float[m, n, o, p] u, float[q, r] t)
    {
        scales = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()
        y = Resize <mode = "linear"> (x, , scales)
        depth = Constant <value_int = 5> ()
        values = Constant <value_floats = [0.0, 1.0]> ()
        h = OneHot (i, depth, values)
        pooled = MaxPool <kernel_shape = [2, 2], strides = [2, 2], pads = [0, 0, 1, 1]> (x)
        u = AveragePool <kernel_shape = [2, 2], ceil_mode = 1> (pooled)
        flat = Flatten (u)
        zero = Constant <value_int = 0> ()
        t = Trilu <upper = 0> (flat, zero)
    }""",
    "sequences": """g (float[5, 2] x) => (float[a, b] y, int64 n)
    {
        parts = SplitToSequence <axis = 0> (x)
        two = Constant <value_int = 2> ()
        first = SequenceAt (parts, two)
        longer = SequenceInsert (parts, first)
        y = ConcatFromSequence <axis = 0> (longer)
        n = SequenceLength (longer)
    }""",
    "selection": """g (float[4] x) => (int64[a, b] n, float[c] u, int64[d, 3] s)
    {
        k = Constant <value_floats = [0.0, 1.0, 2.0, 1.0]> ()
        n = NonZero (k)
        u = Unique (k)
        boxes = Constant <value = float[1, 2, 4] {0, 0, 1, 1, 0, 0, 2, 2}> ()
        scores = Constant <value = float[1, 1, 2] {0.5, 0.75}> ()
        m = Constant <value_int = 3> ()
        s = NonMaxSuppression (boxes, scores, m)
    }""",
    "scans": """g (float[2] h, float[5, 2] x) => (float[2] last, float[a, b] y)
    {
        last, y = Scan <num_scan_inputs = 1,
            body = b (float[2] s, float[2] e) => (float[2] t, float[2] u)
            { p = Mul (s, e)  t = Add (p, e)  u = Exp (t) }
        > (h, x)
    }""",
}
FUNCTIONS = """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
g (float[n, 3] x) => (float[n, 3] y) { y = local.twice <factor = 2.0> (x) }
<domain: "local", opset_import: ["" : 17, "local" : 1]>
twice <factor> (a) => (b) { c = local.scaled <alpha: float = @factor> (a)  b = local.scaled <alpha = 3.0> (c) }
<domain: "local", opset_import: ["" : 17]>
scaled <alpha> (a) => (b) { f = Constant <value_float: float = @alpha> ()  b = Mul (a, f) }
"""


def _model_of(nodes: list[Message], inputs: dict[str, Any], outputs: list[str], constants: dict[str, Any]) -> Message:
    return helper.make_model(
        helper.make_graph(
            nodes,
            "net",
            [helper.make_tensor_value_info(name, *type_and_dims) for name, type_and_dims in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )


def _numbers(*dims: int) -> Any:
    return np.random.default_rng(0).normal(size=dims).astype("float32")


def _convolution() -> Message:
    nodes = [
        helper.make_node("Conv", ["x", "kernel", "bias"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2], group=1),
        helper.make_node("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["b"], epsilon=1e-3),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "w", "v"], ["y"], transB=1),
    ]
    vectors = {name: np.abs(_numbers(4)) for name in ("bias", "scale", "shift", "mean", "variance")}
    constants = {"kernel": _numbers(4, 3, 3, 3), **vectors, "w": _numbers(2, 4), "v": _numbers(2)}
    return _model_of(nodes, {"x": (TensorProto.FLOAT, ["batch", 3, 8, 8])}, ["y"], constants)


def _recurrent() -> Message:
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], hidden_size=3, direction="bidirectional"),
        helper.make_node("GRU", ["x", "w3", "r3"], ["z"], hidden_size=3, linear_before_reset=1),
    ]
    constants = {
        "w": _numbers(2, 12, 4), "r": _numbers(2, 12, 3), "b": _numbers(2, 24),
        "w3": _numbers(1, 9, 4), "r3": _numbers(1, 9, 3),
    }  # fmt: skip
    return _model_of(nodes, {"x": (TensorProto.FLOAT, ["time", "batch", 4])}, ["y", "h", "c", "z"], constants)


def _quantized() -> Message:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearConv", ["q", "s", "z", "k", "s", "kz", "s", "z"], ["p"], pads=[1, 1, 1, 1]),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]),
        helper.make_node("DynamicQuantizeLinear", ["y"], ["t", "ts", "tz"]),
        helper.make_node("DequantizeLinear", ["t", "ts", "tz"], ["u"]),
    ]
    kernel = np.arange(54, dtype="int8").reshape(3, 2, 3, 3)
    constants = {"s": np.float32(0.1), "z": np.uint8(128), "k": kernel, "kz": np.int8(0)}
    return _model_of(nodes, {"x": (TensorProto.FLOAT, [1, 2, 5, 5])}, ["u"], constants)


@cache
def models() -> dict[str, Message]:
    """Valid models by name."""
    texts = {name: parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')
             for name, text in TEXTS.items()}  # fmt: skip
    return {
        **texts,
        "functions": parser.parse_model(FUNCTIONS),
        "convolution": _convolution(),
        "recurrent": _recurrent(),
        "quantized": _quantized(),
    }


# --- mutations of messages ---------------------------------------------------------------------------------------


def graphs(graph: Message) -> Iterator[Message]:
    """A graph and all subgraphs."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)


def _nodes(model: Message) -> list[Message]:
    inside = [node for graph in graphs(model.graph) for node in graph.node]
    return inside + [node for function in model.functions for node in function.node]


def _tensors(model: Message) -> list[Message]:
    of_nodes = [attribute.t for node in _nodes(model) for attribute in node.attribute if attribute.HasField("t")]
    return of_nodes + list(model.graph.initializer)


def _number(rng: random.Random) -> int:
    return rng.choice(NUMBERS) if rng.random() < 0.8 else rng.randrange(-(2**63), 2**63)


def _value(rng: random.Random) -> Any:
    """A value of an attribute of any kind."""
    kinds: list[Callable[[], Any]] = [
        lambda: _number(rng),
        lambda: rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), rng.gauss(0, 10))),
        lambda: rng.choice(("", "linear", "SAME_UPPER", "bidirectional", "\u1234", "x" * 1000)),
        lambda: [_number(rng) for _ in range(rng.randrange(1, 5))],
        lambda: [rng.gauss(0, 3) for _ in range(rng.randrange(1, 5))],
        lambda: numpy_helper.from_array(np.array([_number(rng) for _ in range(rng.randrange(3))], np.int64)),
        lambda: numpy_helper.from_array(np.array("text", object)),
    ]
    return rng.choice(kinds)()


def set_attribute(model: Message, rng: random.Random) -> None:
    """Another value, of the same kind or any."""
    node = rng.choice(_nodes(model))
    if not node.attribute:
        return
    attribute = rng.choice(node.attribute)
    if attribute.type == onnx.AttributeProto.INT and rng.random() < 0.7:
        attribute.i = _number(rng)
    elif attribute.type == onnx.AttributeProto.INTS and attribute.ints and rng.random() < 0.7:
        attribute.ints[rng.randrange(len(attribute.ints))] = _number(rng)
    elif attribute.type == onnx.AttributeProto.TENSOR and rng.random() < 0.7:
        attribute.t.CopyFrom(numpy_helper.from_array(np.array([_number(rng)] * rng.randrange(4), np.int64)))
    else:
        new = helper.make_attribute(attribute.name, _value(rng))
        attribute.CopyFrom(new)


def add_attribute(model: Message, rng: random.Random) -> None:
    """An attribute that another node has, or that operators often have."""
    names = [attribute.name for node in _nodes(model) for attribute in node.attribute]
    names += ["axis", "axes", "to", "pads", "dilations", "group", "auto_pad", "num_outputs", "keepdims", "layout"]
    rng.choice(_nodes(model)).attribute.append(helper.make_attribute(rng.choice(names), _value(rng)))


def swap_inputs(model: Message, rng: random.Random) -> None:
    a, b = rng.choice(_nodes(model)), rng.choice(_nodes(model))
    if a.input and b.input:
        n, k = rng.randrange(len(a.input)), rng.randrange(len(b.input))
        a.input[n], b.input[k] = b.input[k], a.input[n]


def rename_input(model: Message, rng: random.Random) -> None:
    """Any other value, also one computed later: cycles."""
    node = rng.choice(_nodes(model))
    names = [name for producer in _nodes(model) for name in (*producer.input, *producer.output)]
    names += ["", "absent", *(tensor.name for tensor in model.graph.initializer)]
    if node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)


def rename_output(model: Message, rng: random.Random) -> None:
    """Two values of one name."""
    node = rng.choice(_nodes(model))
    names = [name for producer in _nodes(model) for name in producer.output] + [""]
    if node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice(names)


def remove_or_repeat(model: Message, rng: random.Random) -> None:
    """Fewer or more elements of a repeated field."""
    graph = rng.choice(list(graphs(model.graph)))
    owners = [graph.node, graph.input, graph.output, graph.initializer, model.opset_import, model.functions]
    node = rng.choice(_nodes(model))
    owners += [node.attribute, node.input, node.output]
    field = rng.choice([owner for owner in owners if len(owner)])
    n = rng.randrange(len(field))
    if rng.random() < 0.5:
        del field[n]
    else:
        field.extend([field[n]] * rng.choice((1, 3)))


def set_operator(model: Message, rng: random.Random) -> None:
    """Another operator of ONNX for the same inputs and attributes."""
    schemas = [schema for schema in onnx.defs.get_all_schemas() if schema.domain in ("", "ai.onnx.ml")]
    node, schema = rng.choice(_nodes(model)), rng.choice(schemas)
    node.op_type, node.domain = schema.name, schema.domain
    if schema.domain and all(opset.domain != schema.domain for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid(schema.domain, 3))


def set_version(model: Message, rng: random.Random) -> None:
    if model.opset_import:
        model.opset_import[0].version = rng.choice((*NUMBERS, *range(7, 27)))


def set_dims(model: Message, rng: random.Random) -> None:
    """A size of a tensor or of a declared input."""
    sizes = [(tensor.dims, n) for tensor in _tensors(model) for n in range(len(tensor.dims))]
    declared = [dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim]
    if rng.random() < 0.5 and declared:
        rng.choice(declared).dim_value = _number(rng)
    elif sizes:
        dims, n = rng.choice(sizes)
        dims[n] = _number(rng)


def set_type(model: Message, rng: random.Random) -> None:
    """The element type of a tensor or of a declared input."""
    declared = [value.type.tensor_type for value in model.graph.input if value.type.HasField("tensor_type")]
    if rng.random() < 0.5 and declared:
        rng.choice(declared).elem_type = rng.randrange(-1, 30)
    elif tensors := _tensors(model):
        rng.choice(tensors).data_type = rng.randrange(-1, 30)


def set_content(model: Message, rng: random.Random) -> None:
    """Other values of a constant: extreme sizes where it decides a shape."""
    tensors = _tensors(model)
    attributes = [a for node in _nodes(model) for a in node.attribute if node.op_type == "Constant"]
    if attributes and rng.random() < 0.6:
        attribute = rng.choice(attributes)
        if attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = _number(rng)
        elif attribute.floats:
            attribute.floats[rng.randrange(len(attribute.floats))] = float(_number(rng))
        else:
            attribute.i = _number(rng)
    elif tensors:
        tensor = rng.choice(tensors)
        tensor.raw_data = rng.randbytes(rng.choice((0, 1, len(tensor.raw_data), 8, 4096)))


def make_external(model: Message, rng: random.Random) -> None:
    """External data in other folders, in links, and beyond the end of the file."""
    if not (tensors := _tensors(model)):
        return
    tensor = rng.choice(tensors)
    tensor.data_location = TensorProto.EXTERNAL
    entries = {
        "location": rng.choice((*PATHS, "data.bin", "data.bin")),
        "offset": str(rng.choice((*NUMBERS, "text", ""))),
        "length": str(rng.choice((*NUMBERS, "text", ""))),
    }
    for key, value in entries.items():
        if rng.random() < 0.8:
            tensor.external_data.add(key=key, value=value)


def nest(model: Message, rng: random.Random) -> None:
    """Branches in branches, as many as the version of protobuf can copy."""
    with suppress(DecodeError, SystemError):
        for _ in range(rng.choice((1, 8, 31, 60))):
            inner = onnx.GraphProto()
            inner.CopyFrom(model.graph)
            del inner.input[:]
            branch = inner if rng.random() < 0.1 else helper.make_graph([], "e", [], [])
            names = [value.name for value in inner.output]
            outer = helper.make_node("If", ["always"], names, then_branch=inner, else_branch=branch)
            if model.ByteSize() > 2**20:
                return
            del model.graph.node[:]
            del model.graph.initializer[:]
            model.graph.initializer.append(numpy_helper.from_array(np.array(True), "always"))
            model.graph.node.append(outer)


def recurse(model: Message, rng: random.Random) -> None:
    """Functions that call themselves, or whose calls double at each level."""
    count = rng.choice((1, 2, 30, 300))
    ends = rng.random() < 0.5
    for n in range(count):
        target = f"f{n + 1}" if n + 1 < count else ("Neg" if ends else "f0")
        domain = "" if target == "Neg" else "deep"
        nodes = [helper.make_node(target, [a], [b], domain=domain) for a, b in ("ab", "bc")]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("deep", 1)]
        model.functions.append(helper.make_function("deep", f"f{n}", ["a"], ["c"], nodes, opsets))
    model.opset_import.append(helper.make_opsetid("deep", 1))
    if model.graph.output and model.graph.input:
        model.graph.node.append(helper.make_node("f0", [model.graph.input[0].name], ["deep"], domain="deep"))
        model.graph.output.append(helper.make_tensor_value_info("deep", TensorProto.FLOAT, None))


def lengthen(model: Message, rng: random.Random) -> None:
    """A chain of many nodes."""
    if not model.graph.input:
        return
    name = model.graph.input[0].name
    count = rng.choice((10, 300, 1500))
    for n in range(count):
        model.graph.node.append(helper.make_node(rng.choice(("Neg", "Abs", "Identity")), [name], [f"chain{n}"]))
        name = f"chain{n}"
    model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))


def multiply(model: Message, rng: random.Random) -> None:
    """Constants that grow by broadcasting or repetition at every node."""
    operator = rng.choice(("Concat", "MatMul", "Mul", "Tile", "OneHot"))
    name = "grown"
    model.graph.initializer.append(numpy_helper.from_array(np.ones((64, 64), rng.choice(("int64", "float32"))), name))
    model.graph.initializer.append(numpy_helper.from_array(np.array([2, 2]), "times"))
    for n in range(rng.choice((3, 20))):
        new = f"grown{n}"
        attributes = {"Concat": {"axis": 0}}.get(operator, {})
        if operator in ("Mul", "MatMul"):
            axes = f"axes{n}"
            model.graph.initializer.append(numpy_helper.from_array(np.array([n % 2]), axes))
            model.graph.node.append(helper.make_node("Unsqueeze", [name, axes], [f"{new}_"]))
            inputs = [name, f"{new}_"]
        else:
            inputs = {"Concat": [name] * 8, "Tile": [name, "times"], "OneHot": [name, "times", "times"]}[operator]
        model.graph.node.append(helper.make_node(operator, inputs, [new], **attributes))
        name = new
    model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))


FIELDS: list[Callable[[Message, random.Random], None]] = [
    set_attribute, set_attribute, set_attribute, add_attribute, swap_inputs, rename_input, rename_output,
    remove_or_repeat, set_operator, set_operator, set_version, set_dims, set_dims, set_type, set_content, set_content,
    make_external, nest, recurse, lengthen, multiply,
]  # fmt: skip

# --- mutations of bytes ------------------------------------------------------------------------------------------


def flipped(content: bytes, rng: random.Random) -> bytes:
    result = bytearray(content)
    for _ in range(rng.choice((1, 2, 8))):
        result[rng.randrange(len(result))] ^= 1 << rng.randrange(8)
    return bytes(result)


def truncated(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def inserted(content: bytes, rng: random.Random) -> bytes:
    position = rng.randrange(len(content))
    return content[:position] + rng.randbytes(rng.choice((1, 2, 16))) + content[position:]


def spliced(content: bytes, rng: random.Random) -> bytes:
    donor = rng.choice(list(models().values())).SerializeToString()
    start = rng.randrange(len(donor))
    return content[: rng.randrange(len(content))] + donor[start : start + rng.choice((4, 64, 4096))]


BYTES = [flipped, flipped, truncated, inserted, spliced]


def mutated(seed: int) -> tuple[str, bytes]:
    """What was mutated, and the bytes of the mutated model."""
    rng = random.Random(seed)
    name, source = rng.choice(list(models().items()))
    model = onnx.ModelProto()
    model.CopyFrom(source)
    changes = [name]
    if rng.random() < 0.75:
        for _ in range(rng.choice((1, 1, 2, 3))):
            mutation = rng.choice(FIELDS)
            try:
                mutation(model, rng)
            except (DecodeError, IndexError, OverflowError, TypeError, ValueError):
                continue  # it does not fit this model
            changes.append(mutation.__name__)
    content = model.SerializeToString()
    if len(changes) == 1:
        change = rng.choice(BYTES)
        changes.append(change.__name__)
        content = change(content, rng)
    return " ".join(changes), content


# --- loading -----------------------------------------------------------------------------------------------------


def error_of(path: Path) -> str | None:
    """The error of loading a model and building its outputs, None without one; errors of ocannl are expected."""
    import ocannl as oc

    try:
        model = oc.onnx.load(path)
        names = {size for value in model.declared_inputs for size in value.sizes or () if isinstance(size, str)}
        _ = oc.onnx.load(path, sizes=dict.fromkeys(names, 2)).outputs
    except oc.OcannlError:
        return None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        places = ", ".join(f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in reversed(frames))
        return f"{type(error).__name__}: {str(error)[:200]} at {places}"
    return None


def main(folder: Path, first: int, count: int) -> None:
    import ocannl as oc

    _ = oc.onnx.load  # imported before the limit
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    faulthandler.enable()
    faulthandler.register(signal.SIGVTALRM, chain=True)  # prints where the time was spent, and ends the process
    warnings.simplefilter("ignore")
    path = folder / "model.onnx"
    (folder / "data.bin").write_bytes(_numbers(1000).tobytes())
    if not (folder / "link.bin").is_symlink():
        (folder / "link.bin").symlink_to("/etc/hostname")
    for seed in range(first, first + count):
        description, content = mutated(seed)
        path.write_bytes(content)
        print(json.dumps({"seed": seed, "mutations": description}), flush=True)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        error = error_of(path)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if error is not None:
            print(json.dumps({"seed": seed, "error": error}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
