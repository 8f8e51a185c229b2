"""What judges the rest: oracles, generators of programs, and the conformance kit."""
