"""Kernels that are the same but for names, so that what repeats in a program is compiled once."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ocannl_backend_triton.kernel import Kernel, Module


class _Renamed(ast.NodeTransformer):
    """Names that a function binds, by the order in which they appear."""

    def __init__(self, bound: set[str]) -> None:
        self.bound = bound
        self.names: dict[str, str] = {}

    def name(self, given: str) -> str:
        return self.names.setdefault(given, f"_{len(self.names)}") if given in self.bound else given

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.name(node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.name(node.arg), node.annotation)


def texts(module: Module) -> dict[str, str]:
    """Of each kernel, what it does: its text and those of the functions that it calls, in names of no meaning."""
    functions = {f.name: f for f in ast.parse(module.source).body if isinstance(f, ast.FunctionDef)}
    return {kernel.name: "\n".join(_text(functions, kernel.name)) for kernel in module.kernels}


def _text(functions: Mapping[str, ast.FunctionDef], name: str) -> list[str]:
    wanted = [name]
    found: list[str] = []
    while wanted:
        name = wanted.pop()
        nodes = list(ast.walk(functions[name]))
        bound = {node.arg for node in nodes if isinstance(node, ast.arg)}
        bound |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        function = _Renamed(bound).visit(functions[name])
        found.append(ast.unparse(ast.FunctionDef(**{**vars(function), "name": name if found else "_"})))
        called = {node.id for node in nodes if isinstance(node, ast.Name)} & functions.keys() - bound
        wanted += sorted(called - {name})
    return found


def shape(kernel: Kernel) -> tuple[object, ...]:
    """All but its text that decides what a kernel is compiled to."""
    pointers = tuple((a.type, a.offset_bytes % 16 == 0) for a in kernel.arguments)
    return pointers, tuple(value for _, value in kernel.constants), kernel.num_warps, kernel.num_stages
