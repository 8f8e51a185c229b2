"""The operations on tensors."""
