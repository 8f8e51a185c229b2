"""What users write: tensors, their gradients as code, recorded code, operations and blocks."""
