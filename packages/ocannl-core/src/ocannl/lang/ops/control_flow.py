"""Loops and branches in compiled programs: scans, bounded while loops, and conditional expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from ocannl.base.errors import CodeError, DtypeError, ShapeError
from ocannl.infer.logic import ALL_ROWS, EQUAL, Logic, einsum, pointwise
from ocannl.infer.parse import parse
from ocannl.infer.shape import Shape, relate
from ocannl.infer.spec import Fixed, RowSpec, ShapeSpec, Spec
from ocannl.infer.tensor_description import Provenance
from ocannl.infer.terms import find, resolve
from ocannl.ir.affine import Affine, SymKind
from ocannl.ir.assign import Index
from ocannl.ir.precision import Precision, float32, int32
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core import dtype_inference, nested
from ocannl.lang.core.applied_operation import Application
from ocannl.lang.core.branch_tensor import Branches, BranchTensor
from ocannl.lang.core.context_vars import CallSite, gradients_enabled, loop_positions, site
from ocannl.lang.core.dtype_inference import DtypeInference
from ocannl.lang.core.leaf import LeafName, leaf
from ocannl.lang.core.leaf_constructors import INFERRED, NO_AXES, embed
from ocannl.lang.core.loop_tensor import LoopBody, LoopTensor
from ocannl.lang.core.operation import Operation, contraction
from ocannl.lang.core.region_tensor import RegionResult, RegionTensor, no_code
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor, apply, use_site
from ocannl.lang.core.traced_function import TracedFunction, trace, with_reads_before
from ocannl.lang.record.code import recorder

MAX_STEPS = 1 << 31

_SAME = Logic("carry", parse("...|...->... => ...|...->..."), (EQUAL,), needs_axes=False)
_STACK = {
    "batch": einsum(parse("...|...->... => t...|...->...")),
    "output": einsum(parse("...|...->... => ...|...->t...")),
}


def scan(
    step: Callable[..., Any],
    init: Any,
    xs: Any = None,
    *,
    length: int | None = None,
    reverse: bool = False,
    recompute: bool | None = None,
) -> Any:
    """A loop that carries state: `carry, y = step(carry, x)` for each `x` along the leading axis of `xs`.

        def cell(h, x):
            h = oc.tanh(oc.param("w") @ h + x)
            return h, h

        last, hs = oc.scan(cell, h0, xs)

    Returns the carry after the last step, and the results `y` of all steps, stacked along a new leading axis. `init`,
    `xs` and `y` are tensors, None, or nested tuples, lists and mappings of these. `step` is called once; the compiled
    program contains its code once. It may use parameters and other tensors; expressions that depend neither on the
    carry nor on `x` are computed before the loop.

    `reverse` goes from the last `x` to the first; results stay at the position of their `x`. Without `xs`, `length` is
    the number of steps. The backward pass restores what the steps have saved; with `recompute=True` it computes each
    step again from its carry, which takes less memory. The default saves up to 256 MiB.

    Shapes: the leading axis of `xs` is the leftmost batch axis, or, without batch axes, the leftmost output axis. A
            carry has the same shape before and after a step; `init` is broadcast to it.
    Grad:   to `init`, `xs`, and to all tensors that `step` uses.
    Raises: CodeError, ShapeError and DtypeError where `step` does not return a carry like the one it received.
    """
    call_site, sequences = site(), [embed(value) for value in nested.leaves(xs)]
    _refuse_recorder("scan")
    if not callable(step):
        raise CodeError(f"oc.scan(step, init, xs) takes a function, not {step!r}"[:200])
    steps, kind = _length(sequences, length)
    position = _position(steps)
    counter = leaf(LeafName("step"), Role.RESULT, int32, NO_AXES, literal=lambda: Index(Affine.of(position)))
    carries, initial = _carries(init, call_site)
    elements = [_element(sequence, position, kind) for sequence in sequences]

    arguments = nested.rebuilt(init, carries), nested.rebuilt(xs, elements)
    function = _traced(step, arguments, counter, [*carries, *elements])
    if not isinstance(function.structure, tuple) or len(function.structure) != 2:
        raise CodeError(f"the function of oc.scan returns a pair (carry, y), not {function.structure!r}"[:300])
    after, y = function.structure
    _check_carry("scan", init, after)
    body = LoopBody(position, carries, initial, function, (), kind, is_reversed=reverse, recompute=recompute)
    results = loop_results("scan", body, call_site)
    return nested.rebuilt(init, results[: len(carries)]), nested.rebuilt(y, results[len(carries) :])


def while_loop(
    condition: Callable[..., Any], step: Callable[..., Any], init: Any, *, bound: int, recompute: bool | None = None
) -> Any:
    """Repeats `carry = step(carry)` while `condition(carry)` is not 0, at most `bound` times; returns the last carry.

        x = oc.while_loop(lambda x: x * x > 2.0, lambda x: 0.5 * (x + 2.0 / x), 2.0, bound=50)

    The condition is a scalar, and is evaluated on the device. The bound limits the number of steps whose values the
    backward pass restores.

    Shapes: a carry has the same shape before and after a step; `init` is broadcast to it.
    Grad:   to `init` and to all tensors that `step` uses; none to the condition.
    Raises: CodeError, ShapeError and DtypeError where `step` does not return a carry like the one it received.
    """
    call_site = site()
    _refuse_recorder("while_loop")
    steps, kind = _length([], bound)
    position = _position(steps)
    counter = leaf(LeafName("step"), Role.RESULT, int32, NO_AXES, literal=lambda: Index(Affine.of(position)))
    carries, initial = _carries(init, call_site)
    function = _traced(step, (nested.rebuilt(init, carries),), counter, carries)
    _check_carry("while_loop", init, function.structure)
    test = _traced(condition, (nested.rebuilt(init, carries),), counter, carries)
    if len(test.results) != 1:
        raise CodeError("the condition of oc.while_loop returns one scalar")
    relate(_SCALAR, [test.results[0].handle], None, test.results[0].provenance)
    body = LoopBody(position, carries, initial, function, (), kind, condition=test, recompute=recompute)
    return nested.rebuilt(init, loop_results("while_loop", body, call_site))


def cond(condition: object, if_true: Callable[..., Any], if_false: Callable[..., Any], *operands: Any) -> Any:
    """`if_true(*operands)` where the condition is not 0, otherwise `if_false(*operands)`: only one is executed.

        y = oc.cond(x.sum() > 0.0, lambda x: oc.log(x), lambda x: 0.0 * x, x)

    The condition is a scalar, and is evaluated on the device; to choose element by element, use `oc.where`. Both
    functions are called once. What they build is executed in their branch; what exists before is computed before.

    Shapes: both functions return tensors of the same shapes and types, in nested tuples, lists and mappings.
    Grad:   to all tensors that the executed branch uses; none to the condition.
    Raises: CodeError, ShapeError and DtypeError where the functions return different structures, shapes or types.
    """
    call_site, chooser = site(), embed(condition)
    _refuse_recorder("cond")
    arguments = [nested.rebuilt(value, [embed(leaf) for leaf in nested.leaves(value)]) for value in operands]
    branches = Branches(chooser, *(with_reads_before(trace(branch, arguments, None)) for branch in (if_true, if_false)))
    true, false = branches.if_true, branches.if_false
    if nested.outline(true.structure) != nested.outline(false.structure):
        raise CodeError(
            f"the functions of oc.cond return different structures: {nested.outline(true.structure)} and "
            f"{nested.outline(false.structure)}"
        )
    return nested.rebuilt(true.structure, conditional_results(branches, call_site))


def conditional_results(branches: Branches, call_site: CallSite) -> list[Tensor]:
    """The results of a conditional expression. Raises: DtypeError, ShapeError if the branches differ in them."""
    true, false = branches.if_true, branches.if_false
    relate(_SCALAR, [branches.condition.handle], None, branches.condition.provenance)
    owner = region(BranchTensor, "cond", branches.inputs, call_site)
    owner.branches = branches
    results = []
    for number, (a, b) in enumerate(zip(true.results, false.results, strict=True)):
        if a.typing.current is not b.typing.current:
            raise DtypeError(f"the branches of oc.cond are {a.typing.current} and {b.typing.current}: use .astype(...)")
        results.append(region_result(owner, number, a, partial(_common_shape, a, b)))
    return results


def _common_shape(a: Tensor, b: Tensor, result: Tensor) -> Shape:
    return relate(_BOTH, [a.handle, b.handle], None, result.provenance)


_BOTH = Logic("cond", parse("...|...->...; ...|...->... => ...|...->..."), (EQUAL, EQUAL), needs_axes=False)
_SCALAR = Logic("condition", parse("=> "), (EQUAL,), needs_axes=False)


def _refuse_recorder(name: str) -> None:
    if recorder.get() is not None:
        raise CodeError(f"oc.{name} is an expression: build it outside of oc.cd, and use its results there")


def _length(sequences: Sequence[Tensor], length: int | None) -> tuple[int, str]:
    """The number of steps, and the row whose leading axis is the axis of steps."""
    kind = "batch"
    for t in sequences:
        batch, _, output = (resolve(row) for row in t.handle.rows)
        row = batch
        if batch.count == 0 and batch.var is None:
            kind, row = "output", output
        leading = row.lead or (row.trail if row.var is None else ())
        size = find(leading[0]).size if leading else None
        if row.var is None and not leading:
            raise ShapeError(f"`{t.label}` has no axis of steps: oc.scan iterates over the leading axis of `xs`")
        if size is not None and length is not None and size != length:
            raise ShapeError(f"`{t.label}` has {size} steps, but other sequences or `length` have {length}")
        length = size if size is not None else length
    if length is None:
        names = " and ".join(f"`{t.label}`" for t in sequences)
        reason = f"the length of {names} is not known yet" if sequences else "there are no `xs`"
        raise CodeError(f"oc.scan needs the number of steps: {reason}; give length=...")
    if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length < MAX_STEPS:
        raise CodeError(f"the number of steps is an integer from 0 to {MAX_STEPS - 1}, not {length!r}")
    return length, kind


def _position(steps: int) -> Symbol:
    return Symbol("t", 0, steps - 1, SymKind.ITERATION)


def _element(sequence: Tensor, position: Symbol, kind: str) -> Tensor:
    """The slice of a sequence at one step."""
    at = RowSpec((Fixed(position),), (ALL_ROWS.batch if kind == "batch" else ALL_ROWS.output).var)
    rows = (at, ALL_ROWS.input, ALL_ROWS.output) if kind == "batch" else (ALL_ROWS.batch, ALL_ROWS.input, at)
    logic = Logic("slice", Spec((ShapeSpec(*rows),), ALL_ROWS), (EQUAL,), needs_axes=False)
    name = "slice" if kind == "batch" else "element"
    operation = contraction(name, logic, lambda v: v, None, text=f"{{0}}[{position.name}]")
    return apply(operation, [sequence], label=sequence.label)


def _carries(init: Any, call_site: CallSite) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The carries, as leaves, and their initial values."""
    values = list(nested.leaves(init))
    if not values:
        raise CodeError("a loop needs a carry: `init` holds no tensor")
    initial = tuple(map(embed, values))
    return tuple(_carry(v, t, call_site) for v, t in zip(values, initial, strict=True)), initial


def restarted_carries(
    carries: Sequence[Tensor], initial: Sequence[Tensor], call_site: CallSite
) -> tuple[Tensor, ...]:
    """Carries like those of another loop, with initial values of their own."""
    kinds = [carry.typing.current for carry in carries]
    return tuple(_typed_carry(t, kind, call_site) for t, kind in zip(initial, kinds, strict=True))


def _carry(value: Any, initial: Tensor, call_site: CallSite) -> Tensor:
    has_type = isinstance(value, Tensor) and not initial.typing.is_open
    is_weak = initial.literal is not None and initial.typing.is_float and not has_type
    kind = None if is_weak else initial.typing.settle(lambda: f"the carry that starts as `{initial.label}`")
    return _typed_carry(initial, kind, call_site)


def _typed_carry(initial: Tensor, kind: Precision | None, call_site: CallSite) -> Tensor:
    is_float = kind is None or kind.is_float
    name = LeafName(initial.label if initial.literal is None else "carry", call_site.where)
    carry = leaf(name, Role.RESULT, kind, INFERRED, has_gradient=is_float and gradients_enabled.get())
    relate(pointwise(1), [initial.handle], carry.handle, _provenance(carry, "starts", initial, call_site))
    return carry


def _traced(
    function: Callable[..., Any], arguments: Sequence[Any], counter: Tensor, variables: Sequence[Tensor]
) -> TracedFunction:
    token = loop_positions.set((*loop_positions.get(), counter))
    try:
        return trace(function, arguments, (*variables, counter))
    finally:
        loop_positions.reset(token)


def _check_carry(name: str, init: Any, after: Any) -> None:
    """Checks that the step returns a carry of the same structure."""
    if nested.outline(init) != nested.outline(after):
        raise CodeError(
            f"the carry of oc.{name} starts as {nested.outline(init)}, and the step returns {nested.outline(after)}: "
            "both have the same structure"
        )


def loop_results(name: str, body: LoopBody, call_site: CallSite) -> list[Tensor]:
    """The results of a loop: the carries after the last step, then the stacked results of the steps."""
    loop = region(LoopTensor, name, body.inputs, call_site)
    loop.body = body
    results = []
    for number, (carry, after) in enumerate(zip(body.carries, body.next, strict=True)):
        _check_type(name, carry, after)
        relate(_SAME, [after.handle], carry.handle, _provenance(carry, "continues", after, call_site))
        results.append(region_result(loop, number, carry, partial(same_shape, carry)))
    for number, y in enumerate(body.ys, len(body.carries)):
        results.append(region_result(loop, number, y, partial(_stacked_shape, y, body.position.extent, body.row)))
    loop.body = replace(body, stacked=tuple(t.node for t in results[len(body.carries) :]))
    return results


R = TypeVar("R", bound=RegionTensor)


def region(kind: type[R], name: str, inputs: tuple[Tensor, ...], call_site: CallSite) -> R:
    """A tensor that owns the code of a loop or of branches that read `inputs`."""
    has_gradient = gradients_enabled.get() and any(t.has_gradient for t in inputs)
    node = TNode(name, Role.RESULT, tuple, lambda: float32, where=call_site.where)
    application: Application[Tensor] = Application(Operation(name, pointwise(0), no_code, no_code), inputs, {})
    typing = dtype_inference.leaf_dtype(float32).bind(node)
    return kind(node, _scalar, typing, application=application, has_gradient=has_gradient)


def region_result(region: RegionTensor, number: int, of: Tensor, emit: Callable[[Tensor], Shape]) -> Tensor:
    kind = of.typing.settle(use_site)
    result: Tensor
    node = TNode(of.label, Role.RESULT, lambda: result.dims, lambda: kind, where=region.node.where)
    typing = DtypeInference(kind, gradient=of.typing.gradient)
    typing.settle("its creation")
    result = Tensor(
        node, emit, typing.bind(node), is_named=False, application=RegionResult(region, number, emit),
        has_gradient=region.has_gradient and of.has_gradient,
    )  # fmt: skip
    return result


def _provenance(carry: Tensor, verb: str, value: Tensor, call_site: CallSite) -> Provenance:
    text = f"the carry, which {verb} as `{value.label}`"
    return Provenance(lambda: carry.label, "carry", lambda: text, call_site.where)


def same_shape(carry: Tensor, _: Tensor) -> Shape:
    return carry.emit()


def _stacked_shape(y: Tensor, steps: int, kind: str, result: Tensor) -> Shape:
    return relate(_STACK[kind], [y.handle], None, result.provenance, sizes={"t": steps})


def _scalar(loop: Tensor) -> Shape:
    return Shape.leaf(loop.provenance, batch=[], input=[], output=[], role="result")


def _check_type(name: str, carry: Tensor, after: Tensor) -> None:
    before, then = carry.typing.current, after.typing.current
    if before is not then:
        if then.is_float and not before.is_float:
            fix = "start from a float, such as 0.0"
        else:
            fix = f"start from a tensor of {then}, such as oc.tensor(0.0, dtype=oc.{then}), or use .astype(oc.{before})"
        raise DtypeError(
            f"the carry `{carry.label}` of oc.{name} is {before} before a step, and {then} after it: {fix}"
        )
