"""Workloads at the sizes of GPUs, and the libraries that they are compared with."""
