"""Public names of the language layer."""

from ocannl.base.errors import CodeError
from ocannl.ir.tnode import Placement
from ocannl.lang.block_application import is_training
from ocannl.lang.blocks import Block, op
from ocannl.lang.core import graph as traversal
from ocannl.lang.core.captured_sizes import Dim
from ocannl.lang.core.context_vars import no_grad
from ocannl.lang.core.dtype_inference import use_precision
from ocannl.lang.core.host_calls import host_call
from ocannl.lang.core.leaf_constructors import from_file, node, placeholder, tensor
from ocannl.lang.core.literals import batch
from ocannl.lang.core.parameter import param
from ocannl.lang.core.symbols import Symbol, symbol
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.training_mode import training
from ocannl.lang.declare import builtin_declarations
from ocannl.lang.declare.defop import defop
from ocannl.lang.ops import functions
from ocannl.lang.ops.control_flow import cond, scan, while_loop
from ocannl.lang.ops.functions import *  # noqa: F403
from ocannl.lang.ops.initializers import arange, full, init, kaiming, xavier
from ocannl.lang.ops.recomputation import recompute
from ocannl.lang.record.assignments import assign
from ocannl.lang.record.code import Code, seq
from ocannl.lang.record.jvp import jvp
from ocannl.lang.record.recorder import cd, comment
from ocannl.lang.record.states import state
from ocannl.lang.rewriting.graph import Graph, GraphNode, graph
from ocannl.lang.shape_check import infer, shape_of

builtin_declarations.attach()


def forward(*tensors: Tensor) -> Code:
    """Code that computes the tensors; every shared operand is computed once."""
    return traversal.forward(*(_tensor(t, "oc.forward") for t in tensors))


def _tensor(t: object, caller: str) -> Tensor:
    if not isinstance(t, Tensor):
        raise CodeError(f"{caller} takes tensors, not {t!r}")
    return t


def keep(t: Tensor) -> Tensor:
    """Requires every routine that computes `t` to keep its value in the context. This cannot be undone."""
    _tensor(t, "oc.keep").node.requested.set(Placement.KEPT, "oc.keep")
    return t


def virtual(t: Tensor) -> Tensor:
    """Requires every routine to treat the value of `t` as a temporary. This cannot be undone."""
    _tensor(t, "oc.virtual").node.requested.set(Placement.TEMPORARY, "oc.virtual")
    return t


__all__ = [
    "Block",
    "Code",
    "Dim",
    "Graph",
    "GraphNode",
    "Symbol",
    "Tensor",
    "arange",
    "assign",
    "batch",
    "cd",
    "comment",
    "cond",
    "defop",
    "forward",
    "from_file",
    "full",
    "graph",
    "host_call",
    "infer",
    "init",
    "is_training",
    "jvp",
    "kaiming",
    "keep",
    "no_grad",
    "node",
    "op",
    "param",
    "placeholder",
    "recompute",
    "scan",
    "seq",
    "shape_of",
    "state",
    "symbol",
    "tensor",
    "training",
    "use_precision",
    "virtual",
    "while_loop",
    "xavier",
]
__all__ += functions.__all__
