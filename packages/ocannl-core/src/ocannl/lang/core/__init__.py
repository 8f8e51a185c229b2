"""Tensors: the expression graph, shapes, gradients and leaves."""
