"""The reference backend: interprets loop programs in NumPy; slow, exact, the oracle of every other backend."""
