"""The operations of the language carry their declarations, which agree with what the functions accept."""

from __future__ import annotations

import inspect
import re
from typing import Any, get_args, get_origin

import numpy as np
import pytest

import ocannl as oc
from ocannl.lang.declare.builtin_conditions import CONDITIONS
from ocannl.lang.declare.builtin_declarations import builtin_functions
from ocannl.lang.declare.builtin_inputs import DOCS, INPUTS, KEYWORDS, RESULTS
from ocannl.lang.declare.builtin_settings import SETTINGS, SPECS
from ocannl.lang.declare.catalogue import OperationRow
from ocannl.lang.declare.declaration import Declaration
from ocannl.lang.declare.namespaces import complete_catalogue
from ocannl.lang.declare.samples import Draw

ROWS = complete_catalogue()
NAMES = {row.title: row for row in ROWS}


def test_functions_and_methods_have_declarations() -> None:
    for row in ROWS:
        module = getattr(oc, row.declaration.namespace) if row.declaration.namespace else oc
        public = getattr(oc.Tensor if row.is_method else module, row.name)
        assert isinstance(public.declaration, Declaration) and public.declaration.name == row.name
    assert oc.Tensor.relu.declaration is oc.relu.declaration  # type: ignore[attr-defined]
    declared = oc.conv2d.declaration  # type: ignore[attr-defined]
    assert list(declared.inputs) == ["x", "kernel"]
    assert declared.settings["stride"].default == 1 and "neighbouring windows" in declared.settings["stride"].doc
    assert declared.shape == "...|h, w, ic; kh, kw, ic, oc => ...|oh, ow, oc"
    assert oc.clip.declaration.optional == ("low", "high")  # type: ignore[attr-defined]
    assert oc.concat.declaration.variadic == "xs"  # type: ignore[attr-defined]


def test_modules_of_the_language_are_in_the_catalogue() -> None:
    for module in (oc.fft, oc.linalg):
        prefix = module.__name__.replace("ocannl", "oc")
        assert [row.call for row in sorted(ROWS, key=lambda row: row.call) if row.call.startswith(f"{prefix}.")] == [
            f"{prefix}.{name}" for name in module.__all__
        ]


def test_every_setting_is_documented() -> None:
    missing = {
        f"{row.call}({name}=)" for row in ROWS for name, s in row.declaration.settings.items() if not s.doc
    }  # fmt: skip
    assert not missing, "add them to ocannl/lang/declare/builtin_settings.py"
    used = {name for row in ROWS for name in row.declaration.settings}
    assert used >= SETTINGS.keys() and NAMES.keys() >= SPECS.keys() | CONDITIONS.keys() | INPUTS.keys()


def test_every_named_input_is_documented() -> None:
    """Those of a letter, such as `x` and `x1`, are the operands that the text of the operation speaks of."""
    inputs = {(row.call, name): spec.doc for row in ROWS for name, spec in row.declaration.inputs.items()}
    missing = [key for key, doc in inputs.items() if not doc and not re.fullmatch(r"[a-z]\d?", key[1])]
    assert not missing, "add them to ocannl/lang/declare/builtin_inputs.py"
    assert {name for _, name in inputs} >= DOCS.keys()


def test_keywords_that_are_tensors_are_optional_inputs() -> None:
    tables = {"weight", "positive_weight", "bias"}
    for row in ROWS:
        assert not tables & {n for n, s in row.declaration.settings.items() if s.kind is Any}
        assert set(KEYWORDS.get(row.title, ())) <= set(row.declaration.optional)
    assert NAMES.keys() >= KEYWORDS.keys()


def test_results_are_named_in_the_order_of_the_tuple() -> None:
    tuples = {row.title: get_args(returned) for row in ROWS
              if get_origin(returned := row.declaration.signature.return_annotation) is tuple}  # fmt: skip
    tuples = {title: kinds for title, kinds in tuples.items() if set(kinds) == {oc.Tensor}}
    assert {title: len(kinds) for title, kinds in tuples.items()} == {n: len(names) for n, names in RESULTS.items()}
    square = oc.tensor(np.array([[4.0, 1.0], [1.0, 3.0]]))
    u, s, vh = (part.numpy() for part in oc.linalg.svd(square))
    assert list(oc.linalg.svd.declaration.results) == ["u", "s", "vh"]  # type: ignore[attr-defined]
    np.testing.assert_allclose(u @ np.diag(s) @ vh, square.numpy(), atol=1e-6)


def test_every_operation_has_shapes_as_data() -> None:
    missing = {row.call for row in ROWS if not row.declaration.shape and re.search("Shapes: +`[^`]*=>", row.doc)}
    assert not missing


@pytest.mark.parametrize("name", [n for n in builtin_functions() if n.rpartition(".")[2] in INPUTS])
def test_operations_accept_the_declared_types(name: str) -> None:
    row = NAMES[name.rpartition(".")[2]]
    sample = row.samples[0]
    for position, (title, spec) in enumerate(row.declaration.inputs.items()):
        for dtype in ("float32", "int32", "uint8", "uint32", "bool"):
            operands = [_operand(o, row) for o in sample.operands]
            operands[position] = oc.tensor(np.ones(_dims(sample.operands[position]), dtype))
            accepts = spec.accepts(operands[position].typing.current)
            try:
                row.function(*operands, **sample.settings)
            except oc.OcannlError:
                assert not accepts, f"{name} refuses {dtype} as {title}"
            else:
                assert accepts, f"{name} accepts {dtype} as {title}"


def _operand(operand: Any, row: OperationRow) -> Any:
    if isinstance(operand, Draw):
        return oc.tensor(operand.array(np.random.default_rng(0)), batch_axes=operand.batch_axes,
                         input_axes=operand.input_axes)  # fmt: skip
    return oc.tensor(operand) if isinstance(operand, np.ndarray) else operand


def _dims(operand: Any) -> tuple[int, ...]:
    return operand.dims if isinstance(operand, Draw) else np.shape(operand)


REFUSED: dict[str, list[dict[str, Any]]] = {
    "conv": [{"stride": 0}, {"dilation": 0}, {"padding": "full"}, {"groups": 0}],
    "depthwise_conv": [{"stride": 0}, {"dilation": 0}, {"padding": "full"}, {"multiplier": 0}],
    "max_pool": [{"dilation": 0}, {"padding": "full"}, {"window": 0}],
    "avg_pool": [{"dilation": 0}, {"padding": "full"}, {"window": 0}],
    "dropout": [{"rate": -0.1}, {"rate": 1.0}],
    "iota": [{"n": -1}],
    "one_hot": [{"n": -1}],
    "threefry4x32": [{"rounds": 13}],
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_hold_for_samples_and_are_checked(name: str) -> None:
    row = NAMES[name]
    signature = inspect.signature(row.function)
    for sample in row.samples:
        bound = signature.bind(*sample.operands, **sample.settings)
        bound.apply_defaults()
        assert all(condition.test(bound.arguments) for condition in row.declaration.where)
    family = next(family for family in REFUSED if name.startswith(family))
    broken = set()
    for settings in REFUSED[family]:
        bound = signature.bind(*(_operand(o, row) for o in row.samples[0].operands), **row.samples[0].settings)
        bound.apply_defaults()
        bound.arguments |= settings
        broken |= {c.text for c in row.declaration.where if not c.test(bound.arguments)}
        with pytest.raises(oc.OcannlError):
            row.function(*bound.args, **bound.kwargs)
    assert broken == {condition.text for condition in row.declaration.where}, "each of them is tried"
