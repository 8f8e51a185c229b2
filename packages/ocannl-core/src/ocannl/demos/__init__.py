"""Complete small programs on data that comes with other packages: `ocannl demo NAME` runs them."""
