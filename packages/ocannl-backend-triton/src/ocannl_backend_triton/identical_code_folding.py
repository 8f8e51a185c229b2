"""Identical code folding: kernels that are equal up to renaming are compiled once."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ocannl_backend_triton.kernel_module import Kernel, KernelModule


class _AlphaRenamer(ast.NodeTransformer):
    """Renames the bound names of a function by order of appearance (alpha-conversion)."""

    def __init__(self, bound: set[str]) -> None:
        self.bound = bound
        self.names: dict[str, str] = {}

    def renamed(self, identifier: str) -> str:
        return self.names.setdefault(identifier, f"_{len(self.names)}") if identifier in self.bound else identifier

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.renamed(node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.renamed(node.arg), node.annotation)


def canonical_texts(module: KernelModule) -> dict[str, str]:
    """For each kernel, its source and that of the functions it calls, up to alpha-equivalence."""
    functions = {f.name: f for f in ast.parse(module.source).body if isinstance(f, ast.FunctionDef)}
    return {kernel.name: "\n".join(_called_functions(functions, kernel.name)) for kernel in module.kernels}


def _called_functions(functions: Mapping[str, ast.FunctionDef], name: str) -> list[str]:
    pending = [name]
    texts: list[str] = []
    while pending:
        name = pending.pop()
        nodes = list(ast.walk(functions[name]))
        bound = {node.arg for node in nodes if isinstance(node, ast.arg)}
        bound |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        function = _AlphaRenamer(bound).visit(functions[name])
        texts.append(ast.unparse(ast.FunctionDef(**{**vars(function), "name": name if texts else "_"})))
        callees = {node.id for node in nodes if isinstance(node, ast.Name)} & functions.keys() - bound
        pending += sorted(callees - {name})
    return texts


def specialization(kernel: Kernel) -> tuple[object, ...]:
    """Everything besides the source that determines the machine code of a kernel."""
    pointers = tuple((a.type, a.offset_bytes % 16 == 0) for a in kernel.arguments)
    return pointers, tuple(value for _, value in kernel.constants), kernel.num_warps, kernel.num_stages
