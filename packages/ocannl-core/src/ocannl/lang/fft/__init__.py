"""Discrete Fourier transforms: host calls with gradients, and the windows of spectral analysis."""
