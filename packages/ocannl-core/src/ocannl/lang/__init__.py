"""The language: tensors, gradients, recorded code, operations and blocks."""
