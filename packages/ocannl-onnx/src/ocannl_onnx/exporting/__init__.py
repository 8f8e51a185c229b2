"""Export of expressions to ONNX: assignments with projections become operators on whole arrays."""
