"""The operations of the language carry their declarations, which agree with what the functions accept."""

from __future__ import annotations

import inspect
import itertools
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
from ocannl.lang.declare.conditions import Condition
from ocannl.lang.declare.declaration import Declaration
from ocannl.lang.declare.namespaces import complete_catalogue
from ocannl.lang.declare.samples import Draw, Sample

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


CLASS_TARGETS = {("cross_entropy", "target")}
"""Inputs whose integers have another shape: class ids in place of a distribution."""


@pytest.mark.parametrize("name", [n for n in builtin_functions() if n.rpartition(".")[2] in INPUTS])
def test_operations_accept_the_declared_types(name: str) -> None:
    row = NAMES[name.rpartition(".")[2]]
    sample, signature = row.samples[0], inspect.signature(row.function)
    originals = signature.bind(*sample.operands, **sample.settings).arguments
    for title, spec in row.declaration.inputs.items():
        if title not in originals or (row.name, title) in CLASS_TARGETS:
            continue
        for dtype in ("float32", "int32", "uint8", "uint32", "bool"):
            arguments = {n: _operand(value, row) for n, value in originals.items()}
            arguments[title] = _ones_like(originals[title], dtype)
            bound = inspect.BoundArguments(signature, arguments)
            accepts = spec.accepts(arguments[title].typing.current)
            try:
                row.function(*bound.args, **bound.kwargs)
            except oc.OcannlError:
                assert not accepts, f"{name} refuses {dtype} as {title}"
            else:
                assert accepts, f"{name} accepts {dtype} as {title}"


def _operand(operand: Any, row: OperationRow) -> Any:
    if isinstance(operand, Draw):
        return oc.tensor(operand.array(np.random.default_rng(0)), batch_axes=operand.batch_axes,
                         input_axes=operand.input_axes)  # fmt: skip
    return oc.tensor(operand) if isinstance(operand, np.ndarray) else operand


def _ones_like(operand: Any, dtype: str) -> oc.Tensor:
    dims = operand.dims if isinstance(operand, Draw) else np.shape(operand)
    rows = (operand.batch_axes, operand.input_axes) if isinstance(operand, Draw) else (0, 0)
    return oc.tensor(np.ones(dims, dtype), batch_axes=rows[0], input_axes=rows[1])


PADDED = re.compile(r"^(depthwise_|max_|avg_)?(conv|conv_transpose|pool)\dd$")


@pytest.mark.parametrize("name", list(filter(PADDED.match, CONDITIONS)))
def test_unknown_paddings_are_refused(name: str) -> None:
    row = NAMES[name]
    with pytest.raises(oc.OcannlError, match="padding"):
        row.function(*(_operand(o, row) for o in row.samples[0].operands), padding="full")


OPERANDS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("fft.blackman", "fft.hamming", "fft.hann", "fft.kaiser"), (4,)),
    "fft.irfft": (np.ones((3, 2)),),
    "fft.irfft2": (np.ones((2, 3, 2)),),
    "fft.stft": (np.ones(8), 4),
    "linalg.pinv": (np.eye(2),),
}
"""Operands of operations without samples."""

CANDIDATES = (None, 0, -1, -0.5, 3, 13, 100, True, "other")


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_hold_for_samples_and_are_checked(name: str) -> None:
    row = NAMES[name]
    signature = inspect.signature(row.function)
    samples = row.samples or (Sample(OPERANDS[name], {}),)
    for sample in samples:
        bound = signature.bind(*sample.operands, **sample.settings)
        bound.apply_defaults()
        assert all(condition.test(bound.arguments) is not False for condition in row.declaration.where)
    for condition in row.declaration.where:
        refused = []
        for changed, candidate in itertools.product([*((n,) for n in condition.names), condition.names], CANDIDATES):
            bound = signature.bind(*(_operand(o, row) for o in samples[0].operands), **samples[0].settings)
            bound.apply_defaults()
            bound.arguments |= dict.fromkeys(changed, candidate)
            if _fails(condition, bound.arguments):
                with pytest.raises(oc.OcannlError):
                    row.function(*bound.args, **bound.kwargs)
                refused.append(candidate)
        assert refused, f"no candidate breaks {condition.text}"


def _fails(condition: Condition, arguments: dict[str, Any]) -> bool:
    try:
        return condition.test(arguments) is False
    except oc.CodeError:  # of a candidate of another type
        return False
