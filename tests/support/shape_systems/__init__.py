"""Systems of operations on tensors of partly known shapes, for tests of the shape solver."""
