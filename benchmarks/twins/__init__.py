"""The models of the demonstrations, written once for PyTorch and JAX: functions of a library, weights and a batch."""
