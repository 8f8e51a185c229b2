"""Random networks, as differential tests of the whole compiler; see `generate`."""
