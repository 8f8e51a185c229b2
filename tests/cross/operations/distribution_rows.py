"""Random numbers of distributions are compared with SciPy, in `test_distributions.py`."""

MISSING = {
    "PyTorch draws other numbers, from another generator": """
        beta categorical choice exponential gamma gumbel laplace logistic multinomial permutation poisson rademacher
        truncated_normal""",
}
ROWS = ()
