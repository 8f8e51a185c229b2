"""The conformance kit on every backend."""

from ocannl.testing.test_conformance import *  # noqa: F403
