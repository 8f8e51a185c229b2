"""Random programs with many axes of size 1, judged by NumPy's rules of shapes."""
