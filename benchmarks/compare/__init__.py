"""ocannl beside its peers: the same mathematics, measured in one run."""
