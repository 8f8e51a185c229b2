"""If, Loop, Scan, sequences and results whose sizes depend on values, compared with ONNX Runtime."""

import numpy as np
import pytest

import ocannl as oc

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import parser  # noqa: E402

import ocannl_onnx  # noqa: E402

RNG = np.random.default_rng(3)


def _values(*dims):
    return RNG.uniform(-1, 1, dims).astype(np.float32)


def _model(text, opset=17):
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')


def _expected(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def _check(model, *data_sets):
    """Compares the outputs for several inputs, by one function."""
    function = ocannl_onnx.load(model).compile()
    for inputs in data_sets:
        results = function.run(inputs)
        for actual, expected in zip(results, _expected(model, inputs), strict=True):
            assert np.shape(actual) == np.shape(expected)
            assert np.asarray(actual).dtype == np.asarray(expected).dtype
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    return function


IF = """g (bool c, float[3] x) => (float[N] y, int64[M] n)
{{
    y, n = If (c) <
        then_branch = a () => (float[A] p, int64[B] q) {{ p = Exp (x)  q = Shape (x) }},
        else_branch = b () => (float[A] p, int64[B] q) {{ {} q = Constant <value_ints = [7]> () }}
    >
}}"""


def test_if_of_equal_shapes_is_one_program():
    function = _check(_model(IF.format("p = Neg (x)")), *({"c": np.array(c), "x": _values(3)} for c in (True, False)))
    assert len(function._compiled) == 1


def test_if_whose_other_branch_does_not_fit_the_inputs():
    """As in models for two sizes of inputs: each branch is an error for inputs of the other size."""
    product = "w = Constant <value = float[2,{}] {{{}}}> () p = MatMul (w, x) q = Constant <value_ints = [2]> ()"
    branches = [product.format(size, ", ".join("123456789"[: 2 * size])) for size in (3, 4)]
    model = _model(f"""g (bool c, float[n] x) => (float[N] y, int64[M] n)
    {{
        y, n = If (c) <
            then_branch = a () => (float[A] p, int64[B] q) {{ {branches[0]} }},
            else_branch = b () => (float[A] p, int64[B] q) {{ {branches[1]} }}
        >
    }}""")
    _check(model, {"c": np.array(True), "x": _values(3)}, {"c": np.array(False), "x": _values(4)})


def test_if_of_different_shapes_is_compiled_for_each_condition():
    model = _model(IF.format("p = Concat <axis = 0> (x, x)"))
    function = _check(model, *({"c": np.array(c), "x": _values(3)} for c in (True, False, True)))
    assert len(function._compiled) == 2
    with pytest.raises(ocannl_onnx.NeedsConstant, match="`c`"):
        _ = ocannl_onnx.load(model).outputs


def test_conditions_of_branches_in_branches_are_known_to_decide_sizes():
    model = _model("""g (bool c, bool d, float[3] x) => (float[N] y)
    {
        e = Identity (d)
        y = If (c) <
            then_branch = a () => (float[A] p)
            {
                p = If (e) <
                    then_branch = i () => (float[B] q) { q = Neg (x) },
                    else_branch = j () => (float[C] r) { r = Concat <axis = 0> (x, x) }
                >
            },
            else_branch = b () => (float[D] s) { s = Exp (x) }
        >
    }""")
    flags = (True, False)
    _check(model, *({"c": np.array(c), "d": np.array(d), "x": _values(3)} for c in flags for d in flags))


LOOP = """g (int64 m, bool c, float[3] x) => (float[N] y {declared})
{{
    y {results} = Loop (m, c, x) <
        body = b (int64 n, bool go, float[N] v) => (bool again, float[A] w {more})
        {{
            k = Cast <to = 1> (n)
            w = Add (v, k)
            total = ReduceSum <keepdims = 0> (w)
            ten = Constant <value_float = 10.0> ()
            {condition}
            {scan}
        }}
    >
}}"""


def _loop(condition, *, stacked=False):
    parts = {"declared": ", float[S, T] z", "results": ", z", "more": ", float[A] s", "scan": "s = Mul (w, w)"}
    return _model(LOOP.format(condition=condition, **(parts if stacked else dict.fromkeys(parts, ""))))


ENDLESS, UNTIL = "again = Identity (go)", "again = Less (total, ten)"


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("condition", [ENDLESS, UNTIL])
def test_loop(condition, stacked):
    _check(
        _loop(condition, stacked=stacked),
        {"m": np.array(4, np.int64), "c": np.array(True), "x": _values(3)},
        {"m": np.array(7, np.int64), "c": np.array(True), "x": _values(3)},
    )


def test_loop_without_steps():
    model = _loop(ENDLESS)
    for m, c in ((0, True), (3, False)):
        _check(model, {"m": np.array(m, np.int64), "c": np.array(c), "x": _values(3)})
    x = _values(3)
    y, z = ocannl_onnx.load(_loop(ENDLESS, stacked=True)).compile()(np.array(0, np.int64), np.array(True), x)
    assert y.tolist() == x.tolist() and z.shape == (0, 3)


def test_while_loop_with_a_limit_is_one_program():
    model = _loop(UNTIL)
    model.graph.input.remove(model.graph.input[0])
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(9, np.int64), "m"))
    function = _check(model, *({"c": np.array(True), "x": np.full(3, x, np.float32)} for x in (-1.0, 0.5, 2.0, 5.0)))
    assert len(function._compiled) == 1


def test_loop_with_changing_shapes_is_unrolled():
    model = _model("""g (float[2] x) => (float[N] y, float[S, T] z)
    {
        m = Constant <value_int = 3> ()
        y, z = Loop (m, , x) <
            body = b (int64 n, bool go, float[A] v) => (bool again, float[B] w, float[C] s)
            { again = Identity (go)  w = Concat <axis = 0> (v, x)  s = Neg (x) }
        >
    }""")
    _check(model, {"x": _values(2)})


SCAN = """g (float[2] h, float[{xs}] x) => (float[2] last, float[A, B] y, float[C, D] z)
{{
    last, y, z = Scan <num_scan_inputs = 1 {attributes},
        body = b (float[2] s, float[2] e) => (float[2] t, float[2] u, float[2] v)
        {{ p = Mul (s, e)  t = Add (p, e)  u = Exp (t)  v = Neg (s) }}
    > (h, x)
}}"""


@pytest.mark.parametrize("opset", [9, 11, 17, 21])
@pytest.mark.parametrize(
    ("xs", "attributes"),
    [
        ("5, 2", ""),
        ("5, 2", ", scan_input_directions = [1], scan_output_directions = [0, 1]"),
        ("2, 5", ", scan_input_axes = [1], scan_output_axes = [1, 0], scan_output_directions = [1, 0]"),
    ],
)
def test_scan(xs, attributes, opset):
    dims = tuple(map(int, xs.split(",")))
    _check(_model(SCAN.format(xs=xs, attributes=attributes), opset), {"h": _values(2), "x": _values(*dims)})


def test_scan_keeps_types_of_results():
    model = _model("""g (int64 n, float[4] x) => (int64 last, float[A] y)
    {
        last, y = Scan <num_scan_inputs = 1, body = b (int64 s, float e) => (int64 t, float u)
            { one = Constant <value_int = 1> ()  t = Add (s, one)  u = Exp (e) }
        > (n, x)
    }""")
    _check(model, {"n": np.array(5, np.int64), "x": _values(4)})


def test_gradient_through_a_scan():
    imported = ocannl_onnx.load(_model(SCAN.format(xs="5, 2", attributes="")))
    x = RNG.normal(size=(5, 2))
    oc.testing.gradcheck(lambda h: imported(h, oc.tensor(x))[0], [0.5, -0.25])


def test_sequences():
    _check(
        _model("""g (float[5, 2] x) => (float[A, B] y, int64 n, float[C, D] e)
        {
            parts = SplitToSequence <axis = 0> (x)
            two = Constant <value_int = 2> ()
            first = SequenceAt (parts, two)
            longer = SequenceInsert (parts, first)
            shorter = SequenceErase (longer, two)
            y = ConcatFromSequence <axis = 0> (shorter)
            n = SequenceLength (shorter)
            last = Constant <value_int = -1> ()
            e = SequenceAt (shorter, last)
        }"""),
        {"x": _values(5, 2)},
    )


def test_position_in_an_empty_sequence_is_refused():
    model = _model("""g (float[2] x) => (float[A] y)
    { s = SequenceEmpty <dtype = 1> ()  zero = Constant <value_int = 0> ()  y = SequenceAt (s, zero) }""")
    with pytest.raises(ocannl_onnx.UnsupportedModel, match="empty sequence"):
        _ = ocannl_onnx.load(model).outputs


@pytest.mark.parametrize("attributes", ["", "<sorted = 0>", "<axis = 1>", "<axis = 1, sorted = 0>"])
def test_unique(attributes):
    rank = "N, M" if "axis" in attributes else "N"
    outputs = f"float[{rank}] y, int64[A] i, int64[B] v, int64[C] n"
    text = f"g (float[4, 6] x) => ({outputs}) {{ y, i, v, n = Unique {attributes} (x) }}"
    x = RNG.integers(0, 3, (4, 6)).astype(np.float32)
    x[:, 4] = x[:, 1]
    _check(_model(text), {"x": x}, {"x": np.zeros((4, 6), np.float32)})


def test_unique_of_results_is_refused():
    model = _model("g (float[4] x) => (float[A] y) { z = Exp (x)  y = Unique (z) }")
    with pytest.raises(ocannl_onnx.NeedsConstant, match="`x`"):
        _ = ocannl_onnx.load(model).outputs
    _check(model, {"x": np.array([1, 0, 1, 2], np.float32)})


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_non_max_suppression(seed, center):
    rng = np.random.default_rng(seed)
    text = f"""g (float[2, 30, 4] b, float[2, 3, 30] s, int64 m, float o, float t) => (int64[N, 3] y)
    {{ y = NonMaxSuppression <center_point_box = {center}> (b, s, m, o, t) }}"""
    boxes = rng.uniform(0, 1, (2, 30, 4)).astype(np.float32)
    scores = rng.uniform(0, 1, (2, 3, 30)).astype(np.float32).round(1)  # with equal scores
    _check(_model(text), {"b": boxes, "s": scores, "m": np.array(8, np.int64), "o": np.array(0.3, np.float32),
                          "t": np.array(0.25, np.float32)})  # fmt: skip


def test_nonzero():
    model = _model("g (float[3, 4] x) => (int64[A, B] y) { y = NonZero (x) }")
    _check(model, {"x": RNG.integers(0, 2, (3, 4)).astype(np.float32)}, {"x": np.zeros((3, 4), np.float32)})
