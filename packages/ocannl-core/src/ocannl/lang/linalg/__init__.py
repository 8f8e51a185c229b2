"""Linear algebra by LAPACK: host calls with gradients."""
