"""Loop programs, generated and hand-written, for tests of the optimizer and of code generators."""
